//! The waker of a task: a post of its token.

use std::sync::Arc;
use std::task::Wake;

use evcore::{Handle, Ready, Token};

use crate::context::{has_entered, with};

/// How wakers reach the loop.
pub(crate) struct Remote {
    /// The executor's number.
    pub(crate) id: u64,
    pub(crate) handle: Handle,
}

/// Posts the token of a task. The loop merges posts, so a task that is woken often is polled once, and
/// drops those of a token that has ended. Nothing else is shared with other threads.
pub(crate) struct TaskWaker {
    pub(crate) token: Token,
    remote: Arc<Remote>,
}

impl TaskWaker {
    pub(crate) fn new(token: Token, remote: &Arc<Remote>) -> Arc<Self> {
        let remote = Arc::clone(remote);
        Arc::new(Self { token, remote })
    }
}

impl Wake for TaskWaker {
    fn wake(self: Arc<Self>) {
        self.wake_by_ref();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        if has_entered(self.remote.id) {
            with(|lent| lent.post(self.token));
        } else {
            // Of a loop that is gone, the task is gone too.
            let _ = self.remote.handle.post(self.token, Ready::NONE);
        }
    }
}
