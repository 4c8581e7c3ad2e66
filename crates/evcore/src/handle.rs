//! Reaching the loop from elsewhere.

use std::os::fd::{AsFd, BorrowedFd};

use evcore_poller::Waker;

/// Wakes the loop from another thread, or from a signal handler. Cheap to clone.
///
/// Its descriptor ([`AsFd`]) takes eight bytes, the number 1 in native order, for the same effect:
/// that is what `evcore-prefork` needs to make a signal wake the loop.
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
}

impl Handle {
    pub(crate) fn new(waker: Waker) -> Self {
        Self { waker }
    }

    /// Makes the loop yield [`Step::Woken`](crate::Step::Woken), in this turn or the next.
    ///
    /// Many wakes may be seen as one; none is lost. Takes no lock and allocates nothing.
    pub fn wake(&self) {
        self.waker.wake();
    }
}

impl AsFd for Handle {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.waker.as_fd()
    }
}
