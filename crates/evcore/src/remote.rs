//! Requests from other threads: wake-ups, posts, and a shutdown.
//!
//! All of them end the wait through the poller's one waker, which does not carry the request.
//! So [`Handle::wake`](crate::Handle::wake) and [`Handle::shutdown`](crate::Handle::shutdown) first
//! write their request to [`RemoteRequests`]. A post waits there too and makes no wake-up step. A
//! write to the handle's descriptor carries no request, so once the descriptor is exposed, every
//! wake-up may be meant as one.
//!
//! `tests/loom_remote.rs` runs this file over loom's atomics, and changes single orderings to show
//! that each is needed. That is why the fields of [`RemoteRequests`] are open.

use std::{
    mem,
    sync::{
        Arc,
        atomic::Ordering::{AcqRel, Acquire, Release},
    },
    time::Duration,
};

use evcore_poller::Ready;
use evcore_posted::MergingInbox;
use evcore_token::Token;

use crate::sync::{AtomicBool, AtomicU64};

/// The loop's side of its handles.
#[derive(Debug)]
pub(crate) struct Remote {
    requests: Arc<RemoteRequests>,
    /// Pending requests: [`WOKEN`], [`SHUTTING_DOWN`] and [`POSTS`].
    // Invariant: without `POSTS`, the next post wakes the poller.
    pending: u32,
    /// A shutdown that has not yet begun.
    shutdown: Option<Duration>,
    // Invariant: empty, except within `take_remote_requests`.
    taken: Vec<(Token, Ready)>,
}

impl Remote {
    pub(crate) fn new() -> Self {
        Self {
            requests: Arc::new(RemoteRequests::new()),
            pending: 0,
            shutdown: None,
            taken: Vec::new(),
        }
    }

    /// The words to which handles write their requests.
    pub(crate) fn requests(&self) -> Arc<RemoteRequests> {
        Arc::clone(&self.requests)
    }

    /// Takes the requests, after a waker has ended a wait.
    #[inline(never)]
    pub(crate) fn on_woken(&mut self) {
        self.pending |= POSTS;
        self.pending |= u32::from(self.requests.take_wake()) * WOKEN;
        // If the wait failed, an earlier request is still there.
        let requested = [self.shutdown, self.requests.take_shutdown()];
        self.shutdown = requested.into_iter().flatten().min();
    }

    /// Returns whether there may be posts or a shutdown to begin. Taking the posts needs a lock, so the
    /// loop calls this first.
    #[inline]
    pub(crate) fn has_pending(&self) -> bool {
        self.pending & POSTS != 0
    }

    /// Takes the oldest posts, at most `budget` of them. If none is left, the next one wakes the
    /// poller. [`keep`](Self::keep) takes the emptied memory back.
    pub(crate) fn take_posts(&mut self, budget: usize) -> Vec<(Token, Ready)> {
        // The posts are taken out of the lock before the loop looks at them, because a subscriber
        // of `tracing` may post as well.
        let mut taken = mem::take(&mut self.taken);
        let posts = &self.requests.posts;
        let is_left = posts.take(budget, |index, generation, ready| {
            taken.push((Token::new(index, generation), ready));
        });
        if !is_left {
            self.pending &= !POSTS;
        }
        taken
    }

    /// Keeps the memory of posts for the next ones.
    pub(crate) fn keep(&mut self, emptied: Vec<(Token, Ready)>) {
        self.taken = emptied;
    }

    /// The shutdown to begin now.
    pub(crate) fn take_shutdown(&mut self) -> Option<Duration> {
        self.shutdown.take()
    }

    /// Queues the step that announces a shutdown.
    pub(crate) fn announce_shutdown(&mut self) {
        self.pending |= SHUTTING_DOWN;
    }

    /// Takes the announcement of a shutdown, if there is one.
    pub(crate) fn take_announcement(&mut self) -> bool {
        self.take_step(SHUTTING_DOWN)
    }

    /// Takes the wake-up, if there is one.
    pub(crate) fn take_wake(&mut self) -> bool {
        self.take_step(WOKEN)
    }

    fn take_step(&mut self, step: u32) -> bool {
        let has_step = self.pending & step != 0;
        self.pending &= !step;
        has_step
    }

    /// The pending requests, because of which the next wait must not sleep; 0 if there are none.
    #[inline]
    pub(crate) fn pending(&self) -> u32 {
        self.pending
    }

    /// Returns whether a request of another thread is pending.
    pub(crate) fn has_requests(&self) -> bool {
        self.pending & (WOKEN | POSTS) != 0
    }
}

/// A wake-up whose step is not yet delivered, in [`Remote::pending`].
const WOKEN: u32 = 1;
/// A shutdown that has begun, and whose step is not yet delivered.
const SHUTTING_DOWN: u32 = 2;
/// Posts or a shutdown of other threads, which may have come.
const POSTS: u32 = 4;

/// Posts of a loop that is dropped are dropped, too.
impl Drop for Remote {
    fn drop(&mut self) {
        self.requests.posts.close();
    }
}

/// The requests of handles that the loop has not taken yet. A signal handler may write all but the
/// posts.
///
/// A request is written before the poller is woken, and taken after a waker has ended a wait. The
/// loop may take it early, when another thread has woken it. The wake-up that follows then finds
/// nothing, and the earlier writes of the requesting thread must be visible all the same. The orderings
/// are for that.
#[derive(Debug)]
pub(crate) struct RemoteRequests {
    pub(crate) wake_requested: AtomicBool,
    /// The descriptor was given away, so any wake-up may be a request.
    pub(crate) fd_exposed: AtomicBool,
    /// The timeout of the shutdown that was requested, or [`NO_SHUTDOWN`].
    pub(crate) shutdown_ms: AtomicU64,
    pub(crate) posts: MergingInbox<Ready>,
}

/// The value for no requested shutdown. The longest timeout is one less.
pub(crate) const NO_SHUTDOWN: u64 = u64::MAX;

impl RemoteRequests {
    pub(crate) fn new() -> Self {
        Self {
            wake_requested: AtomicBool::new(false),
            fd_exposed: AtomicBool::new(false),
            shutdown_ms: AtomicU64::new(NO_SHUTDOWN),
            posts: MergingInbox::new(),
        }
    }

    /// Makes the wake-up that follows a step.
    pub(crate) fn request_wake(&self) {
        // This is not a store, which would hide from the loop what another thread released by the
        // same word.
        self.wake_requested.swap(true, Release);
    }

    /// From now on, a wake-up without a request may be a write to the descriptor.
    pub(crate) fn expose_fd(&self) {
        // This comes before any write to the descriptor, and so before the wait that the write
        // ends.
        self.fd_exposed.store(true, Release);
    }

    /// Requests a shutdown. Of several that the loop has not yet taken, the shortest counts.
    pub(crate) fn request_shutdown(&self, timeout: Duration) {
        self.shutdown_ms.fetch_min(whole_ms(timeout), Release);
    }

    /// Takes the wake-up. Returns true if one was requested, or may have been.
    pub(crate) fn take_wake(&self) -> bool {
        // This is a read-modify-write without a short cut, because both words must be read.
        self.wake_requested.swap(false, AcqRel) | self.fd_exposed.load(Acquire)
    }

    /// The shutdown that was requested since the last call.
    pub(crate) fn take_shutdown(&self) -> Option<Duration> {
        let ms = self.shutdown_ms.swap(NO_SHUTDOWN, AcqRel);
        (ms != NO_SHUTDOWN).then(|| Duration::from_millis(ms))
    }
}

/// Rounds up, so that a shutdown never has less time than was requested.
fn whole_ms(timeout: Duration) -> u64 {
    let begun_ms = u64::from(timeout.subsec_nanos() % 1_000_000 != 0);
    let ms = u64::try_from(timeout.as_millis()).unwrap_or(u64::MAX);
    ms.saturating_add(begun_ms).min(NO_SHUTDOWN - 1)
}
