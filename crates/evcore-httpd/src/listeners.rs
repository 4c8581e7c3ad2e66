//! Opens the listeners. A listener is inherited from an older binary, opened by a service manager
//! (socket activation), kept by the manager since the last run, or bound to an address of the
//! options.

use std::{error::Error, net::SocketAddr};

use evcore::{
    Listener,
    net::{Address, SocketOptions},
};
use evcore_serve::prefork::{LISTEN_FDS, activated, inherited, is_activated, stored_listeners};
use rustix::net::sockopt;

use crate::{
    log::{log, notice},
    options::Options,
    socket_files::SocketFiles,
};

pub struct Passed {
    listeners: Inherited,
    /// True if a service manager has opened the listeners, for this binary or for an older one. In
    /// that case, the manager also removes the files of Unix sockets.
    by_manager: bool,
}

impl Passed {
    /// Takes the listeners that this process was started with. Adds to the options the addresses of
    /// those that a service manager has opened. If the options then have no address, adds the
    /// default one.
    ///
    /// Call this before other descriptors are opened.
    pub fn take(options: &mut Options) -> Result<Self, Box<dyn Error>> {
        let mut listeners = Vec::new();
        let listener = |descriptor| {
            Listener::from_fd(descriptor).map_err(|error| format!("{LISTEN_FDS}: {error}"))
        };
        for descriptor in activated()? {
            listeners.push(listener(descriptor)?);
        }
        for descriptor in inherited()? {
            listeners.push(Listener::from_fd(descriptor)?);
        }
        // The environment variables of the activation stay set, so a newer binary finds them too.
        // An upgrade removes variables that are left over from another process.
        let by_manager = is_activated();
        if by_manager {
            for listener in &listeners {
                let address = listener.local_addr();
                if !options.listen.contains(address) {
                    options.listen.push(address.clone());
                }
            }
        }
        // Listeners that were kept add no address, because this start may have other addresses.
        for descriptor in stored_listeners()? {
            listeners.push(listener(descriptor)?);
        }
        if options.listen.is_empty() {
            options
                .listen
                .push(SocketAddr::from(([127, 0, 0, 1], 8080)).into());
        }
        Ok(Self {
            listeners: Inherited(listeners),
            by_manager,
        })
    }
}

/// Opens all listeners: one set for all workers, or with `reuseport` a set for each worker. Their
/// socket files are added to `files`, except those of a service manager, even if a later listener
/// cannot be opened.
///
/// The master opens them before any worker starts, and keeps them open when a worker ends, because
/// closing a listener would reset the connections in its backlog.
pub fn open(
    options: &Options,
    passed: Passed,
    files: &mut SocketFiles,
) -> Result<Vec<Vec<Listener>>, Box<dyn Error>> {
    let sets = if options.own_listeners() {
        options.workers()
    } else {
        1
    };
    let Passed {
        listeners: mut old,
        by_manager,
    } = passed;
    let mut all = Vec::with_capacity(sets);
    let mut addresses = options.listen.clone();
    for _ in 0..sets {
        let claimed = old.claim(&addresses).into_iter();
        let set = claimed.zip(&addresses).map(|(claimed, address)| {
            let is_managed = by_manager && claimed.is_some();
            let listener = match claimed {
                Some(listener) => with_options(listener, options)?,
                None => bind(address, options).map_err(|error| format!("{error} (--listen)"))?,
            };
            if !is_managed {
                files.add(&listener);
            }
            Ok(listener)
        });
        let set = set.collect::<Result<Vec<_>, Box<dyn Error>>>()?;
        // For port 0, the other sets use the port of the first.
        addresses = set.iter().map(Listener::local_addr).cloned().collect();
        all.push(set);
    }
    old.close(files);
    Ok(all)
}

fn bind(address: &Address, options: &Options) -> Result<Listener, evcore::net::Error> {
    let mut socket = SocketOptions::new();
    if let Some(bytes) = options.send_buffer {
        socket = socket.send_buffer(bytes);
    }
    let builder = Listener::builder().reuse_port(options.own_listeners());
    builder.socket(socket).bind(address)
}

/// Sets the options of a listener that another process has opened. Connections that already wait in
/// its backlog do not get the options.
fn with_options(listener: Listener, options: &Options) -> Result<Listener, Box<dyn Error>> {
    options.allow_send_buffer(listener.local_addr())?;
    if let Some(bytes) = options.send_buffer {
        let bytes = usize::try_from(bytes)?;
        sockopt::set_socket_send_buffer_size(&listener, bytes)
            .map_err(|error| format!("--send-buffer {bytes}: {error}"))?;
    }
    Ok(listener)
}

/// Returns a function that logs the listening addresses on its first call. Call it when a worker is
/// ready and signals are handled, because a reader of these lines may send a signal at once.
pub fn announcement(listeners: &[Listener]) -> impl FnMut() + use<> {
    let addresses = listeners.iter().map(Listener::local_addr);
    let mut addresses: Vec<_> = addresses.cloned().collect();
    move || {
        for address in addresses.drain(..) {
            log(format_args!("listening on {address}"));
        }
    }
}

/// Listeners of another process that are not claimed yet.
struct Inherited(Vec<Listener>);

impl Inherited {
    /// Returns a listener for each address, if there is one. Such a listener has the same address
    /// or, for port 0, any port that no other address names.
    fn claim(&mut self, addresses: &[Address]) -> Vec<Option<Listener>> {
        let by_number = addresses
            .iter()
            .map(|address| self.take(|there| there == address));
        let mut claimed: Vec<_> = by_number.collect();
        for (claimed, wanted) in claimed.iter_mut().zip(addresses) {
            if claimed.is_none() {
                *claimed =
                    self.take(|there| serves_as(there, wanted) && !addresses.contains(there));
            }
        }
        claimed
    }

    fn close(self, files: &mut SocketFiles) {
        for listener in &self.0 {
            let address = listener.local_addr();
            notice(format_args!("httpd: no longer listening on {address}"));
            files.add_left_over(listener);
        }
    }

    /// Takes the first listener with a matching address out of the list.
    fn take(&mut self, matches_address: impl Fn(&Address) -> bool) -> Option<Listener> {
        let found = self.0.iter();
        let at = found.map(Listener::local_addr).position(matches_address)?;
        Some(self.0.remove(at))
    }
}

/// Returns whether `wanted` has port 0 and a listener at `there` matches it.
fn serves_as(there: &Address, wanted: &Address) -> bool {
    match (there.tcp(), wanted.tcp()) {
        (Some(there), Some(wanted)) => wanted.port() == 0 && there.ip() == wanted.ip(),
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use std::os::fd::AsFd;

    use super::*;

    fn any_port() -> Address {
        "127.0.0.1:0".parse().expect("an address")
    }

    fn old(count: usize) -> (Inherited, Vec<Address>) {
        let listeners: Vec<_> = (0..count)
            .map(|_| Listener::bind(any_port()).expect("a free port"))
            .collect();
        let addresses = listeners.iter().map(Listener::local_addr).cloned();
        let addresses = addresses.collect();
        (Inherited(listeners), addresses)
    }

    fn claimed(old: &mut Inherited, wanted: &[Address]) -> Vec<Option<Address>> {
        let claimed = old.claim(wanted).into_iter();
        claimed
            .map(|listener| listener.map(|listener| listener.local_addr().clone()))
            .collect()
    }

    #[test]
    fn an_inherited_listener_is_claimed_by_its_address() {
        let (mut old, there) = old(2);
        let wanted = [there[1].clone(), there[0].clone()];
        assert_eq!(
            claimed(&mut old, &wanted),
            [Some(there[1].clone()), Some(there[0].clone())]
        );
        assert!(old.0.is_empty());
    }

    #[test]
    fn an_address_that_is_gone_leaves_its_listener_unclaimed() {
        let (mut old, there) = old(2);
        let wanted = [
            "127.0.0.2:1".parse().expect("an address"),
            there[1].clone(),
            "unix:/nowhere".parse().expect("an address"),
        ];
        assert_eq!(
            claimed(&mut old, &wanted),
            [None, Some(there[1].clone()), None]
        );
        assert_eq!(old.0.len(), 1);
        assert_eq!(old.0[0].local_addr(), &there[0]);
    }

    #[test]
    fn port_0_claims_listeners_that_no_address_names() {
        let (mut old, there) = old(3);
        let wanted = [any_port(), there[0].clone(), any_port(), any_port()];
        let of = |at: usize| Some(there[at].clone());
        assert_eq!(
            claimed(&mut old, &wanted),
            [of(1), of(0), of(2), None],
            "the fourth is bound anew"
        );
    }

    #[test]
    fn a_second_listener_of_an_address_is_for_the_next_set() {
        let (mut old, there) = old(1);
        let twin = old.0[0].as_fd().try_clone_to_owned();
        let twin = Listener::from_fd(twin.expect("a descriptor")).expect("it listens");
        old.0.push(twin);
        let wanted = [any_port(), there[0].clone()];
        assert_eq!(claimed(&mut old, &wanted), [None, Some(there[0].clone())]);
        assert_eq!(claimed(&mut old, &wanted), [None, Some(there[0].clone())]);
    }
}
