//! What the tests of several crates share. Not published, and used by tests alone.

mod counting;
mod eventually;
mod scratch;

pub use counting::{
    CountingAllocator, allocations, bytes_in_use, watch_this_thread, watched_allocations,
};
pub use eventually::{PATIENCE, eventually};
pub use scratch::Scratch;
