//! What a poller must do to be measured.

use std::os::fd::OwnedFd;
use std::time::Duration;

use super::ring_of_pairs::Ring;

/// The most events of one wait, if that can be set.
pub(super) const BATCH: usize = 1024;

/// A poller that watches the descriptors that it was made for, which are near ends of pairs.
pub(super) trait PeerPoller {
    /// Serves until no events are left.
    fn run(&mut self, ring: &mut Ring<'_>);

    /// Stops watching the first descriptor (false), or starts again.
    fn watch_first(&mut self, _starts: bool) {
        unreachable!("a peer in C has its own `toggle`");
    }

    /// Stops watching the first descriptor and starts again, `times` times.
    fn toggle(&mut self, times: usize) {
        for _ in 0..times {
            self.watch_first(false);
            self.watch_first(true);
        }
    }

    /// As [`toggle`](Self::toggle), with a wait after each change that makes it known to the
    /// kernel.
    fn toggle_and_flush(&mut self, times: usize) {
        for _ in 0..times {
            for starts in [false, true] {
                self.watch_first(starts);
                self.wait(Some(Duration::ZERO));
            }
        }
    }

    /// Waits once, and returns how many events that brought; `None` for one that cannot.
    fn wait(&mut self, _timeout: Option<Duration>) -> Option<usize> {
        None
    }
}

/// How to create a poller.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Setup {
    /// Each descriptor has a timer, which is armed, and armed again whenever its pair is served.
    pub(super) timers: bool,
    pub(super) clock: LoopClock,
}

/// The clock of an `EventLoop`.
#[derive(Clone, Copy, Debug, Default)]
pub(super) enum LoopClock {
    #[default]
    System,
    /// The C library's: valgrind cannot run rustix's.
    UnderValgrind,
    /// The C library's, with its readings counted.
    Counted,
}

/// Makes a poller that watches descriptors.
pub(super) type Create = Box<dyn for<'a> Fn(&'a [OwnedFd], Setup) -> Box<dyn PeerPoller + 'a>>;

/// A key that was an index into the watched descriptors before.
#[inline]
#[expect(clippy::cast_possible_truncation, reason = "it was an index before")]
pub(super) fn index(key: u64) -> usize {
    key as usize
}
