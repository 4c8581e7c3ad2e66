//! Where the listeners come from: an older binary that passes them on, or the addresses of the
//! options.

use std::error::Error;

use evcore::{Listener, accept::Address};
use evcore_prefork::inherited;

use crate::{log::log, options::Options, socket_files::SocketFiles};

/// Opens all listeners: a set for all workers; or, with `reuseport`, one for each. Their files are
/// added to `files`, also where not all of them can be opened.
///
/// They are all made before any worker, so that they stay open when one goes: whoever waits at a
/// listener that is closed is sent away.
pub fn open(
    options: &Options,
    files: &mut SocketFiles,
) -> Result<Vec<Vec<Listener>>, Box<dyn Error>> {
    let spread_by_kernel = options.own_listeners;
    let sets = if spread_by_kernel { options.workers } else { 1 };
    let mut legacy = Legacy(inherited_listeners()?);
    let mut all = Vec::with_capacity(sets);
    let mut addresses = options.listen.clone();
    for _ in 0..sets {
        let claimed = legacy.claim(&addresses).into_iter();
        let set = claimed.zip(&addresses).map(|(claimed, address)| {
            let bind = || Listener::builder().reuse_port(spread_by_kernel);
            let listener = claimed.map_or_else(|| bind().bind(address), Ok)?;
            files.add(&listener);
            Ok(listener)
        });
        let set = set.collect::<Result<Vec<_>, Box<dyn Error>>>()?;
        // Where port 0 was asked for, the others listen at the one that came of it.
        addresses = set.iter().map(Listener::local_addr).cloned().collect();
        all.push(set);
    }
    legacy.close(files);
    Ok(all)
}

/// Logs where the server listens, the first time that it is called: when a worker serves, and
/// signals are heeded, since whoever waits for these lines may send one at once.
pub fn announcement(listeners: &[Listener]) -> impl FnMut() + use<> {
    let addresses = listeners.iter().map(Listener::local_addr);
    let mut addresses: Vec<_> = addresses.cloned().collect();
    move || {
        for address in addresses.drain(..) {
            log(format_args!("listening on {address}"));
        }
    }
}

/// What an older binary has passed on, and nobody has claimed yet, in the order in which it opened
/// them.
struct Legacy(Vec<Listener>);

impl Legacy {
    /// The listener for each address, where there is one: at that very address, or for port 0 at
    /// any port that is not asked for by its number.
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

    /// Closes those that nobody has claimed.
    fn close(self, files: &mut SocketFiles) {
        for listener in &self.0 {
            let address = listener.local_addr();
            log(format_args!("httpd: no longer listening on {address}"));
            files.add_left_over(listener);
        }
    }

    /// The first at an address that will do.
    fn take(&mut self, will_do: impl Fn(&Address) -> bool) -> Option<Listener> {
        let found = self.0.iter();
        let at = found.map(Listener::local_addr).position(will_do)?;
        Some(self.0.remove(at))
    }
}

/// Whether a listener at `there` is what somebody wanted who left the port to the system.
fn serves_as(there: &Address, wanted: &Address) -> bool {
    match (there.tcp(), wanted.tcp()) {
        (Some(there), Some(wanted)) => wanted.port() == 0 && there.ip() == wanted.ip(),
        _ => false,
    }
}

fn inherited_listeners() -> Result<Vec<Listener>, Box<dyn Error>> {
    let descriptors = inherited()?.into_iter();
    Ok(descriptors
        .map(Listener::from_fd)
        .collect::<Result<_, _>>()?)
}

#[cfg(test)]
mod tests {
    use std::os::fd::AsFd;

    use super::*;

    fn any_port() -> Address {
        "127.0.0.1:0".parse().expect("an address")
    }

    /// Listeners, and their addresses.
    fn legacy(count: usize) -> (Legacy, Vec<Address>) {
        let listeners: Vec<_> = (0..count)
            .map(|_| Listener::bind(any_port()).expect("a free port"))
            .collect();
        let addresses = listeners.iter().map(Listener::local_addr).cloned();
        let addresses = addresses.collect();
        (Legacy(listeners), addresses)
    }

    fn claimed(legacy: &mut Legacy, wanted: &[Address]) -> Vec<Option<Address>> {
        let claimed = legacy.claim(wanted).into_iter();
        claimed
            .map(|listener| listener.map(|listener| listener.local_addr().clone()))
            .collect()
    }

    #[test]
    fn a_listener_is_found_by_its_address_whatever_the_order() {
        let (mut legacy, there) = legacy(2);
        let wanted = [there[1].clone(), there[0].clone()];
        assert_eq!(
            claimed(&mut legacy, &wanted),
            [Some(there[1].clone()), Some(there[0].clone())]
        );
        assert!(legacy.0.is_empty());
    }

    #[test]
    fn a_new_address_finds_none_and_an_old_one_stays_behind() {
        let (mut legacy, there) = legacy(2);
        let wanted = [
            "127.0.0.2:1".parse().expect("an address"),
            there[1].clone(),
            "unix:/nowhere".parse().expect("an address"),
        ];
        assert_eq!(
            claimed(&mut legacy, &wanted),
            [None, Some(there[1].clone()), None]
        );
        assert_eq!(legacy.0.len(), 1);
        assert_eq!(legacy.0[0].local_addr(), &there[0]);
    }

    #[test]
    fn port_0_takes_what_no_number_asks_for_in_the_order_of_opening() {
        let (mut legacy, there) = legacy(3);
        let wanted = [any_port(), there[0].clone(), any_port(), any_port()];
        let of = |at: usize| Some(there[at].clone());
        assert_eq!(
            claimed(&mut legacy, &wanted),
            [of(1), of(0), of(2), None],
            "the fourth is bound anew"
        );
    }

    #[test]
    fn a_twin_is_left_for_the_next_set() {
        let (mut legacy, there) = legacy(1);
        let twin = legacy.0[0].as_fd().try_clone_to_owned();
        let twin = Listener::from_fd(twin.expect("a descriptor")).expect("it listens");
        legacy.0.push(twin);
        let wanted = [any_port(), there[0].clone()];
        assert_eq!(
            claimed(&mut legacy, &wanted),
            [None, Some(there[0].clone())]
        );
        assert_eq!(
            claimed(&mut legacy, &wanted),
            [None, Some(there[0].clone())]
        );
    }
}
