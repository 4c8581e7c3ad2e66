//! A thread that reports polls that do not end.

use std::io;
use std::panic::Location;
use std::sync::mpsc::{self, RecvTimeoutError, Sender};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::Duration;

pub(crate) struct Watch {
    polled: Arc<Mutex<Polled>>,
    /// Dropping the sender ends the thread.
    _end: Sender<Never>,
}

#[derive(PartialEq)]
enum Never {}

#[derive(Clone, Copy, Default, PartialEq)]
struct Polled {
    /// The place where the task was spawned; `None` between two polls.
    at: Option<&'static Location<'static>>,
    /// The number of polls so far, which identifies the poll.
    polls: u64,
}

/// A guard: the poll is watched until the guard is dropped.
pub(crate) struct Watched<'a>(&'a Mutex<Polled>);

impl Watch {
    /// Starts a thread that calls `report` for each poll that it finds in two checks in a row.
    pub(crate) fn start(
        limit: Duration,
        report: impl Fn(&'static Location<'static>) + Send + 'static,
    ) -> io::Result<Self> {
        let polled = Arc::default();
        let watched = Arc::clone(&polled);
        let (end, ended) = mpsc::channel();
        thread::Builder::new().name("stuck".into()).spawn(move || {
            let lasts = || ended.recv_timeout(limit) == Err(RecvTimeoutError::Timeout);
            watch(&watched, lasts, report);
        })?;
        Ok(Self { polled, _end: end })
    }

    pub(crate) fn begin(&self, at: Option<&'static Location<'static>>) -> Watched<'_> {
        let mut polled = lock(&self.polled);
        polled.at = at;
        polled.polls += 1;
        Watched(&self.polled)
    }
}

impl Drop for Watched<'_> {
    fn drop(&mut self) {
        lock(self.0).at = None;
    }
}

/// Checks the current poll each time that `lasts` returns true. `lasts` waits until the next check.
fn watch(
    watched: &Mutex<Polled>,
    lasts: impl Fn() -> bool,
    report: impl Fn(&'static Location<'static>),
) {
    let (mut before, mut reported) = (Polled::default(), 0);
    while lasts() {
        let polled = *lock(watched);
        let is_stuck = polled == before && polled.polls != reported;
        if let Some(at) = polled.at.filter(|_| is_stuck) {
            reported = polled.polls;
            report(at);
        }
        before = polled;
    }
}

/// Ignores poisoning, because no code panics while it holds the lock.
fn lock(polled: &Mutex<Polled>) -> MutexGuard<'_, Polled> {
    polled.lock().unwrap_or_else(PoisonError::into_inner)
}
