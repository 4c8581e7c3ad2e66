//! The listeners that all workers share.

use std::{io, os::fd::AsFd};

use evcore::net::{Address, Error, ListenerOptions};
use evcore::{Builder, Listener};
use evcore_prefork::inherited;

/// Listeners, and those of an older binary that are not taken over yet.
#[derive(Debug, Default)]
pub(crate) struct Listeners {
    pub(crate) open: Vec<Listener>,
    /// `None` until the first look.
    inherited: Option<Vec<Listener>>,
}

impl Listeners {
    /// Takes over the listener of the older binary at this address, if there is one, or binds.
    pub(crate) fn bind(
        &mut self,
        address: impl TryInto<Address, Error: Into<Error>>,
        options: &ListenerOptions,
    ) -> io::Result<()> {
        let address = address.try_into().map_err(Into::into)?;
        if self.inherited.is_none() {
            let descriptors = inherited()?.into_iter();
            let listeners = descriptors.map(Listener::from_fd);
            self.inherited = Some(listeners.collect::<Result<_, _>>()?);
        }
        let old = self.inherited.get_or_insert_default();
        let listener = match old
            .iter()
            .position(|old| serves(old.local_addr(), &address))
        {
            Some(at) => old.swap_remove(at),
            None => options.bind(&address)?,
        };
        self.open.push(listener);
        Ok(())
    }

    /// The same listeners for another thread.
    pub(crate) fn duplicate(&self) -> io::Result<Vec<Listener>> {
        let again = |listener: &Listener| -> io::Result<Listener> {
            Ok(Listener::from_fd(listener.as_fd().try_clone_to_owned()?)?)
        };
        self.open.iter().map(again).collect()
    }
}

/// Whether a listener there serves this address. For port 0 it may have any port.
fn serves(there: &Address, wanted: &Address) -> bool {
    let has_any_port = match (there.tcp(), wanted.tcp()) {
        (Some(there), Some(wanted)) => wanted.port() == 0 && there.ip() == wanted.ip(),
        _ => false,
    };
    there == wanted || has_any_port
}

/// Adds each listener to the builder of a loop.
pub(crate) fn add_all(builder: Builder, listeners: Vec<Listener>) -> Builder {
    listeners.into_iter().fold(builder, Builder::listener)
}
