//! Detects workers that hang. Each worker writes the start time of its turn (the work between two
//! waits) into memory that it shares with the master.

use std::{
    io,
    sync::atomic::{AtomicU32, Ordering::Relaxed},
    time::{Duration, Instant},
};

use crate::{
    error::{Error, Result},
    shared_slice::shared_slice,
};

/// The clock, and for each worker a word with the time at which its turn began. Copies share the
/// words.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Turns {
    began: &'static [AtomicU32],
    start: Instant,
}

/// The word of a worker that waits.
const WAITS: u32 = 0;

impl Turns {
    pub(crate) fn new(slots: usize) -> io::Result<Self> {
        let began = shared_slice(slots)?;
        let start = Instant::now();
        Ok(Self { began, start })
    }

    pub(crate) fn begin(self, slot: usize) {
        // The lowest bit is set, so that the word is never `WAITS`.
        self.began[slot].store(self.now_ms() | 1, Relaxed);
    }

    /// Records that the worker of a slot waits, or that the slot has no worker.
    pub(crate) fn end(self, slot: usize) {
        self.began[slot].store(WAITS, Relaxed);
    }

    /// Returns the time for which the worker of a slot has been working, or `None` if it waits.
    pub(crate) fn lasted(self, slot: usize) -> Option<Duration> {
        match self.began[slot].load(Relaxed) {
            WAITS => None,
            began => Some(lasted(began, self.now_ms())),
        }
    }

    #[expect(
        clippy::cast_possible_truncation,
        reason = "the numbers wrap after 49 days, and so do the differences"
    )]
    fn now_ms(self) -> u32 {
        self.start.elapsed().as_millis() as u32
    }
}

/// The master's side, which checks at intervals.
#[derive(Debug)]
pub(crate) struct Watch {
    pub(crate) turns: Turns,
    timeout: Duration,
    pub(crate) due: Instant,
}

impl Watch {
    pub(crate) fn new(slots: usize, timeout: Duration) -> Result<Self> {
        let turns = Turns::new(slots);
        let doing = "mapping memory for the turns of workers (mmap)";
        Ok(Self {
            turns: turns.map_err(Error::os(doing))?,
            timeout,
            due: Instant::now(),
        })
    }

    /// Returns true if a check is due, and sets the time of the next one.
    ///
    /// If the check is late by half of the timeout, the master did not run, and perhaps the whole
    /// server was frozen. The check is then left out, and the next one follows after the whole
    /// timeout.
    pub(crate) fn is_due(&mut self, now: Instant) -> bool {
        let Some(late) = now.checked_duration_since(self.due) else {
            return false;
        };
        let is_in_time = late < self.timeout / 2;
        self.due = now
            + if is_in_time {
                self.timeout / 8
            } else {
                self.timeout
            };
        is_in_time
    }

    /// Returns the time for which the worker of a slot has worked, or `None` if it does not hang.
    pub(crate) fn hangs(&self, slot: usize) -> Option<Duration> {
        self.turns.lasted(slot).filter(|time| *time >= self.timeout)
    }
}

/// Returns the time between two numbers of milliseconds, the second of which may have wrapped. The
/// first one may be too high by 1.
fn lasted(began: u32, now: u32) -> Duration {
    let ms = (now | 1).wrapping_sub(began);
    Duration::from_millis(ms.into())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_worker_that_waits_does_not_hang() {
        let turns = Turns::new(2).unwrap();
        assert_eq!(turns.lasted(1), None);
        turns.begin(1);
        assert!(turns.lasted(1).is_some() && turns.lasted(0).is_none());
        turns.end(1);
        assert_eq!(turns.lasted(1), None);
    }

    #[test]
    fn a_late_check_gives_the_workers_the_whole_timeout() {
        const TIMEOUT: Duration = Duration::from_secs(8);
        let mut watch = Watch::new(1, TIMEOUT).unwrap();
        let first = watch.due;
        assert!(watch.is_due(first));
        assert!(!watch.is_due(first + TIMEOUT / 9));
        assert!(watch.is_due(first + TIMEOUT / 7));
        let thawed = first + 2 * TIMEOUT;
        assert!(!watch.is_due(thawed));
        assert!(!watch.is_due(thawed + TIMEOUT * 9 / 10));
        assert!(watch.is_due(thawed + TIMEOUT * 11 / 10));
    }

    #[test]
    fn a_time_that_has_wrapped_is_measured() {
        assert_eq!(lasted(7, 6), Duration::ZERO);
        assert_eq!(lasted(7, 2006), Duration::from_secs(2));
        assert_eq!(lasted(u32::MAX, 1998), Duration::from_secs(2));
    }
}
