//! The clients that wait in the backlogs of the listeners, as the kernel counts them.
//!
//! The kernel reports the backlogs of all listeners (`sock_diag`, as for `ss`). The listeners of
//! this server are found among them by their addresses. Descriptors of the listeners are not
//! kept for this, because each worker would inherit them, and they would keep the ports open while
//! the worker stops.

#[cfg(target_os = "linux")]
mod linux;
#[cfg(not(target_os = "linux"))]
mod others;

use std::net::SocketAddr;

use evcore::Address;

use crate::{scoreboard::Scoreboard, server_stats::Number};

#[cfg(target_os = "linux")]
use self::linux as system;
#[cfg(not(target_os = "linux"))]
use self::others as system;

/// Overflows and drops of all listeners of the network namespace, since the system started.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Losses {
    overflows: u64,
    drops: u64,
}

#[derive(Debug)]
pub struct ListenQueue {
    addresses: Vec<SocketAddr>,
    at_start: Losses,
}

impl ListenQueue {
    /// Creates the measurement of the TCP listeners among these addresses.
    pub fn new<'a>(addresses: impl IntoIterator<Item = &'a Address>) -> Self {
        Self {
            addresses: addresses.into_iter().filter_map(Address::tcp).collect(),
            at_start: system::losses().unwrap_or_default(),
        }
    }

    /// Publishes the present numbers. The queue is 0 if the system does not report it.
    pub fn publish(&self, scoreboard: &Scoreboard) {
        let waiting = system::waiting(&self.addresses).unwrap_or(0);
        scoreboard.set(Number::ListenQueue, waiting);
        let Some(losses) = system::losses() else {
            return; // the counters keep their values, because they never go back
        };
        let since = |now: u64, start: u64| now.saturating_sub(start);
        let overflows = since(losses.overflows, self.at_start.overflows);
        scoreboard.set(Number::ListenOverflows, overflows);
        let drops = since(losses.drops, self.at_start.drops);
        scoreboard.set(Number::ListenDrops, drops);
    }
}
