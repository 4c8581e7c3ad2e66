#![doc = include_str!("../README.md")]

mod balancer;
mod plan;
mod policy;
mod situation;
mod view;

mod by_lock;
mod exclusive;
mod handing_over;
mod least_loaded;
mod slack;

mod lock;
mod raw;
mod raw_peers;
mod refusal;
mod seat;

// Memory and descriptors from the kernel are invisible to loom, and nothing that loom checks lives
// there.
#[cfg(not(evcore_loom))]
mod bell;
#[cfg(not(evcore_loom))]
mod board;
#[cfg(not(evcore_loom))]
mod cells;
#[cfg(not(evcore_loom))]
mod header;
#[cfg(not(evcore_loom))]
mod jain;
#[cfg(not(evcore_loom))]
mod line;
#[cfg(not(evcore_loom))]
mod memory_file;
#[cfg(not(evcore_loom))]
mod peers;
#[cfg(not(evcore_loom))]
mod shared;
#[cfg(not(evcore_loom))]
mod sheet;
#[cfg(not(evcore_loom))]
mod snapshot;

mod sync;

// Only something in the build of the canary, and of its fail points.
mod planted;
#[cfg(evcore_planted)]
mod points;

pub use balancer::Balancer;
#[cfg(not(evcore_loom))]
pub use board::Board;
#[cfg(not(evcore_loom))]
pub use line::Line;
pub use lock::{AcceptMutex, Lock, MutexHandle, this_process};
#[cfg(not(evcore_loom))]
pub use peers::{PeerSeat, Peers};
pub use plan::{Duty, Plan};
#[cfg(evcore_planted)]
pub use planted::{Bug, plant};
#[cfg(evcore_planted)]
pub use points::at_points;
pub use policy::Policy;
pub use raw::{RawAcceptMutex, Word};
pub use raw_peers::{RawPeers, SeatWords};
pub use seat::Seat;
#[cfg(not(evcore_loom))]
pub use sheet::{Row, Sheet};
pub use situation::{Load, Situation};
#[cfg(not(evcore_loom))]
pub use snapshot::Snapshot;
pub use view::{Keeper, Peer, View};
