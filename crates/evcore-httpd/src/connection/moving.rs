//! Converts the state of a connection to bytes and back, so that the connection can move to another
//! worker.
//!
//! Between two requests the state is only the client's address, which the access log and `/worker`
//! show, and the bytes of the next request that have arrived. A connection in the middle of a body
//! or of a response does not move.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use evcore::Token;
use evcore_serve::STATE_BYTES_MAX;

use super::{Abort, Connection};
use crate::{files::DiskRead, phases::Phase, shared::Shared};

pub const STATE_VERSION: u32 = 1;

/// The state of an idle connection whose worker has died. It has no address and no bytes.
pub const IDLE_STATE: [u8; 1] = [0];

/// The length of the longest address with its length byte.
const PEER_BYTES_MAX: usize = 1 + 16;

impl Connection {
    /// Returns the connection's state, and frees the memory that the connection uses in this
    /// worker. If the connection cannot move, only returns `None`. Otherwise it counts as open and
    /// idle in this worker, until another worker has it.
    pub fn leave(&mut self, token: Token, shared: &mut Shared) -> Option<Vec<u8>> {
        if !self.can_move() {
            return None;
        }
        let mut state = peer_bytes(self.client_address());
        state.append(&mut self.input.take());
        self.free(token, shared);
        shared.counts.change(&mut self.phase, Phase::Waiting);
        Some(state)
    }

    /// Creates a connection from this state. If the state has no address, calls `peer`, which reads
    /// the peer's address from the kernel.
    pub fn arrived(
        state: &[u8],
        peer: impl FnOnce() -> Option<IpAddr>,
        shared: &mut Shared,
    ) -> Result<Self, Abort> {
        let (known, input) = parse_peer(state).ok_or(Abort)?;
        let mut connection = Self::new(known.or_else(peer), shared);
        connection.input.keep(input, shared)?;
        // This flag makes the receive timer begin anew.
        connection.timers.has_responded = true;
        Ok(connection)
    }

    fn can_move(&self) -> bool {
        self.state.is_none()
            && !self.has_output()
            && !self.is_last_response
            && !self.lingers
            && self.payload.disk_read == DiskRead::None
            && self.input.len() <= STATE_BYTES_MAX - PEER_BYTES_MAX
    }
}

/// The bytes of an address: its length, and the address itself.
fn peer_bytes(peer: Option<IpAddr>) -> Vec<u8> {
    match peer {
        None => vec![0],
        Some(IpAddr::V4(peer)) => [&[4], &peer.octets()[..]].concat(),
        Some(IpAddr::V6(peer)) => [&[16], &peer.octets()[..]].concat(),
    }
}

/// Returns the address, and the rest of the bytes.
fn parse_peer(bytes: &[u8]) -> Option<(Option<IpAddr>, &[u8])> {
    let (&length, rest) = bytes.split_first()?;
    match length {
        0 => Some((None, rest)),
        4 => {
            let (octets, rest) = rest.split_first_chunk()?;
            Some((Some(Ipv4Addr::from(*octets).into()), rest))
        }
        16 => {
            let (octets, rest) = rest.split_first_chunk::<16>()?;
            Some((Some(Ipv6Addr::from(*octets).into()), rest))
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_is_read_as_it_was_written() {
        for peer in [None, Some([127, 0, 0, 1].into()), Some([7; 16].into())] {
            let mut bytes = peer_bytes(peer);
            assert!(bytes.len() <= PEER_BYTES_MAX);
            bytes.extend(b"GET /");
            assert_eq!(parse_peer(&bytes), Some((peer, &b"GET /"[..])));
        }
    }

    #[test]
    fn a_state_that_is_cut_off_is_refused() {
        for bytes in [&b""[..], &[4, 1, 2, 3], &[16], &[5, 1, 2, 3, 4, 5]] {
            assert_eq!(parse_peer(bytes), None);
        }
    }
}
