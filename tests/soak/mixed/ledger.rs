//! The counts of one server's clients and disturbances, and the first failure that is not allowed.

use std::{
    collections::HashSet,
    fmt::Display,
    sync::{
        Mutex, PoisonError, RwLock,
        atomic::{AtomicBool, AtomicU64, Ordering::SeqCst},
    },
};

#[derive(Debug, Default)]
pub(super) struct Ledger {
    /// Number of connections that the kernel has completed, including `uncounted_connections`.
    pub(super) connections: Counter,
    /// Number of connections that a kill ended before a response. The server may have counted them
    /// or not, so its count may be below `connections` by up to this number.
    pub(super) uncounted_connections: Counter,
    /// Number of requests with a response head. The server has counted them.
    pub(super) requests: Counter,
    /// Number of requests without a response head because of a kill. The server may have counted
    /// them or not, so its count may exceed `requests` by up to this number.
    pub(super) uncounted_requests: Counter,
    /// Sessions that ended by a kill.
    pub(super) killed_sessions: Counter,
    pub(super) kills: Spans,
    /// Reloads and upgrades.
    pub(super) turnovers: Spans,
    killed: Mutex<HashSet<u32>>,
    failure: Mutex<Option<String>>,
    /// Each session holds this lock for reading, and a check of the idle server holds it for
    /// writing.
    pub(super) gate: RwLock<()>,
    over: AtomicBool,
}

#[derive(Debug, Default)]
pub(super) struct Counter(AtomicU64);

impl Counter {
    pub(super) fn add(&self, n: u64) {
        self.0.fetch_add(n, SeqCst);
    }

    pub(super) fn get(&self) -> u64 {
        self.0.load(SeqCst)
    }
}

/// Spans of time, one after the other.
#[derive(Debug, Default)]
pub(super) struct Spans {
    begun: AtomicU64,
    ended: AtomicU64,
}

impl Spans {
    pub(super) fn begin(&self) {
        self.begun.fetch_add(1, SeqCst);
    }

    pub(super) fn end(&self) {
        self.ended.fetch_add(1, SeqCst);
    }

    /// A moment, for [`overlap_since`](Self::overlap_since).
    pub(super) fn now(&self) -> u64 {
        self.ended.load(SeqCst)
    }

    /// Returns whether any time since the moment was in a span.
    pub(super) fn overlap_since(&self, moment: u64) -> bool {
        self.begun.load(SeqCst) > moment
    }

    pub(super) fn count(&self) -> u64 {
        self.begun.load(SeqCst)
    }
}

impl Ledger {
    /// Records that a worker will be killed. Call this before the signal is sent.
    pub(super) fn will_be_killed(&self, pid: u32) {
        let mut killed = self.killed.lock().unwrap_or_else(PoisonError::into_inner);
        killed.insert(pid);
    }

    pub(super) fn was_killed(&self, pid: u32) -> bool {
        let killed = self.killed.lock().unwrap_or_else(PoisonError::into_inner);
        killed.contains(&pid)
    }

    /// Keeps the first failure.
    pub(super) fn fail(&self, what: impl Display) {
        let mut failure = self.failure.lock().unwrap_or_else(PoisonError::into_inner);
        failure.get_or_insert_with(|| what.to_string());
    }

    pub(super) fn failure(&self) -> Result<(), String> {
        let failure = self.failure.lock().unwrap_or_else(PoisonError::into_inner);
        failure.clone().map_or(Ok(()), Err)
    }

    /// Lets no further session begin.
    pub(super) fn end(&self) {
        self.over.store(true, SeqCst);
    }

    pub(super) fn is_over(&self) -> bool {
        self.over.load(SeqCst)
    }
}
