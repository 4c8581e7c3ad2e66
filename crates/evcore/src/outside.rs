//! What reaches the loop from other threads: wake-ups, posts, and the wish that it shut down.
//!
//! All end the wait through the poller's one waker, so that alone does not tell which it was.
//! A post must not look like a wake-up to a user who never asked for one, and a wake-up must never
//! be lost: so who calls [`Handle::wake`](crate::Handle::wake) says so in [`Calls`], and whoever
//! writes to the descriptor, who cannot say so, is given the benefit of the doubt.

use std::{mem, sync::Arc, time::Duration};

use evcore_poller::Ready;
use evcore_posted::{Inbox, Sender};
use evcore_token::Token;

use crate::calls::Calls;

/// What another thread posts.
pub(crate) type Post = (Token, Ready);

/// The loop's side of its handles.
#[derive(Debug)]
pub(crate) struct Outside {
    inbox: Inbox<Post>,
    calls: Arc<Calls>,
    /// A wake-up that is not yet delivered.
    woken: bool,
    /// A shutdown that is not yet begun.
    shutdown: Option<Duration>,
    /// Whether anything may wait in the inbox.
    // Invariant: if not, whatever comes to wait there wakes the poller.
    has_posts: bool,
}

impl Outside {
    /// With nobody there yet; posts end the wait by this.
    pub(crate) fn new(wake: impl Fn() + Send + Sync + 'static) -> Self {
        Self {
            inbox: Inbox::bounded(usize::MAX, wake),
            calls: Arc::new(Calls::new()),
            woken: false,
            shutdown: None,
            has_posts: false,
        }
    }

    /// Where handles say what they want.
    pub(crate) fn calls(&self) -> Arc<Calls> {
        Arc::clone(&self.calls)
    }

    /// By what handles post.
    pub(crate) fn sender(&self) -> Sender<Post> {
        self.inbox.sender()
    }

    /// Takes note of a wait that a waker ended.
    pub(crate) fn wait_was_ended(&mut self) {
        self.woken |= self.calls.answer();
        // The one before may not have begun, where the wait failed.
        let asked = [self.shutdown, self.calls.take_shutdown()];
        self.shutdown = asked.into_iter().flatten().min();
        self.has_posts = true;
    }

    /// Whether there may be posts, or a shutdown is to begin; if not, asking for them is not worth
    /// the lock.
    pub(crate) fn has_news(&self) -> bool {
        self.has_posts
    }

    /// What has been posted, the oldest first, as far as the budget goes.
    pub(crate) fn posts(&mut self, budget: usize) -> impl Iterator<Item = Post> {
        let posts = self.inbox.drain();
        // What comes from here on finds nobody waiting, and wakes the poller.
        self.has_posts = posts.len() > budget;
        posts.take(budget)
    }

    /// The shutdown that is to begin now.
    pub(crate) fn take_shutdown(&mut self) -> Option<Duration> {
        self.shutdown.take()
    }

    /// Whether there was a wake-up; it is delivered by this.
    pub(crate) fn take_wake(&mut self) -> bool {
        mem::take(&mut self.woken)
    }

    /// Whether anything is left over, so that the next wait must not wait.
    pub(crate) fn has_work(&self) -> bool {
        self.woken || self.has_posts
    }
}
