//! What reaches the loop from other threads: wake-ups, and posts.
//!
//! Both end the wait through the poller's one waker, so that alone does not tell which it was.
//! A post must not look like a wake-up to a user who never asked for one, and a wake-up must never
//! be lost: so who calls [`Handle::wake`] says so here, and whoever writes to the descriptor, who
//! cannot say so, is given the benefit of the doubt.

use std::{
    mem,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
};

use evcore_poller::{Ready, Waker};
use evcore_posted::Inbox;
use evcore_token::Token;

use crate::Handle;

/// What another thread posts.
pub(crate) type Post = (Token, Ready);

/// The loop's side of its handles.
#[derive(Debug)]
pub(crate) struct Outside {
    inbox: Inbox<Post>,
    calls: Arc<Calls>,
    /// A wake-up that is not yet delivered.
    woken: bool,
    /// Whether anything may wait in the inbox.
    // Invariant: if not, whatever comes to wait there wakes the poller.
    has_posts: bool,
}

impl Outside {
    /// With nobody there yet; posts end the wait by this waker.
    pub(crate) fn new(waker: Waker) -> Self {
        Self {
            inbox: Inbox::unbounded(move || waker.wake()),
            calls: Arc::default(),
            woken: false,
            has_posts: false,
        }
    }

    /// A handle for others; the waker is the one that this was made with.
    pub(crate) fn handle(&self, waker: Waker) -> Handle {
        Handle::new(waker, Arc::clone(&self.calls), self.inbox.sender())
    }

    /// Takes note of a wait that a waker ended.
    pub(crate) fn wait_was_ended(&mut self) {
        self.woken |= self.calls.answer();
        self.has_posts = true;
    }

    /// Whether there may be posts; if not, asking for them is not worth the lock.
    pub(crate) fn has_posts(&self) -> bool {
        self.has_posts
    }

    /// What has been posted, the oldest first, as far as the budget goes.
    pub(crate) fn posts(&mut self, budget: usize) -> impl Iterator<Item = Post> {
        let posts = self.inbox.drain();
        // What comes from here on finds nobody waiting, and wakes the poller.
        self.has_posts = posts.len() > budget;
        posts.take(budget)
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

/// What handles tell the loop beside waking it.
#[derive(Debug, Default)]
pub(crate) struct Calls {
    /// A handle was asked to wake, and the loop has not seen it yet.
    called: AtomicBool,
    /// A descriptor was given away, so any wake-up may be meant as one.
    lent: AtomicBool,
}

impl Calls {
    /// Says that the wake-up that follows is meant as one.
    ///
    /// Releases what was done before: the loop may see this, and deliver the wake-up, before the
    /// poller is woken; it will not do so again then.
    pub(crate) fn call(&self) {
        self.called.store(true, Ordering::Release);
    }

    /// Says that from now on others may wake the poller who cannot say so.
    pub(crate) fn lend(&self) {
        // Before any write to the descriptor, and so before the wait that it ends.
        self.lent.store(true, Ordering::Release);
    }

    /// Whether a wait that has ended was ended by a wake-up, for all that is known.
    fn answer(&self) -> bool {
        // A read-modify-write and no short cut: both have to be asked.
        self.called.swap(false, Ordering::AcqRel) | self.lent.load(Ordering::Acquire)
    }
}

#[cfg(test)]
mod tests {
    use std::os::fd::AsFd;

    use evcore_poller::WakeChannel;

    use super::*;

    fn outside() -> (Outside, Handle) {
        let channel = WakeChannel::new().unwrap();
        let outside = Outside::new(channel.waker());
        let handle = outside.handle(channel.waker());
        (outside, handle)
    }

    #[test]
    fn a_wake_is_one_whatever_ended_the_wait_and_is_delivered_once() {
        let (mut outside, handle) = outside();
        handle.wake();
        outside.wait_was_ended();
        assert!(outside.has_work() && outside.take_wake());
        outside.wait_was_ended();
        assert!(!outside.take_wake());
    }

    #[test]
    fn whoever_holds_the_descriptor_is_given_the_benefit_of_the_doubt() {
        let (mut outside, handle) = outside();
        outside.wait_was_ended();
        assert!(!outside.take_wake());
        let _ = handle.as_fd();
        outside.wait_was_ended();
        assert!(outside.take_wake());
    }

    #[test]
    fn the_inbox_is_looked_into_after_a_wake_up_and_until_it_is_empty() {
        let (mut outside, handle) = outside();
        let token = Token::new(0, std::num::NonZeroU32::MIN);
        for _ in 0..3 {
            handle.post(token, Ready::READABLE).unwrap();
        }
        assert!(!outside.has_posts(), "nobody has been woken");
        outside.wait_was_ended();
        assert_eq!(outside.posts(2).count(), 2);
        assert!(outside.has_posts() && outside.has_work());
        assert_eq!(outside.posts(2).count(), 1);
        assert!(!outside.has_posts() && !outside.has_work());
    }
}
