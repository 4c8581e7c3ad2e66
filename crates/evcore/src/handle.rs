//! Reaching the loop from elsewhere.

use std::{
    io,
    os::fd::{AsFd, BorrowedFd},
    sync::Arc,
};

use evcore_poller::{Ready, Waker};
use evcore_posted::Sender;
use evcore_token::Token;

use crate::outside::{Calls, Post};

/// Wakes the loop from another thread or a signal handler, and posts to it from another thread.
/// Cheap to clone.
///
/// Its descriptor ([`AsFd`]) takes eight bytes, the number 1 in native order, for the same effect as
/// [`wake`](Self::wake): that is what `evcore-prefork` needs to make a signal wake the loop.
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
    calls: Arc<Calls>,
    posts: Sender<Post>,
}

impl Handle {
    pub(crate) fn new(waker: Waker, calls: Arc<Calls>, posts: Sender<Post>) -> Self {
        Self {
            waker,
            calls,
            posts,
        }
    }

    /// Makes the loop yield [`Step::Woken`](crate::Step::Woken), in this turn or the next.
    ///
    /// Many wakes may be seen as one; none is lost. Takes no lock and allocates nothing. After the
    /// loop is gone it does nothing.
    pub fn wake(&self) {
        self.calls.call();
        self.waker.wake();
    }

    /// Makes the loop yield [`Step::Ready`](crate::Step::Ready) for this token, among the posted
    /// steps of the turn that comes next; it ends the loop's wait.
    ///
    /// As with [`EventLoop::post`](crate::EventLoop::post), readiness merges: a token that is posted
    /// many times before its step gets one step with all of it. A token that is not in the loop when
    /// its post arrives is dropped there, and [counted](crate::Stats::stale).
    ///
    /// What this thread did before is visible to the step, so that a result may lie where both
    /// sides find it. A turn takes in as many posts as its [budget](crate::Budgets::posted) of
    /// posted steps; those that wait are not limited, and take 16 bytes each.
    ///
    /// A post makes no [`Step::Woken`](crate::Step::Woken). (Where the descriptor of a handle is in
    /// use it may, since the kernel does not tell who has written to it.)
    ///
    /// Costs a short lock and, if no post waits already, one `write`. Not for signal handlers, which
    /// must not take locks: let them [`wake`](Self::wake).
    ///
    /// # Errors
    ///
    /// [`LoopGone`]: the loop has been dropped. What was posted before and not yet taken in is
    /// dropped with it.
    ///
    /// ```
    /// use evcore::{EventLoop, Ready, Step, Token};
    /// use std::{num::NonZeroU32, sync::mpsc, thread};
    ///
    /// let mut ev = EventLoop::builder().build()?;
    /// let job = Token::new(0, NonZeroU32::MIN);
    /// ev.begin(job)?;
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
    pub fn post(&self, token: Token, ready: Ready) -> Result<(), LoopGone> {
        self.posts
            .send((token, ready))
            .map_err(|_| LoopGone { token, ready })
    }
}

/// Whoever has this may write to it at any time, and a write cannot be told from a post's.
///
/// # Panics
///
/// If the loop's backend has no kernel behind it: then there is no descriptor.
impl AsFd for Handle {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.calls.lend();
        self.waker.as_fd()
    }
}

/// What [`Handle::post`] hands back: the loop that it was posted to has been dropped.
///
/// ```
/// use evcore::{EventLoop, LoopGone, Ready, Token};
/// use std::num::NonZeroU32;
///
/// let ev = EventLoop::builder().build()?;
/// let (handle, token) = (ev.handle(), Token::new(7, NonZeroU32::MIN));
/// drop(ev);
/// let gone = handle.post(token, Ready::READABLE).unwrap_err();
/// assert_eq!(gone, LoopGone { token, ready: Ready::READABLE });
/// assert_eq!(gone.to_string(), "posting 7v1: its loop is gone, and so is all that it served");
/// # Ok::<(), evcore::Error>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("posting {token}: its loop is gone, and so is all that it served")]
pub struct LoopGone {
    /// The token that was posted.
    pub token: Token,
    /// The readiness that was posted with it.
    pub ready: Ready,
}

/// A broken pipe, with the message.
impl From<LoopGone> for io::Error {
    fn from(gone: LoopGone) -> Self {
        Self::new(io::ErrorKind::BrokenPipe, gone)
    }
}
