//! Points at which a test may end this process: before each operation by which a worker meets the
//! others.
//!
//! With `--cfg evcore_planted`, which only `cargo xtask canary` sets, and not without it. The
//! algorithms are those that ship: it is their word that tells of the points.
//! There is none behind an operation: until the next, or until the call returns, nothing happens
//! that anybody else could see.

use std::sync::{
    OnceLock,
    atomic::{AtomicU32, Ordering},
};

use crate::Word;

static HOOK: OnceLock<fn(&'static str)> = OnceLock::new();

/// From now on calls `hook` at each point of this process, with the name of the operation that
/// comes next: `load`, `store` or `exchange` of a word, `ring` or `silence` of a bell.
///
/// The first hook stays. Children that are forked later have it too.
pub fn at_points(hook: fn(&'static str)) {
    let _ = HOOK.set(hook);
}

/// A point.
pub(crate) fn pass(operation: &'static str) {
    if let Some(hook) = HOOK.get() {
        hook(operation);
    }
}

/// A word in shared memory, with a point before whatever is done to it.
#[derive(Debug, Default)]
#[repr(transparent)]
pub(crate) struct PointedU32(AtomicU32);

impl PointedU32 {
    pub(crate) const fn new(value: u32) -> Self {
        Self(AtomicU32::new(value))
    }
}

impl Word for PointedU32 {
    fn load(&self, order: Ordering) -> u32 {
        pass("load");
        self.0.load(order)
    }

    fn store(&self, value: u32, order: Ordering) {
        pass("store");
        self.0.store(value, order);
    }

    fn compare_exchange(
        &self,
        current: u32,
        new: u32,
        success: Ordering,
        failure: Ordering,
    ) -> Result<u32, u32> {
        pass("exchange");
        self.0.compare_exchange(current, new, success, failure)
    }
}
