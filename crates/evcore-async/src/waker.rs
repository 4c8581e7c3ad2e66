//! The wakers of tasks and of main futures (the futures that `Runtime::block_on` runs). They may
//! *post* a token, which makes the loop yield a step with that token.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::task::Wake;

use evcore::{Handle, Ready, Token};

use crate::context::{has_entered, with};

pub(crate) struct Remote {
    /// The identity of the executor.
    pub(crate) id: u64,
    pub(crate) handle: Handle,
}

impl Remote {
    pub(crate) fn post(&self, token: Token) {
        // The post fails only if the loop is dropped, and then no task runs.
        let _ = self.handle.post(token, Ready::NONE);
    }
}

/// Makes a task due. If the executor has lent its loop on this thread (see `context`), the waker
/// puts the task into the run queue (or posts its token, if the loop has instruments). Otherwise,
/// the waker posts the task's token by the loop's handle. The loop merges posts, and drops posts of
/// a token that has ended.
pub(crate) struct TaskWaker {
    pub(crate) token: Token,
    remote: Arc<Remote>,
    /// True if the task is in the run queue. Only the loop's thread uses it.
    is_queued: AtomicBool,
}

impl TaskWaker {
    pub(crate) fn new(token: Token, remote: &Arc<Remote>) -> Arc<Self> {
        let remote = Arc::clone(remote);
        let is_queued = AtomicBool::new(false);
        Arc::new(Self {
            token,
            remote,
            is_queued,
        })
    }

    pub(crate) fn reset(&mut self, token: Token) {
        self.token = token;
        self.is_queued = AtomicBool::new(false);
    }

    #[inline]
    pub(crate) fn is_queued(&self) -> bool {
        self.is_queued.load(Relaxed)
    }

    #[inline]
    pub(crate) fn set_unqueued(&self) {
        self.is_queued.store(false, Relaxed);
    }
}

impl Wake for TaskWaker {
    fn wake(self: Arc<Self>) {
        self.wake_by_ref();
    }

    #[inline]
    fn wake_by_ref(self: &Arc<Self>) {
        if !has_entered(self.remote.id) {
            self.remote.post(self.token);
        } else if !self.is_queued() {
            let is_queued = with(|lent| lent.run(self.token));
            self.is_queued.store(is_queued, Relaxed);
        }
    }
}

/// The waker of the main future of a runtime, which has a step of its own and is not in the run
/// queue.
pub(crate) struct MainWaker {
    pub(crate) token: Token,
    pub(crate) remote: Arc<Remote>,
}

impl Wake for MainWaker {
    fn wake(self: Arc<Self>) {
        self.wake_by_ref();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        if has_entered(self.remote.id) {
            with(|lent| lent.post_main(self.token));
        } else {
            self.remote.post(self.token);
        }
    }
}
