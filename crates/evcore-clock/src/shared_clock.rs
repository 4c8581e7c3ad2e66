//! A cached clock for many threads, any of which may update it. Readers take no lock and never
//! wait; `ring.rs` explains how.

use std::fmt;

use crate::ring::Ring;
use crate::snapshot::{
    HTTP_DATE, HTTP_DATE_WORDS, MONOTONIC_NS, Offset, Snapshot, UNIX_SECONDS, WORDS, unpack,
};
use crate::stamp::Stamp;
use crate::time_source::{SystemTimeSource, TimeSource};

/// The number of slots. A read is repeated if this many updates run during it, wholly or in part.
///
/// nginx has the same number of slots. They take 12 KiB.
const SLOTS: usize = 64;

/// A cached clock for any number of threads: it shows the time of the last update.
///
/// A reader gets a [`Snapshot`], whose parts are all of one update, or a single part at less cost.
/// The reader never waits: during an update it reads the previous time. A read is repeated only if
/// 64 updates run during it, wholly or in part. A thread never reads a time older than one it has
/// read before.
///
/// Only one update runs at a time. Another update that begins meanwhile returns at once. The first
/// update of a second formats all five strings, because any thread may read them. For a single
/// thread, [`Clock`](crate::Clock) is smaller and formats only the strings that are read.
///
/// Share it in an `Arc`, or as a `static` in a `LazyLock`. Fork only while no other thread updates
/// it: the child has a copy, and in that copy an unfinished update never ends.
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
    /// Creates a clock that shows the time of the operating system, in the local time zone.
    ///
    /// Reads both clocks once. [`SystemTimeSource::new`] describes how the zone is found.
    #[must_use]
    pub fn system() -> Self {
        Self::with_source(SystemTimeSource::new())
    }

    /// Creates a clock that shows the time of `source`. Reads both its clocks once.
    #[must_use]
    pub fn with_source(source: impl TimeSource + Sync + 'static) -> Self {
        let (monotonic_ns, wall) = (source.monotonic_ns(), source.wall_time());
        let offset = look_up_offset(&source, wall.unix_seconds);
        Self {
            ring: Ring::new(*Snapshot::first(monotonic_ns, wall, offset).as_words()),
            source: Box::new(source),
        }
    }

    /// Reads the source, and shows its time to all threads from now on.
    ///
    /// Returns false, without an update, if another update was in progress. If the monotonic time
    /// of the source went back, the clock keeps its own until the source has caught up.
    ///
    /// The first update of a second looks up the offset and formats the strings.
    ///
    /// # Panics
    ///
    /// If the source panics. The clock then keeps its time and can be updated again.
    #[allow(
        clippy::must_use_candidate,
        reason = "the time is updated in either case, here or by the other update"
    )]
    pub fn update(&self) -> bool {
        self.publish(|known, unix_seconds| {
            if known.looked_up_at == unix_seconds {
                known
            } else {
                look_up_offset(&*self.source, unix_seconds)
            }
        })
    }

    /// Updates the clock from a signal handler: never blocks and never allocates unless the source
    /// does.
    ///
    /// [`SystemTimeSource`] does neither; [`ManualTimeSource`](crate::ManualTimeSource) takes a
    /// lock. The call does not look up the offset, because that may read files. So local time uses
    /// the last known offset until the next [`update`](Self::update).
    ///
    /// Returns false if another update was in progress, possibly the one that the signal has
    /// interrupted.
    #[allow(
        clippy::must_use_candidate,
        reason = "the time is updated in either case, here or by the other update"
    )]
    pub fn update_from_signal(&self) -> bool {
        self.publish(|known, _| known)
    }

    /// The numbers and strings of the last update. Costs 23 loads if the read is not repeated.
    #[inline]
    #[must_use]
    pub fn snapshot(&self) -> Snapshot {
        Snapshot::from_words(self.ring.read::<0, WORDS>())
    }

    /// Monotonic time in nanoseconds since an arbitrary fixed moment. Never goes back.
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
    /// May jump in both directions when the machine's clock is set.
    #[inline]
    #[must_use]
    pub fn unix_seconds(&self) -> i64 {
        let [seconds] = self.ring.read::<UNIX_SECONDS, 1>();
        seconds as i64
    }

    /// The current second for an HTTP header: `Mon, 28 Sep 1970 06:00:00 GMT`.
    ///
    /// Has the layout and the limits of [`stamp::http_date`](crate::stamp::http_date).
    #[inline]
    #[must_use]
    pub fn http_date(&self) -> Stamp<29> {
        unpack(&self.ring.read::<HTTP_DATE, HTTP_DATE_WORDS>())
    }

    /// Publishes the time of the source, with the offset that `choose` returns for the known offset
    /// and the second.
    fn publish(&self, choose: impl FnOnce(Offset, i64) -> Offset) -> bool {
        let Some(claim) = self.ring.claim() else {
            return false;
        };
        // The time is read after the claim. Otherwise a writer that is suspended in between could
        // publish an old time.
        let (monotonic_ns, wall) = (self.source.monotonic_ns(), self.source.wall_time());
        let last = Snapshot::from_words(claim.last());
        let offset = choose(last.known_offset(), wall.unix_seconds);
        claim.publish(last.next(monotonic_ns, wall, offset).as_words());
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

fn look_up_offset(source: &dyn TimeSource, unix_seconds: i64) -> Offset {
    Offset {
        seconds: source.offset_at(unix_seconds),
        looked_up_at: unix_seconds,
    }
}
