//! The pause in accepting after a resource has run out.
//!
//! A listener whose client cannot be accepted stays readable, so a loop that keeps watching it
//! spins. Accepting therefore pauses until a descriptor is closed or a fixed time has passed.
//!
//! This file has no clock and no listener: the caller passes the time and watches the listeners.

use std::time::Duration;

/// The pause in accepting after descriptors or memory have run out
/// ([`Accept::Exhausted`](crate::Accept::Exhausted)). Meanwhile the clients wait in the backlog.
///
/// Times are durations since any fixed point, from a clock that does not go back.
///
/// # Examples
///
/// ```
/// use evcore_net::Backoff;
/// use std::time::Duration;
///
/// let mut backoff = Backoff::new();
/// let now = Duration::from_secs(1);
/// backoff.pause(now); // accept returned Exhausted: stop watching the listeners
/// let end = backoff.resumes_at().unwrap(); // a deadline for the wait of the loop
/// assert_eq!(end, now + Backoff::PAUSE);
///
/// assert!(backoff.descriptor_closed()); // a descriptor is free: watch the listeners again
/// assert!(!backoff.is_paused(now));
/// ```
#[derive(Clone, Debug)]
pub struct Backoff {
    pause: Duration,
    resumes_at: Option<Duration>,
}

impl Backoff {
    /// The longest pause by default: 500 ms, as in nginx.
    pub const PAUSE: Duration = Duration::from_millis(500);

    /// Makes a backoff that pauses for at most [`PAUSE`](Self::PAUSE), and is not paused yet.
    #[must_use]
    pub const fn new() -> Self {
        Self::with_pause(Self::PAUSE)
    }

    /// Makes a backoff that pauses for at most `pause`, and is not paused yet.
    ///
    /// With [`Duration::ZERO`] every pause ends at once, and a server without descriptors spins.
    #[must_use]
    pub const fn with_pause(pause: Duration) -> Self {
        Self {
            pause,
            resumes_at: None,
        }
    }

    /// Begins a pause at `now`. A pause that has begun before is extended.
    pub fn pause(&mut self, now: Duration) {
        self.resumes_at = Some(now.saturating_add(self.pause));
    }

    /// Ends the pause because a descriptor was closed. Returns whether there was a pause.
    ///
    /// If it returns true, watch the listeners again.
    pub fn descriptor_closed(&mut self) -> bool {
        self.resumes_at.take().is_some()
    }

    /// Ends the pause if its time is over. Returns whether this call ended a pause.
    ///
    /// If it returns true, watch the listeners again.
    #[inline]
    pub fn expire(&mut self, now: Duration) -> bool {
        let is_over = self.resumes_at.is_some_and(|resumes_at| now >= resumes_at);
        if is_over {
            self.resumes_at = None;
        }
        is_over
    }

    /// The latest end of the pause; `None` if there is no pause.
    ///
    /// A pause whose time is over stays until [`expire`](Self::expire) or
    /// [`descriptor_closed`](Self::descriptor_closed) ends it, so the loop notices its end exactly
    /// once, however late.
    #[inline]
    #[must_use]
    pub const fn resumes_at(&self) -> Option<Duration> {
        self.resumes_at
    }

    /// Returns whether the server should not accept at this time.
    #[must_use]
    pub fn is_paused(&self, now: Duration) -> bool {
        self.resumes_at.is_some_and(|resumes_at| now < resumes_at)
    }
}

impl Default for Backoff {
    fn default() -> Self {
        Self::new()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ms(ms: u64) -> Duration {
        Duration::from_millis(ms)
    }

    #[test]
    fn a_new_backoff_is_not_paused() {
        let mut backoff = Backoff::new();
        assert!(!backoff.is_paused(ms(0)));
        assert_eq!(backoff.resumes_at(), None);
        assert!(!backoff.descriptor_closed());
        assert!(!backoff.expire(Duration::MAX));
    }

    #[test]
    fn a_pause_lasts_500_ms() {
        let mut backoff = Backoff::new();
        backoff.pause(ms(7));
        assert!(backoff.is_paused(ms(506)));
        assert!(!backoff.is_paused(ms(507)));
    }

    #[test]
    fn the_end_of_a_pause_is_noticed_once() {
        let mut backoff = Backoff::new();
        backoff.pause(ms(0));
        assert!(!backoff.expire(ms(499)));
        assert_eq!(backoff.resumes_at(), Some(ms(500)));
        assert!(backoff.expire(ms(9_000)));
        assert!(!backoff.expire(ms(9_000)));
        assert_eq!(backoff.resumes_at(), None);
    }

    #[test]
    fn a_closed_descriptor_ends_the_pause_at_once() {
        let mut backoff = Backoff::new();
        backoff.pause(ms(0));
        assert!(backoff.descriptor_closed());
        assert!(!backoff.is_paused(ms(1)));
        assert!(!backoff.descriptor_closed(), "the pause has ended already");
    }

    #[test]
    fn pausing_again_extends_the_pause() {
        let mut backoff = Backoff::new();
        backoff.pause(ms(0));
        backoff.pause(ms(300));
        assert_eq!(backoff.resumes_at(), Some(ms(800)));
    }

    #[test]
    fn a_pause_may_be_shorter_than_a_millisecond() {
        let nanosecond = Duration::from_nanos(1);
        let mut backoff = Backoff::with_pause(nanosecond);
        backoff.pause(ms(10));
        assert!(backoff.is_paused(ms(10)));
        assert!(!backoff.is_paused(ms(10) + nanosecond));
    }

    #[test]
    fn the_longest_pause_does_not_overflow() {
        let mut backoff = Backoff::with_pause(Duration::MAX);
        backoff.pause(ms(10));
        assert_eq!(backoff.resumes_at(), Some(Duration::MAX));
    }
}
