//! A line of a scoreboard, which is a table of the numbers that workers publish in shared memory.

use crate::sync::AtomicU64;

/// The numbers of one worker, in cache lines of their own, so that workers do not slow each other
/// down.
#[derive(Debug)]
#[repr(C, align(64))]
pub(crate) struct Line<const N: usize>(pub(crate) [AtomicU64; N]);

#[cfg(not(evcore_loom))] // loom's atomics are larger.
const _: () = assert!(size_of::<Line<9>>() == 128, "lines are whole cache lines");
