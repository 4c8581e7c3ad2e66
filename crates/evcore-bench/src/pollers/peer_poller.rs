//! What a poller must do to be measured.

use std::os::fd::OwnedFd;
use std::time::Duration;

use evcore::clock::Clock;

use super::ring_of_pairs::Ring;

/// The most events of one wait, if that can be set.
pub(super) const BATCH: usize = 1024;

/// A poller in Rust, which watches the descriptors that it was made for: near ends of pairs. The loops
/// around these functions are compiled for each.
pub(super) trait RustPoller {
    /// Waits once, and serves what that brings. Always inlined, so that the timeout is a constant of
    /// each loop.
    fn turn(&mut self, timeout: Option<Duration>, ring: &mut Ring<'_>);

    /// Stops watching the first descriptor (false), or starts again.
    fn watch_first(&mut self, starts: bool);
}

/// A poller as the measurement sees it.
pub(crate) trait PeerPoller {
    /// Serves until no events are left.
    fn run(&mut self, ring: &mut Ring<'_>);

    /// Stops watching the first descriptor and starts again, `times` times.
    fn toggle(&mut self, times: usize);

    /// The same with a wait after each change, which makes it known to the kernel. Not for a peer in C,
    /// as the next.
    fn toggle_and_flush(&mut self, _times: usize, _ring: &mut Ring<'_>) {
        unreachable!("a peer in C has no wait");
    }

    /// Waits once, and serves what that brings.
    fn wait(&mut self, _timeout: Duration, _ring: &mut Ring<'_>) {
        unreachable!("a peer in C has no wait");
    }
}

impl<P: RustPoller> PeerPoller for P {
    fn run(&mut self, ring: &mut Ring<'_>) {
        while !ring.is_over() {
            self.turn(None, ring);
        }
    }

    fn toggle(&mut self, times: usize) {
        for _ in 0..times {
            self.watch_first(false);
            self.watch_first(true);
        }
    }

    fn toggle_and_flush(&mut self, times: usize, ring: &mut Ring<'_>) {
        for _ in 0..times {
            for starts in [false, true] {
                self.watch_first(starts);
                self.turn(Some(Duration::ZERO), ring);
            }
        }
    }

    fn wait(&mut self, timeout: Duration, ring: &mut Ring<'_>) {
        self.turn(Some(timeout), ring);
    }
}

/// How to create a poller.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Setup {
    /// Each descriptor has a timer, which is armed, and armed again whenever its pair is served.
    pub(super) timers: bool,
    /// Makes the clock of an `EventLoop`; the system's if it is `None`.
    pub(super) clock: Option<fn() -> Clock>,
}

/// Makes a poller that watches descriptors.
pub(super) type Create = Box<dyn for<'a> Fn(&'a [OwnedFd], Setup) -> Box<dyn PeerPoller + 'a>>;

/// A key that was an index into the watched descriptors before.
#[inline]
#[expect(clippy::cast_possible_truncation, reason = "it was an index before")]
pub(super) fn index(key: u64) -> usize {
    key as usize
}
