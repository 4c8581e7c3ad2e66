//! The atomics of `told.rs`: the standard library's. `tests/loom_told.rs` puts loom's in their
//! place, for what this process was told is in a static, which loom's could not be.

pub(crate) use std::sync::atomic::{AtomicI32, AtomicU8, AtomicU32, Ordering, fence};
