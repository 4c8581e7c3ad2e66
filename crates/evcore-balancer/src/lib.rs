#![doc = include_str!("../README.md")]

mod balancer;
mod policy;

mod lock;
mod raw;

// Memory from the kernel is invisible to loom, and nothing that loom checks lives there.
#[cfg(not(evcore_loom))]
mod board;
#[cfg(not(evcore_loom))]
mod shared;

mod sync;

pub use balancer::{Balancer, Load, Plan};
#[cfg(not(evcore_loom))]
pub use board::{Board, Line, Snapshot};
pub use lock::{AcceptMutex, Lock, MutexHandle, this_process};
pub use policy::Policy;
pub use raw::{RawAcceptMutex, Word};
