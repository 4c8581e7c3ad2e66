//! The listeners that all workers share, and each worker's own.

use std::io;
use std::os::fd::AsFd;

use evcore::net::{Address, Error, ListenerOptions};
use evcore::{Builder, Listener};
use evcore_prefork::{STORED_LISTENER, inherited, is_activated, stored_listeners};

use crate::service_store;

/// The listeners of the server. `inherited` has the listeners of an older binary, and of the last
/// run of the service, that are not taken over yet.
#[derive(Debug, Default)]
pub(crate) struct Listeners {
    pub(crate) open: Vec<Listener>,
    /// The listeners that belong to one worker each, by its index. Empty if no worker has its own.
    pub(crate) own: Vec<Vec<Listener>>,
    /// `None` until `bind` is called.
    inherited: Option<Vec<Listener>>,
}

impl Listeners {
    /// Takes over the listener that the older binary or the last run had at this address. Binds a
    /// new one if there is none.
    pub(crate) fn bind(
        &mut self,
        address: impl TryInto<Address, Error: Into<Error>>,
        options: &ListenerOptions,
    ) -> io::Result<()> {
        let address = address.try_into().map_err(Into::into)?;
        if self.inherited.is_none() {
            let descriptors = inherited()?.into_iter().chain(stored_listeners()?);
            let listeners = descriptors.map(Listener::from_fd);
            self.inherited = Some(listeners.collect::<Result<_, _>>()?);
        }
        let old = self.inherited.get_or_insert_default();
        let listener = match old
            .iter()
            .position(|old| serves(old.local_addr(), &address))
        {
            Some(at) => old.remove(at),
            None => options.bind(&address)?,
        };
        self.open.push(listener);
        Ok(())
    }

    /// Closes the listeners that were not taken over, because no worker would accept their clients.
    pub(crate) fn close_inherited(&mut self) {
        if self.inherited.take().is_none() {
            // If the program has taken the inherited listeners itself, `inherited` returns an
            // error.
            drop((inherited(), stored_listeners()));
        }
    }

    /// Makes a service manager keep the TCP listeners while the service restarts, unless it has
    /// passed listeners itself. The listener of a Unix socket is not kept, because a stop removes
    /// the socket's file.
    ///
    /// # Errors
    ///
    /// The errors of [`service_store::replace`].
    pub(crate) fn keep(&self) -> io::Result<()> {
        let is_bound_here = !is_activated();
        let kept = self
            .iter()
            .filter(|listener| is_bound_here && listener.local_addr().tcp().is_some());
        let kept: Vec<_> = kept.map(AsFd::as_fd).collect();
        service_store::replace(STORED_LISTENER, &kept)
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = &Listener> {
        self.open.iter().chain(self.own.iter().flatten())
    }

    /// Returns the listeners of a worker process, and closes the others in it.
    pub(crate) fn into_worker(mut self, worker: usize) -> Vec<Listener> {
        if !self.own.is_empty() {
            self.open.extend(self.own.swap_remove(worker));
        }
        self.open
    }

    /// Returns duplicates of the listeners of a worker, for its thread.
    pub(crate) fn duplicate(&self, worker: usize) -> io::Result<Vec<Listener>> {
        let again = |listener: &Listener| -> io::Result<Listener> {
            Ok(Listener::from_fd(listener.as_fd().try_clone_to_owned()?)?)
        };
        let own = self.own.get(worker).into_iter().flatten();
        self.open.iter().chain(own).map(again).collect()
    }
}

/// Returns whether a listener at the address `there` serves the address `wanted`. Port 0 stands for
/// any port.
fn serves(there: &Address, wanted: &Address) -> bool {
    let has_any_port = match (there.tcp(), wanted.tcp()) {
        (Some(there), Some(wanted)) => wanted.port() == 0 && there.ip() == wanted.ip(),
        _ => false,
    };
    there == wanted || has_any_port
}

pub(crate) fn add_all(builder: Builder, listeners: Vec<Listener>) -> Builder {
    listeners.into_iter().fold(builder, Builder::listener)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn listeners() -> (Listeners, [Address; 3]) {
        let all = [(); 3].map(|()| Listener::bind("127.0.0.1:0").unwrap());
        let addresses = all.each_ref().map(|listener| listener.local_addr().clone());
        let [shared, first, second] = all;
        let listeners = Listeners {
            open: vec![shared],
            own: vec![vec![first], vec![second]],
            ..Listeners::default()
        };
        (listeners, addresses)
    }

    fn addresses(listeners: &[Listener]) -> Vec<&Address> {
        listeners.iter().map(Listener::local_addr).collect()
    }

    #[test]
    fn a_worker_gets_the_shared_listeners_and_its_own() {
        for worker in [0, 1] {
            let (listeners, there) = listeners();
            assert!(listeners.iter().map(Listener::local_addr).eq(&there));
            let expected = [&there[0], &there[1 + worker]];
            let thread = listeners.duplicate(worker).unwrap();
            assert_eq!(addresses(&thread), expected);
            assert_eq!(addresses(&listeners.into_worker(worker)), expected);
        }
    }
}
