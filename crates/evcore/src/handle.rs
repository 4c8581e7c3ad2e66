//! The handle by which other threads and signal handlers reach the loop.

use std::{io, os::fd::BorrowedFd, sync::Arc, time::Duration};

use evcore_poller::{Ready, Waker};
use evcore_posted::{SendError, Sender};
use evcore_token::Token;

use crate::remote::{RemotePost, RemoteRequests};

/// Reaches a loop from elsewhere: other threads wake it, shut it down and post to it; signal handlers
/// wake it and shut it down. Cheap to clone.
///
/// Code that can only write has its [`descriptor`](Self::descriptor). `evcore-prefork` uses that to
/// wake the loop from a signal handler.
///
/// ```
/// # use evcore::{EventLoop, Step};
/// let mut ev = EventLoop::builder().build()?;
/// let handle = ev.handle();
/// std::thread::spawn(move || handle.wake());
/// ev.wait()?;
/// assert!(matches!(ev.next_step(), Some(Step::Woken)));
/// # Ok::<(), evcore::Error>(())
/// ```
#[derive(Clone, Debug)]
pub struct Handle {
    waker: Waker,
    requests: Arc<RemoteRequests>,
    posts: Sender<RemotePost>,
}

impl Handle {
    pub(crate) fn new(
        waker: Waker,
        requests: Arc<RemoteRequests>,
        posts: Sender<RemotePost>,
    ) -> Self {
        Self {
            waker,
            requests,
            posts,
        }
    }

    /// Makes the loop yield [`Step::Woken`](crate::Step::Woken), in this turn or the next.
    ///
    /// Several wakes may make one step; none is lost. Takes no lock and allocates nothing. If the loop
    /// has been dropped it does nothing.
    pub fn wake(&self) {
        self.requests.request_wake();
        self.waker.wake();
    }

    /// Makes the loop [shut down](crate::EventLoop::shutdown) at the beginning of its next turn,
    /// which is also where the timeout begins. It ends the loop's wait.
    ///
    /// If it is called several times, the earliest deadline counts. What this thread did before is
    /// visible when [`Status::shutting_down`](crate::Status::shutting_down) is true. It makes no
    /// [`Step::Woken`](crate::Step::Woken) (but see [`post`](Self::post)).
    ///
    /// The timeout is rounded up to a millisecond. Takes no lock and allocates nothing, so a signal
    /// handler may call it (outside Linux it may set `errno`). If the loop has been dropped it does
    /// nothing.
    ///
    /// ```
    /// # use evcore::EventLoop;
    /// # use std::time::Duration;
    /// let mut ev = EventLoop::builder().build()?;
    /// let handle = ev.handle();
    /// std::thread::spawn(move || handle.shutdown(Duration::from_secs(30)));
    /// while !ev.is_shut_down() {
    ///     ev.wait()?;
    ///     while ev.next_step().is_some() {}
    /// }
    /// # Ok::<(), evcore::Error>(())
    /// ```
    pub fn shutdown(&self, timeout: Duration) {
        self.requests.request_shutdown(timeout);
        self.waker.wake();
    }

    /// Queues a [`Step::Ready`](crate::Step::Ready) for a token, among the posted steps of the next
    /// turn, and ends the loop's wait.
    ///
    /// As with [`EventLoop::post`](crate::EventLoop::post), readiness merges: several posts for one
    /// token before its step make one step with all of it. If the token is not in the loop when its
    /// post arrives, the post is dropped and [counted](crate::Stats::stale).
    ///
    /// What this thread did before is visible to the step, so both sides can share a result. A turn
    /// takes in as many posts as its [budget](crate::Budgets::posted) of posted steps.
    ///
    /// A post makes no [`Step::Woken`](crate::Step::Woken). (It may, if something also writes to
    /// the descriptor of a handle, because the kernel does not report the writer.)
    ///
    /// Costs a short lock and, if no post waits yet, one `write`. Do not call it in a signal
    /// handler, which must not take locks; call [`wake`](Self::wake) there.
    ///
    /// # Errors
    ///
    /// Each hands the post back. [`PostError::Full`] if as many posts wait as
    /// [`Builder::posts`](crate::Builder::posts) allows: try again when the loop has taken some in.
    /// [`PostError::Closed`] if the loop has been dropped, and with it the posts that waited.
    ///
    /// ```
    /// use evcore::{EventLoop, Ready, Step};
    /// use std::{sync::mpsc, thread};
    ///
    /// let mut ev = EventLoop::builder().build()?;
    /// let job = ev.add_unwatched()?;
    /// let (handle, (results, done)) = (ev.handle(), mpsc::channel());
    /// thread::spawn(move || {
    ///     results.send(6 * 7)?;
    ///     Ok::<_, Box<dyn std::error::Error + Send + Sync>>(handle.post(job, Ready::READABLE)?)
    /// });
    ///
    /// ev.wait()?;
    /// assert!(matches!(ev.next_step(), Some(Step::Ready(token, _)) if token == job));
    /// assert_eq!(done.try_recv(), Ok(42));
    /// # Ok::<(), evcore::Error>(())
    /// ```
    pub fn post(&self, token: Token, ready: Ready) -> Result<(), PostError> {
        self.posts.send((token, ready)).map_err(PostError::of)
    }

    /// Posts like [`post`](Self::post), and waits for at most `timeout` if too many posts wait.
    ///
    /// It blocks the thread until a turn of the loop has taken posts in. Do not call it on the
    /// loop's own thread, because then no turn begins. [`Duration::MAX`] waits without limit.
    ///
    /// # Errors
    ///
    /// Each hands the post back. [`PostError::Full`] if the time is over. [`PostError::Closed`] if
    /// the loop has been dropped, also while this waits.
    ///
    /// ```
    /// use evcore::{EventLoop, Ready};
    /// use std::{thread, time::Duration};
    ///
    /// let mut ev = EventLoop::builder().posts(1).build()?;
    /// let jobs = [ev.add_unwatched()?, ev.add_unwatched()?, ev.add_unwatched()?];
    /// let handle = ev.handle();
    /// let pool = thread::spawn(move || {
    ///     jobs.into_iter()
    ///         .try_for_each(|job| handle.post_timeout(job, Ready::READABLE, Duration::MAX))
    /// });
    ///
    /// let mut finished = 0;
    /// while finished < 3 {
    ///     ev.wait()?;
    ///     while ev.next_step().is_some() {
    ///         finished += 1;
    ///     }
    /// }
    /// assert_eq!(pool.join().unwrap(), Ok(()));
    /// # Ok::<(), evcore::Error>(())
    /// ```
    pub fn post_timeout(
        &self,
        token: Token,
        ready: Ready,
        timeout: Duration,
    ) -> Result<(), PostError> {
        self.posts
            .send_timeout((token, ready), timeout)
            .map_err(PostError::of)
    }

    /// Borrows the descriptor for wake-ups: eight bytes written to it, the number 1 in native byte
    /// order, have the effect of [`wake`](Self::wake). `None` if the loop's backend has no kernel
    /// behind it, as in a simulation.
    ///
    /// Every holder may write to it at any time, and the loop cannot tell a write from a post. So
    /// after this call every wake-up of the loop is a [`Step::Woken`](crate::Step::Woken).
    #[must_use]
    pub fn descriptor(&self) -> Option<BorrowedFd<'_>> {
        let fd = self.waker.descriptor()?;
        self.requests.expose_fd();
        Some(fd)
    }
}

/// Why [`Handle::post`] and [`Handle::post_timeout`] hand a post back.
///
/// ```
/// use evcore::{EventLoop, PostError, Ready, Token};
/// use std::num::NonZeroU32;
///
/// let ev = EventLoop::builder().posts(1).build()?;
/// let (handle, token) = (ev.handle(), Token::new(7, NonZeroU32::MIN));
/// handle.post(token, Ready::READABLE).unwrap();
/// let full = handle.post(token, Ready::WRITABLE).unwrap_err();
/// assert_eq!(full, PostError::Full { token, ready: Ready::WRITABLE });
/// drop(ev);
/// let closed = handle.post(token, Ready::READABLE).unwrap_err();
/// assert_eq!(closed.to_string(), "posting 7v1: the loop has been dropped");
/// # Ok::<(), evcore::Error>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum PostError {
    /// As many posts wait as [`Builder::posts`](crate::Builder::posts) allows.
    #[error(
        "posting {token}: too many posts wait; \
         try again later, or give Builder::posts a higher limit"
    )]
    Full {
        /// The token that was posted.
        token: Token,
        /// The readiness that was posted with it.
        ready: Ready,
    },
    /// The loop has been dropped.
    #[error("posting {token}: the loop has been dropped")]
    Closed {
        /// The token that was posted.
        token: Token,
        /// The readiness that was posted with it.
        ready: Ready,
    },
}

impl PostError {
    fn of(error: SendError<RemotePost>) -> Self {
        match error {
            SendError::Full((token, ready)) => Self::Full { token, ready },
            SendError::Closed((token, ready)) => Self::Closed { token, ready },
        }
    }
}

/// `WouldBlock` if the loop has too many posts, `BrokenPipe` if it has been dropped.
impl From<PostError> for io::Error {
    fn from(error: PostError) -> Self {
        let kind = match error {
            PostError::Full { .. } => io::ErrorKind::WouldBlock,
            PostError::Closed { .. } => io::ErrorKind::BrokenPipe,
        };
        Self::new(kind, error)
    }
}

#[cfg(test)]
mod tests {
    use evcore_poller::WakeChannel;

    use super::*;
    use crate::remote::Remote;

    fn remote() -> (Remote, Handle) {
        let channel = WakeChannel::new().unwrap();
        let waker = channel.waker();
        let remote = Remote::new(100, move || waker.wake());
        let handle = Handle::new(channel.waker(), remote.requests(), remote.sender());
        (remote, handle)
    }

    #[test]
    fn a_wake_is_delivered_once_whatever_ended_the_wait() {
        let (mut remote, handle) = remote();
        handle.wake();
        remote.on_woken();
        assert!(remote.has_work() && remote.take_wake());
        remote.on_woken();
        assert!(!remote.take_wake());
    }

    #[test]
    fn with_the_descriptor_exposed_every_wake_up_is_a_wake() {
        let (mut remote, handle) = remote();
        remote.on_woken();
        assert!(!remote.take_wake());
        let _ = handle.descriptor().expect("a channel has one");
        remote.on_woken();
        assert!(remote.take_wake());
    }

    #[test]
    fn without_a_kernel_there_is_no_descriptor() {
        let (mut remote, _) = remote();
        let waker = Waker::from_fn(|| {});
        let handle = Handle::new(waker, remote.requests(), remote.sender());
        assert!(handle.descriptor().is_none());
        remote.on_woken();
        assert!(!remote.take_wake(), "nobody can write to it");
    }

    #[test]
    fn the_inbox_is_drained_from_a_wake_up_until_it_is_empty() {
        let (mut remote, handle) = remote();
        let token = Token::new(0, std::num::NonZeroU32::MIN);
        for _ in 0..3 {
            handle.post(token, Ready::READABLE).unwrap();
        }
        assert!(!remote.has_news(), "the poller was not woken");
        remote.on_woken();
        assert_eq!(remote.posts(2).count(), 2);
        assert!(remote.has_news() && remote.has_work());
        assert_eq!(remote.posts(2).count(), 1);
        assert!(!remote.has_news() && !remote.has_work());
    }

    #[test]
    fn a_full_inbox_hands_the_post_back_until_it_is_drained() {
        let (mut remote, handle) = remote();
        let token = Token::new(0, std::num::NonZeroU32::MIN);
        let ready = Ready::READABLE;
        for _ in 0..100 {
            handle.post(token, ready).unwrap();
        }
        let full = handle.post(token, ready).unwrap_err();
        assert_eq!(full, PostError::Full { token, ready });
        assert_eq!(io::Error::from(full).kind(), io::ErrorKind::WouldBlock);
        assert_eq!(remote.posts(1).count(), 1);
        assert_eq!(handle.post(token, ready), Ok(()));
    }

    #[test]
    fn a_post_that_waits_in_vain_is_handed_back() {
        let (mut remote, handle) = remote();
        let token = Token::new(0, std::num::NonZeroU32::MIN);
        let ready = Ready::READABLE;
        let short = Duration::from_millis(1);
        for _ in 0..100 {
            assert_eq!(handle.post_timeout(token, ready, short), Ok(()));
        }
        let full = handle.post_timeout(token, ready, short);
        assert_eq!(full, Err(PostError::Full { token, ready }));
        assert_eq!(remote.posts(1).count(), 1);
        assert_eq!(handle.post_timeout(token, ready, Duration::MAX), Ok(()));
        drop(remote);
        let closed = handle.post_timeout(token, ready, Duration::MAX);
        assert_eq!(closed, Err(PostError::Closed { token, ready }));
    }

    #[test]
    fn the_shortest_shutdown_begins_even_after_a_failed_wait() {
        let (mut remote, handle) = remote();
        let timeouts = [7_000_001, 5_000_001, 6_000_000].map(Duration::from_nanos);
        handle.shutdown(timeouts[0]);
        handle.shutdown(timeouts[1]);
        remote.on_woken();
        handle.shutdown(timeouts[2]);
        remote.on_woken();
        let shortest = Duration::from_millis(6);
        assert_eq!(
            remote.take_shutdown(),
            Some(shortest),
            "5.000001 ms, rounded up"
        );
        assert_eq!(remote.take_shutdown(), None);
    }

    #[test]
    fn the_longest_timeout_of_a_shutdown_is_accepted() {
        let (mut remote, handle) = remote();
        handle.shutdown(Duration::MAX);
        remote.on_woken();
        assert!(remote.take_shutdown() >= Some(Duration::from_secs(u64::MAX / 1001)));
    }
}
