//! The place of a descriptor store in memory that it shares with the master.

use std::sync::atomic::{
    AtomicI32, AtomicU32,
    Ordering::{Acquire, Release},
};

use crate::kept::KeptCounts;

/// The process id of a store, and its report.
#[derive(Debug)]
pub(crate) struct StorePlace {
    /// The process id, which the kernel writes. 0 if the place is free, or if the store does not
    /// exist yet.
    pub(crate) pid: AtomicI32,
    /// 1 once the two counts are written.
    has_report: AtomicU32,
    taken: AtomicU32,
    lost: AtomicU32,
}

impl StorePlace {
    /// Stores the report of this process, a descriptor store.
    pub(crate) fn report(&self, counts: KeptCounts) {
        let number =
            |count| u32::try_from(count).expect("a descriptor table has fewer than 2^32 entries");
        self.taken.store(number(counts.taken), Release);
        self.lost.store(number(counts.lost), Release);
        self.has_report.store(1, Release);
    }

    /// Takes the report of a store that has ended, and frees the place.
    pub(crate) fn free(&self) -> Option<KeptCounts> {
        self.pid.store(0, Release);
        let has_report = self.has_report.swap(0, Acquire) == 1;
        let count = |word: &AtomicU32| word.load(Acquire) as usize;
        has_report.then(|| KeptCounts {
            taken: count(&self.taken),
            lost: count(&self.lost),
        })
    }
}
