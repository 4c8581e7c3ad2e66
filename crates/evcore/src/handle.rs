//! Reaching the loop from elsewhere.

use std::{
    io,
    os::fd::{AsFd, BorrowedFd},
    sync::Arc,
    time::Duration,
};

use evcore_poller::{Ready, Waker};
use evcore_posted::Sender;
use evcore_token::Token;

use crate::remote::{RemotePost, RemoteRequests};

/// Wakes the loop or shuts it down from another thread or a signal handler, and posts to it from
/// another thread. Cheap to clone.
///
/// Its descriptor ([`AsFd`]) takes eight bytes, the number 1 in native order, for the same effect
/// as [`wake`](Self::wake): that is what `evcore-prefork` needs to make a signal wake the loop.
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
    /// Many wakes may be seen as one; none is lost. Takes no lock and allocates nothing. After the
    /// loop is gone it does nothing.
    pub fn wake(&self) {
        self.requests.request_wake();
        self.waker.wake();
    }

    /// Makes the loop [shut down](crate::EventLoop::shutdown), as if it did so at the beginning of
    /// its next turn: from there the time counts. It ends the loop's wait.
    ///
    /// Of several calls the one that ends first counts. What this thread did before is visible once
    /// the loop [is shutting down](crate::EventLoop::is_shutting_down). It makes no
    /// [`Step::Woken`](crate::Step::Woken) (but see [`post`](Self::post)).
    ///
    /// Rounded up to a millisecond. Takes no lock and allocates nothing, so a signal handler may
    /// call it (outside Linux it may set `errno`). After the loop is gone it does nothing.
    ///
    /// ```
    /// # use evcore::EventLoop;
    /// # use std::time::Duration;
    /// let mut ev = EventLoop::builder().build()?;
    /// let handle = ev.handle();
    /// std::thread::spawn(move || handle.shutdown(Duration::from_secs(30)));
    /// while !ev.is_done() {
    ///     ev.wait()?;
    ///     while ev.next_step().is_some() {}
    /// }
    /// # Ok::<(), evcore::Error>(())
    /// ```
    pub fn shutdown(&self, timeout: Duration) {
        self.requests.request_shutdown(timeout);
        self.waker.wake();
    }

    /// Makes the loop yield [`Step::Ready`](crate::Step::Ready) for this token, among the posted
    /// steps of the turn that comes next; it ends the loop's wait.
    ///
    /// As with [`EventLoop::post`](crate::EventLoop::post), readiness merges: a token that is
    /// posted many times before its step gets one step with all of it. A token that is not in the
    /// loop when its post arrives is dropped there, and [counted](crate::Stats::stale).
    ///
    /// What this thread did before is visible to the step, so that a result may lie where both
    /// sides find it. A turn takes in as many posts as its [budget](crate::Budgets::posted) of
    /// posted steps; those that wait are not limited, and take 16 bytes each.
    ///
    /// A post makes no [`Step::Woken`](crate::Step::Woken). (Where the descriptor of a handle is in
    /// use it may, since the kernel does not tell who has written to it.)
    ///
    /// Costs a short lock and, if no post waits already, one `write`. Not for signal handlers,
    /// which must not take locks: let them [`wake`](Self::wake).
    ///
    /// # Errors
    ///
    /// [`LoopClosed`]: the loop has been dropped. What was posted before and not yet taken in is
    /// dropped with it.
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
    pub fn post(&self, token: Token, ready: Ready) -> Result<(), LoopClosed> {
        self.posts
            .send((token, ready))
            .map_err(|_| LoopClosed { token, ready })
    }
}

/// Whoever has this may write to it at any time, and a write cannot be told from a post's.
///
/// # Panics
///
/// If the loop's backend has no kernel behind it: then there is no descriptor.
impl AsFd for Handle {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.requests.expose_fd();
        self.waker.as_fd()
    }
}

/// What [`Handle::post`] hands back: the loop that it was posted to has been dropped.
///
/// ```
/// use evcore::{EventLoop, LoopClosed, Ready, Token};
/// use std::num::NonZeroU32;
///
/// let ev = EventLoop::builder().build()?;
/// let (handle, token) = (ev.handle(), Token::new(7, NonZeroU32::MIN));
/// drop(ev);
/// let gone = handle.post(token, Ready::READABLE).unwrap_err();
/// assert_eq!(gone, LoopClosed { token, ready: Ready::READABLE });
/// assert_eq!(gone.to_string(), "posting 7v1: its loop is gone, and so is all that it served");
/// # Ok::<(), evcore::Error>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("posting {token}: its loop is gone, and so is all that it served")]
pub struct LoopClosed {
    /// The token that was posted.
    pub token: Token,
    /// The readiness that was posted with it.
    pub ready: Ready,
}

/// A broken pipe, with the message.
impl From<LoopClosed> for io::Error {
    fn from(gone: LoopClosed) -> Self {
        Self::new(io::ErrorKind::BrokenPipe, gone)
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
    fn a_wake_is_one_whatever_ended_the_wait_and_is_delivered_once() {
        let (mut remote, handle) = remote();
        handle.wake();
        remote.on_woken();
        assert!(remote.has_work() && remote.take_wake());
        remote.on_woken();
        assert!(!remote.take_wake());
    }

    #[test]
    fn whoever_holds_the_descriptor_is_given_the_benefit_of_the_doubt() {
        let (mut remote, handle) = remote();
        remote.on_woken();
        assert!(!remote.take_wake());
        let _ = handle.as_fd();
        remote.on_woken();
        assert!(remote.take_wake());
    }

    #[test]
    fn the_inbox_is_looked_into_after_a_wake_up_and_until_it_is_empty() {
        let (mut remote, handle) = remote();
        let token = Token::new(0, std::num::NonZeroU32::MIN);
        for _ in 0..3 {
            handle.post(token, Ready::READABLE).unwrap();
        }
        assert!(!remote.has_news(), "nobody has been woken");
        remote.on_woken();
        assert_eq!(remote.posts(2).count(), 2);
        assert!(remote.has_news() && remote.has_work());
        assert_eq!(remote.posts(2).count(), 1);
        assert!(!remote.has_news() && !remote.has_work());
    }

    #[test]
    fn of_several_shutdowns_the_shortest_begins_even_if_a_wait_failed_between_them() {
        let (mut remote, handle) = remote();
        let asked = [7_000_001, 5_000_001, 6_000_000].map(Duration::from_nanos);
        handle.shutdown(asked[0]);
        handle.shutdown(asked[1]);
        remote.on_woken();
        handle.shutdown(asked[2]);
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
    fn the_longest_shutdown_is_one_too() {
        let (mut remote, handle) = remote();
        handle.shutdown(Duration::MAX);
        remote.on_woken();
        assert!(remote.take_shutdown() >= Some(Duration::from_secs(u64::MAX / 1001)));
    }
}
