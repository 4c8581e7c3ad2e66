//! The interface of a poller that is measured.

use std::time::Duration;

use super::ring::Ring;

/// The most events of one wait, if that can be set.
pub(super) const BATCH: usize = 1024;

/// A poller that watches the descriptors that it was made for, which are near ends of pairs.
pub(super) trait PeerPoller {
    /// Serves until no events are left.
    fn run(&mut self, ring: &mut Ring<'_>);

    /// Stops watching the first descriptor and starts again, `times` times.
    fn toggle(&mut self, times: usize);

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
    /// valgrind runs it, under which rustix finds no clock.
    pub(super) under_valgrind: bool,
}
