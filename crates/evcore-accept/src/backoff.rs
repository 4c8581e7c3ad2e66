//! When to try again, after the descriptors have run out.
//!
//! While there is no descriptor, a listener with a client in its queue is readable and cannot be
//! emptied: a loop that goes on watching it spins. So listening pauses, for a time or until a
//! descriptor is closed, whichever is sooner.
//!
//! Meanwhile the clients wait in the backlog. One a pause may be turned away, to learn why: more
//! would be turned away needlessly where descriptors are closed all the time, and each serves the
//! next.
//!
//! There is no clock here, and no listener: the caller says what time it is, stops watching its
//! listeners when the pause begins, and watches them again when it ends.

use std::time::Duration;

/// The pause of a server that has no descriptor left to accept with.
///
/// Times are milliseconds of one clock of the caller's that does not go back.
///
/// # Examples
///
/// ```
/// use evcore_accept::Backoff;
///
/// let mut backoff = Backoff::new();
/// backoff.pause(1_000); // accept said Exhausted: stop watching the listeners
/// assert_eq!(backoff.resumes_at(), Some(1_500)); // a deadline for the loop's wait
/// assert!(backoff.is_paused(1_499));
///
/// assert!(backoff.descriptor_closed()); // one is free: watch the listeners again
/// assert!(!backoff.is_paused(1_499));
/// ```
#[derive(Clone, Debug)]
pub struct Backoff {
    pause_ms: u64,
    resumes_at_ms: Option<u64>,
    /// When another client may be turned away.
    may_shed_at_ms: u64,
}

impl Backoff {
    /// How long a pause lasts unless a descriptor is closed sooner: 500 ms, as in nginx.
    pub const PAUSE: Duration = Duration::from_millis(500);

    /// Makes a backoff that pauses for [`PAUSE`](Self::PAUSE), and is not paused.
    #[must_use]
    pub fn new() -> Self {
        Self::with_pause(Self::PAUSE)
    }

    /// Makes a backoff that pauses for `pause`, rounded up to milliseconds, and is not paused.
    ///
    /// With [`Duration::ZERO`] no pause lasts, and a server out of descriptors spins.
    #[must_use]
    pub fn with_pause(pause: Duration) -> Self {
        let pause_ms = pause.as_nanos().div_ceil(1_000_000);
        Self {
            pause_ms: u64::try_from(pause_ms).unwrap_or(u64::MAX),
            resumes_at_ms: None,
            may_shed_at_ms: 0,
        }
    }

    /// Begins a pause; one that is under way begins anew.
    pub fn pause(&mut self, now_ms: u64) {
        self.resumes_at_ms = Some(now_ms.saturating_add(self.pause_ms));
    }

    /// Whether it is time to turn a client away, by a [`ReserveFd`](crate::ReserveFd): true once in the
    /// length of a pause, however many pauses begin in it.
    ///
    /// To be asked when there is no descriptor left, before the [`pause`](Self::pause).
    ///
    /// # Examples
    ///
    /// ```
    /// use evcore_accept::Backoff;
    ///
    /// let mut backoff = Backoff::new();
    /// assert!(backoff.may_shed(1_000));
    /// assert!(!backoff.may_shed(1_499));
    /// assert!(backoff.may_shed(1_500));
    /// ```
    pub fn may_shed(&mut self, now_ms: u64) -> bool {
        let is_time = now_ms >= self.may_shed_at_ms;
        if is_time {
            self.may_shed_at_ms = now_ms.saturating_add(self.pause_ms);
        }
        is_time
    }

    /// Ends the pause because a descriptor was closed, and returns whether there was one to end.
    ///
    /// True means: watch the listeners again.
    pub fn descriptor_closed(&mut self) -> bool {
        self.resumes_at_ms.take().is_some()
    }

    /// Ends the pause if its time is over, and returns whether it ended by this call.
    ///
    /// True means: watch the listeners again.
    pub fn expire(&mut self, now_ms: u64) -> bool {
        let over = self
            .resumes_at_ms
            .is_some_and(|resumes_at_ms| now_ms >= resumes_at_ms);
        if over {
            self.resumes_at_ms = None;
        }
        over
    }

    /// When the pause ends at the latest, in ms; `None` if there is none.
    ///
    /// Stays until [`expire`](Self::expire) or [`descriptor_closed`](Self::descriptor_closed) ends
    /// the pause, so that the end is noticed once, however late.
    #[must_use]
    pub fn resumes_at(&self) -> Option<u64> {
        self.resumes_at_ms
    }

    /// Whether a pause is under way at `now_ms`.
    #[must_use]
    pub fn is_paused(&self, now_ms: u64) -> bool {
        self.resumes_at_ms
            .is_some_and(|resumes_at_ms| now_ms < resumes_at_ms)
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

    #[test]
    fn a_new_backoff_is_not_paused() {
        let mut backoff = Backoff::new();
        assert!(!backoff.is_paused(0));
        assert_eq!(backoff.resumes_at(), None);
        assert!(!backoff.descriptor_closed());
        assert!(!backoff.expire(u64::MAX));
    }

    #[test]
    fn a_pause_lasts_500_ms() {
        let mut backoff = Backoff::new();
        backoff.pause(7);
        assert!(backoff.is_paused(506));
        assert!(!backoff.is_paused(507));
    }

    #[test]
    fn the_end_of_a_pause_is_noticed_once() {
        let mut backoff = Backoff::new();
        backoff.pause(0);
        assert!(!backoff.expire(499));
        assert_eq!(backoff.resumes_at(), Some(500));
        assert!(backoff.expire(9_000));
        assert!(!backoff.expire(9_000));
        assert_eq!(backoff.resumes_at(), None);
    }

    #[test]
    fn a_closed_descriptor_ends_the_pause_at_once() {
        let mut backoff = Backoff::new();
        backoff.pause(0);
        assert!(backoff.descriptor_closed());
        assert!(!backoff.is_paused(1));
        assert!(!backoff.descriptor_closed(), "there is none left to end");
    }

    #[test]
    fn one_client_a_pause_is_turned_away_however_often_descriptors_are_closed() {
        let mut backoff = Backoff::new();
        let mut shed = 0;
        for now_ms in 0..2_000 {
            shed += u32::from(backoff.may_shed(now_ms));
            backoff.pause(now_ms);
            backoff.descriptor_closed();
        }
        assert_eq!(shed, 4);
    }

    #[test]
    fn pausing_again_begins_anew() {
        let mut backoff = Backoff::new();
        backoff.pause(0);
        backoff.pause(300);
        assert_eq!(backoff.resumes_at(), Some(800));
    }

    #[test]
    fn a_pause_of_less_than_a_millisecond_is_not_none() {
        let mut backoff = Backoff::with_pause(Duration::from_nanos(1));
        backoff.pause(10);
        assert!(backoff.is_paused(10));
        assert!(!backoff.is_paused(11));
    }

    #[test]
    fn the_longest_pause_does_not_overflow() {
        let mut backoff = Backoff::with_pause(Duration::MAX);
        backoff.pause(10);
        assert_eq!(backoff.resumes_at(), Some(u64::MAX));
    }
}
