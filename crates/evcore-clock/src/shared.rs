//! The cached time for many threads: one updates, all read.
//!
//! Readers take no lock and wait for nobody; how, is told in `ring.rs`.
//! Nothing updates behind the user's back: somebody calls [`SharedClock::update`] once a turn, or a
//! signal handler calls [`SharedClock::update_from_signal`].
//! It lives in the memory of one process.

use std::fmt;

use crate::ring::Ring;
use crate::snapshot::{
    HTTP_DATE, HTTP_DATE_WORDS, MONOTONIC_NS, Offset, Snapshot, UNIX_SECONDS, WORDS, unpack,
};
use crate::source::{SystemTimeSource, TimeSource};
use crate::stamp::Stamp;

/// How many updates a stalled reader can be behind and still have an intact snapshot, plus one.
///
/// nginx has as many. They take 12 KiB.
const SLOTS: usize = 64;

/// The time as it was at the last update, for any number of threads.
///
/// A reader gets a [`Snapshot`], of which all parts are of one update, or one part of it for less.
/// It never waits, neither for an update nor for another reader: while an update is under way, it
/// reads what was shown before.
/// Were it to be stopped in the middle of a read while 64 updates begin, it would read again.
/// What one thread has read is never followed by anything older.
///
/// An update belongs to whoever begins it; a second one at the same time returns at once.
/// It makes the strings only in the first update of a second, all five, since somebody else may
/// read them.
/// For a clock of one thread, [`Clock`](crate::Clock) is smaller and makes only what is read.
///
/// Share it by `Arc` or as a `static` in a `LazyLock`.
/// A child process has a copy of its own, so fork while no other thread updates: the copy of an
/// unfinished update is never finished.
///
/// ```
/// use std::sync::Arc;
/// use std::thread;
/// use std::time::Duration;
/// use evcore_clock::{ManualTimeSource, SharedClock};
///
/// let time = ManualTimeSource::at(23_349_600);
/// let clock = Arc::new(SharedClock::with_source(time.clone()));
///
/// time.advance(Duration::from_secs(1));
/// clock.update();
///
/// let reader = Arc::clone(&clock);
/// let now = thread::spawn(move || reader.snapshot()).join().unwrap();
/// assert_eq!(now.monotonic_ms(), 1_000);
/// assert_eq!(now.http_date().as_str(), "Mon, 28 Sep 1970 06:00:01 GMT");
/// ```
pub struct SharedClock {
    ring: Ring<SLOTS, WORDS>,
    source: Box<dyn TimeSource + Sync>,
}

impl SharedClock {
    /// A clock that shows the time of the operating system and its local time zone.
    ///
    /// It is read once here. See [`SystemTimeSource::new`] for how the zone is found.
    #[must_use]
    pub fn system() -> Self {
        Self::with_source(SystemTimeSource::new())
    }

    /// A clock that shows the time of `source`, which is read once here.
    #[must_use]
    pub fn with_source(source: impl TimeSource + Sync + 'static) -> Self {
        let reading = source.read();
        let offset = asked(&source, reading.unix_seconds);
        Self {
            ring: Ring::new(*Snapshot::first(reading, offset).as_words()),
            source: Box::new(source),
        }
    }

    /// Reads the source, and shows its time to all threads from now on.
    ///
    /// Returns whether it did: `false` if another update was under way, which goes on undisturbed.
    /// If the source's monotonic time went back, the clock's stays where it was until the source
    /// has caught up.
    ///
    /// In the first update of a second the source is asked for the offset, and the strings are
    /// made.
    ///
    /// # Panics
    ///
    /// If the source does; the clock then shows what it showed before, and can be updated again.
    #[allow(
        clippy::must_use_candidate,
        reason = "the time is updated either way, by us or by the other"
    )]
    pub fn update(&self) -> bool {
        self.publish(|known, unix_seconds| {
            if known.asked_at == unix_seconds {
                known
            } else {
                asked(&*self.source, unix_seconds)
            }
        })
    }

    /// The update for a signal handler: never blocks and never allocates, if the source does not.
    ///
    /// [`SystemTimeSource`] does neither; [`ManualTimeSource`](crate::ManualTimeSource) takes a lock.
    /// The source is not asked for the offset, which may read files: local time is shown by the
    /// last known one until the next [`update`](Self::update).
    ///
    /// Returns whether the time was updated: `false` if an update was under way, perhaps the very
    /// one that the signal has interrupted.
    #[allow(
        clippy::must_use_candidate,
        reason = "the time is updated either way, by us or by the other"
    )]
    pub fn update_from_signal(&self) -> bool {
        self.publish(|known, _| known)
    }

    /// All that the last update showed. Costs 21 loads of words and two of the turn.
    #[inline]
    #[must_use]
    pub fn snapshot(&self) -> Snapshot {
        Snapshot::from_words(self.ring.read::<0, WORDS>())
    }

    /// Monotonic time in nanoseconds, since some fixed moment. Never goes back.
    #[inline]
    #[must_use]
    pub fn monotonic_ns(&self) -> u64 {
        let [ns] = self.ring.read::<MONOTONIC_NS, 1>();
        ns
    }

    /// Monotonic time in whole milliseconds, rounded down.
    #[inline]
    #[must_use]
    pub fn monotonic_ms(&self) -> u64 {
        self.monotonic_ns() / 1_000_000
    }

    /// Wall time in whole seconds since 1970-01-01T00:00:00 UTC, rounded down.
    ///
    /// May jump in both directions, when the machine's clock is set.
    #[inline]
    #[must_use]
    pub fn unix_seconds(&self) -> i64 {
        let [seconds] = self.ring.read::<UNIX_SECONDS, 1>();
        seconds as i64
    }

    /// The current second for an HTTP header: `Mon, 28 Sep 1970 06:00:00 GMT`.
    ///
    /// Of the same layout and limits as [`stamp::http_date`](crate::stamp::http_date).
    #[inline]
    #[must_use]
    pub fn http_date(&self) -> Stamp<29> {
        unpack(&self.ring.read::<HTTP_DATE, HTTP_DATE_WORDS>())
    }

    /// Shows the source's time and the offset that `choose` makes of the known one and the second.
    fn publish(&self, choose: impl FnOnce(Offset, i64) -> Offset) -> bool {
        let Some(claim) = self.ring.claim() else {
            return false;
        };
        // Read after the claim, or a writer that was stopped in between would show an old time.
        let reading = self.source.read();
        let shown = Snapshot::from_words(claim.shown());
        let offset = choose(shown.known_offset(), reading.unix_seconds);
        claim.publish(shown.next(reading, offset).as_words());
        true
    }
}

impl fmt::Debug for SharedClock {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SharedClock")
            .field("snapshot", &self.snapshot())
            .finish_non_exhaustive()
    }
}

fn asked(source: &dyn TimeSource, unix_seconds: i64) -> Offset {
    Offset {
        seconds: source.offset_at(unix_seconds),
        asked_at: unix_seconds,
    }
}
