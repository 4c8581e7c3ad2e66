//! A line of a board as it lies in memory.
//!
//! It may lie in a file that another binary inherits: a change of the layout is a new version of
//! the [header](crate::header).

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use crate::Snapshot;

/// A line as it lies in memory: alone in its cache line, so that workers do not slow each other.
#[derive(Debug)]
#[repr(C, align(64))]
pub(crate) struct Cells {
    active: AtomicU64,
    accepted: AtomicU64,
    handled: AtomicU64,
    requests: AtomicU64,
    reading: AtomicU64,
    writing: AtomicU64,
    waiting: AtomicU64,
    heartbeat: AtomicU64,
}

const _: () = assert!(size_of::<Cells>() == 64, "a line is one cache line");

impl Cells {
    /// Eight plain stores, one after another.
    pub(crate) fn store(&self, snapshot: &Snapshot) {
        self.active.store(snapshot.active, Relaxed);
        self.accepted.store(snapshot.accepted, Relaxed);
        self.handled.store(snapshot.handled, Relaxed);
        self.requests.store(snapshot.requests, Relaxed);
        self.reading.store(snapshot.reading, Relaxed);
        self.writing.store(snapshot.writing, Relaxed);
        self.waiting.store(snapshot.waiting, Relaxed);
        self.heartbeat.store(snapshot.heartbeat, Relaxed);
    }

    /// Numbers that were stored, perhaps not all by the same call.
    pub(crate) fn load(&self) -> Snapshot {
        Snapshot {
            active: self.active.load(Relaxed),
            accepted: self.accepted.load(Relaxed),
            handled: self.handled.load(Relaxed),
            requests: self.requests.load(Relaxed),
            reading: self.reading.load(Relaxed),
            writing: self.writing.load(Relaxed),
            waiting: self.waiting.load(Relaxed),
            heartbeat: self.heartbeat.load(Relaxed),
        }
    }

    /// Sets what goes up and down to 0, and leaves what only grows.
    pub(crate) fn reset_gauges(&self) {
        for gauge in [
            &self.active,
            &self.reading,
            &self.writing,
            &self.waiting,
            &self.heartbeat,
        ] {
            gauge.store(0, Relaxed);
        }
    }
}
