//! What handles tell the loop beside waking it: in words that a signal handler may write.
//!
//! Each is written before the poller is woken, and taken after a wait that a waker has ended. The
//! loop may take it too early, woken by somebody else: then the wake-up that follows finds nothing,
//! and what was done before must be visible all the same. That is what the orderings are for.
//!
//! `tests/loom_outside.rs` includes this file and `outside.rs`, runs them over loom's atomics, and
//! does single steps wrongly to show what each is there for. That is why the fields are open.

use std::{
    sync::atomic::Ordering::{AcqRel, Acquire, Release},
    time::Duration,
};

use crate::sync::{AtomicBool, AtomicU64};

/// What is told and not yet taken.
#[derive(Debug)]
pub(crate) struct Calls {
    /// A handle was asked to wake.
    pub(crate) called: AtomicBool,
    /// A descriptor was given away, so any wake-up may be meant as one.
    pub(crate) lent: AtomicBool,
    /// In how many milliseconds a shutdown is to be over, or [`NOT_ASKED`].
    pub(crate) shutdown_ms: AtomicU64,
}

/// Nobody has asked for a shutdown. The longest time that can be asked for is one less.
pub(crate) const NOT_ASKED: u64 = u64::MAX;

impl Calls {
    pub(crate) fn new() -> Self {
        Self {
            called: AtomicBool::new(false),
            lent: AtomicBool::new(false),
            shutdown_ms: AtomicU64::new(NOT_ASKED),
        }
    }

    /// Says that the wake-up that follows is meant as one.
    pub(crate) fn call(&self) {
        // Not a store: it would hide from the loop what another thread released by the same word.
        self.called.swap(true, Release);
    }

    /// Says that from now on others may wake the poller who cannot say so.
    pub(crate) fn lend(&self) {
        // Before any write to the descriptor, and so before the wait that it ends.
        self.lent.store(true, Release);
    }

    /// Asks for a shutdown. Of several that the loop has not yet seen, the shortest counts.
    pub(crate) fn shut_down(&self, timeout: Duration) {
        self.shutdown_ms.fetch_min(whole_ms(timeout), Release);
    }

    /// Whether a wait that has ended was ended by a wake-up, for all that is known.
    pub(crate) fn answer(&self) -> bool {
        // A read-modify-write and no short cut: both have to be asked.
        self.called.swap(false, AcqRel) | self.lent.load(Acquire)
    }

    /// The shutdown that was asked for since this was taken last.
    pub(crate) fn take_shutdown(&self) -> Option<Duration> {
        let ms = self.shutdown_ms.swap(NOT_ASKED, AcqRel);
        (ms != NOT_ASKED).then(|| Duration::from_millis(ms))
    }
}

/// Rounds up, so that nobody has less time than was asked for.
fn whole_ms(timeout: Duration) -> u64 {
    let begun_ms = u64::from(timeout.subsec_nanos() % 1_000_000 != 0);
    let ms = u64::try_from(timeout.as_millis()).unwrap_or(u64::MAX);
    ms.saturating_add(begun_ms).min(NOT_ASKED - 1)
}
