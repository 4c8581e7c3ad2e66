//! Pollers: libevent's benchmark, stopping and starting, and a wait among many descriptors.
//!
//! All peers serve the same bytes in the same pairs of sockets, one after the other.

mod bare;
mod c_clock;
mod count;
mod facade;
#[cfg(any(peer_libev, peer_libevent, peer_libuv))]
mod foreign;
mod listening;
mod mio;
mod ours;
mod pairs;
mod peer_poller;
mod peers;
mod pipes;
mod polling;
mod ring;
mod toggle;
mod watched;

#[cfg(test)]
mod tests;

use crate::{descriptors, library};

pub(crate) use self::count::count;

/// Measures all peers, and prints the records.
pub(crate) fn measure() {
    let most = descriptors::most();
    let peers = peers::peers();
    library::record_versions(
        peers
            .iter()
            .filter_map(|peer| Some((peer.name, peer.version.as_deref()?))),
    );
    pipes::measure(&peers, most);
    toggle::measure(&peers);
    watched::measure(&peers, most);
}
