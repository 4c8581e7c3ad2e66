//! The handle by which other threads and signal handlers reach the loop.

use std::{os::fd::BorrowedFd, time::Duration};

use evcore_poller::{Ready, Waker};
use evcore_posted::Requester;
use evcore_token::Token;

/// Reaches a loop from elsewhere: other threads wake it, shut it down and post to it; signal
/// handlers wake it and shut it down. Cheap to clone.
///
/// Code that can only write to a descriptor uses [`descriptor`](Self::descriptor). For example,
/// `evcore-prefork` wakes the loop from a signal handler that way.
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
    requester: Requester<Ready>,
}

impl Handle {
    pub(crate) fn new(waker: Waker, requester: Requester<Ready>) -> Self {
        Self { waker, requester }
    }

    /// Makes the loop yield [`Step::Woken`](crate::Step::Woken), in the turn (iteration of the
    /// loop) that begins with its present or next wait.
    ///
    /// Several wakes may make one step; none is lost. The call takes no lock and allocates nothing.
    /// It has no effect if the loop has been dropped.
    ///
    /// A [`Pool`](evcore_pool::Pool) of threads for blocking work can call `wake`, as in the
    /// example. The pool also returns results whose tokens were removed meanwhile; no container has
    /// a value for such a token.
    ///
    /// ```
    /// use evcore::{EventLoop, Step, pool::Pool};
    /// use std::net::ToSocketAddrs;
    ///
    /// let mut ev = EventLoop::builder().build()?;
    /// let handle = ev.handle();
    /// let mut pool = Pool::new(4, 1_000, move || handle.wake())?;
    /// let lookup = ev.add_unwatched()?;
    /// let job = || "localhost:80".to_socket_addrs().map(Iterator::count);
    /// assert!(pool.submit(lookup, job).is_ok());
    ///
    /// while !pool.is_empty() {
    ///     ev.wait()?;
    ///     while let Some(step) = ev.next_step() {
    ///         assert!(matches!(step, Step::Woken));
    ///         while let Some((token, result)) = pool.next_result() {
    ///             assert_eq!(token, lookup);
    ///             println!("addresses: {:?}", result.expect("the job does not panic"));
    ///         }
    ///     }
    /// }
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn wake(&self) {
        self.requester.wake();
    }

    /// Makes the loop [shut down](crate::EventLoop::shutdown) at the beginning of its next turn;
    /// the timeout counts from then. The call ends the loop's wait.
    ///
    /// If it is called several times, the earliest deadline counts. Earlier writes of the calling
    /// thread are visible to the handler of the [`Step::ShuttingDown`](crate::Step::ShuttingDown)
    /// that follows. The call makes no [`Step::Woken`](crate::Step::Woken), unless
    /// [`descriptor`](Self::descriptor) was called.
    ///
    /// The timeout is rounded up to whole milliseconds. The call takes no lock and allocates
    /// nothing, so a signal handler may make it (outside Linux it may set `errno`). It has no
    /// effect if the loop has been dropped.
    ///
    /// ```
    /// # use evcore::EventLoop;
    /// # use std::time::Duration;
    /// let mut ev = EventLoop::builder().build()?;
    /// let handle = ev.handle();
    /// std::thread::spawn(move || handle.shutdown(Duration::from_secs(30)));
    /// while !ev.stats().shut_down {
    ///     ev.wait()?;
    ///     while ev.next_step().is_some() {}
    /// }
    /// # Ok::<(), evcore::Error>(())
    /// ```
    pub fn shutdown(&self, timeout: Duration) {
        self.requester.shutdown(timeout);
    }

    /// Queues a [`Step::Ready`](crate::Step::Ready) for a token, among the posted steps of the next
    /// turn, and ends the loop's wait. Returns false if the loop has been dropped; no post fails
    /// otherwise.
    ///
    /// As with [`EventLoop::post`](crate::EventLoop::post), readiness merges: several posts for one
    /// token before its step make one step with all of it, and at most one post waits for each
    /// token. With [`Ready::NONE`] the step carries no readiness, and can wake a task that the
    /// program keeps for the token. If the token is not in the loop when its post arrives, the post
    /// is dropped and [counted](crate::Stats::stale). While a post for a later token with the same
    /// index waits, posts for an earlier one are dropped and not counted.
    ///
    /// Earlier writes of the calling thread are visible to the handler of the step, so the thread
    /// can pass a result to that handler. A turn takes in at most its
    /// [budget](crate::Budgets::posted) of posts.
    ///
    /// A post makes no [`Step::Woken`](crate::Step::Woken), unless [`descriptor`](Self::descriptor)
    /// was called.
    ///
    /// The call holds a lock for a short time and, if no post waits yet, makes one `write`. Do not
    /// call it in a signal handler, which must not take locks; call [`wake`](Self::wake) there.
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
    ///     handle.post(job, Ready::READABLE);
    ///     Ok::<_, mpsc::SendError<_>>(())
    /// });
    ///
    /// ev.wait()?;
    /// assert!(matches!(ev.next_step(), Some(Step::Ready(token, _)) if token == job));
    /// assert_eq!(done.try_recv(), Ok(42));
    /// # Ok::<(), evcore::Error>(())
    /// ```
    #[expect(
        clippy::must_use_candidate,
        reason = "a thread may not care whether the loop exists"
    )]
    pub fn post(&self, token: Token, ready: Ready) -> bool {
        let (index, generation) = (token.index(), token.generation());
        self.requester.post(index, generation, ready)
    }

    /// Borrows the descriptor for wake-ups: eight bytes written to it, the number 1 in native byte
    /// order, have the effect of [`wake`](Self::wake). `None` if the loop's backend has no kernel
    /// behind it, as in a simulation.
    ///
    /// Its holder may write to it at any time, and the loop cannot tell such a write from the
    /// wake-up of a post. So after this call every wake-up of the loop is a
    /// [`Step::Woken`](crate::Step::Woken).
    #[must_use]
    pub fn descriptor(&self) -> Option<BorrowedFd<'_>> {
        let fd = self.waker.descriptor()?;
        self.requester.expose_waker();
        Some(fd)
    }
}

#[cfg(test)]
mod tests {
    use evcore_poller::WakeChannel;
    use evcore_posted::Requests;

    use super::*;

    #[test]
    fn every_wake_up_is_a_wake_once_the_descriptor_is_lent() {
        let channel = WakeChannel::new().unwrap();
        let mut requests = Requests::new(|| {});
        let handle = Handle::new(channel.waker(), requests.requester());
        requests.on_woken();
        assert!(!requests.take_wake());
        assert!(handle.descriptor().is_some());
        requests.on_woken();
        assert!(requests.take_wake());
    }

    #[test]
    fn without_a_kernel_there_is_no_descriptor() {
        let mut requests = Requests::new(|| {});
        let handle = Handle::new(Waker::from_fn(|| {}), requests.requester());
        assert!(handle.descriptor().is_none());
        requests.on_woken();
        assert!(!requests.take_wake(), "nobody can write to it");
    }
}
