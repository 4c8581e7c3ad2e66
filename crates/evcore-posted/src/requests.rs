//! Requests of other threads to an event loop: to wake up, to handle posted ids, and to shut down.
//!
//! All of them end the wait of the loop by the same function, which has no argument for the
//! request. So a requester first writes the request to a separate atomic word, or adds the post
//! under a lock. Something else may end the wait, too, such as a write to the descriptor of a
//! waker. Such a wake-up carries no request. So after a program has got the waker
//! (`Requester::expose_waker`), every wake-up counts as a request to wake.
//!
//! `tests/loom_requests.rs` runs this file over loom's atomics, and changes single orderings and
//! steps to show that each is needed. Therefore the fields of [`Requester`] and [`Shared`] are
//! `pub(crate)`.

use std::{
    collections::VecDeque,
    fmt,
    num::NonZeroU32,
    ops::BitOrAssign,
    sync::{
        Arc,
        atomic::Ordering::{AcqRel, Acquire, Release},
    },
    time::Duration,
};

use crate::{
    merging::{Merging, Posted},
    sync::{AtomicBool, AtomicU64},
};

/// Requests of other threads to an event loop: to wake up, to handle posted ids, and to shut down.
///
/// Wakes merge until the loop takes them, and so do shutdowns, and posts for the same id. So
/// requests need no bound, and while the loop exists none can fail or be lost. This is the loop's
/// side; [`Requester`] is the side of the other threads.
///
/// A post has an id with a generation and a value. Values for the same generation of an id merge by
/// `|=`. A post for a later generation replaces a post for an earlier generation, because that
/// generation has ended.
///
/// # Use
///
/// 1. After a wait that a wake-up has ended, call [`on_woken`](Self::on_woken).
/// 2. Take the requests by [`take_shutdown`](Self::take_shutdown), [`take_wake`](Self::take_wake)
///    and [`take_posts`](Self::take_posts). Then call [`next_post`](Self::next_post) until it
///    returns `None`.
/// 3. Wait again, without sleeping if something is [pending](Self::pending).
///
/// ```
/// use evcore_posted::Requests;
/// use std::{num::NonZeroU32, thread, time::Duration};
///
/// let this = thread::current();
/// let mut requests = Requests::new(move || this.unpark());
/// let requester = requests.requester();
/// thread::spawn(move || {
///     let generation = NonZeroU32::MIN;
///     requester.post(7, generation, 0b01);
///     requester.post(7, generation, 0b10);
///     requester.shutdown(Duration::from_secs(30));
/// });
///
/// let (mut bits, mut timeout) = (0, None);
/// while timeout.is_none() {
///     if requests.pending() == 0 {
///         thread::park(); // an event loop's wait
///         requests.on_woken();
///     }
///     requests.take_posts(64);
///     while let Some((id, _generation, value)) = requests.next_post() {
///         assert_eq!(id, 7);
///         bits |= value;
///     }
///     timeout = requests.take_shutdown();
/// }
/// assert_eq!((bits, timeout), (0b11, Some(Duration::from_secs(30))));
/// assert!(!requests.take_wake(), "posts and a shutdown do not count as wakes");
/// ```
pub struct Requests<V: Copy + BitOrAssign> {
    shared: Arc<Shared<V>>,
    /// The bits [`WOKEN`] and [`POSTS`], if these are pending.
    // Invariant: if `POSTS` is not set, the loop misses no post. Either no post waits, and the next
    // post wakes the loop. Or a post waits, has woken the loop, and `on_woken` has not been called
    // yet.
    pending: u32,
    shutdown: Option<Duration>,
    /// Posts that were taken from [`Shared`], and that the loop has not handled.
    taken: VecDeque<Post<V>>,
}

type Post<V> = (u32, NonZeroU32, V);

/// The bit of [`Requests::pending`] for a wake that the loop has not taken.
const WOKEN: u32 = 1;
/// The bit of [`Requests::pending`] for posts that the loop may have to take.
const POSTS: u32 = 2;

impl<V: Copy + BitOrAssign> Requests<V> {
    /// Creates the loop's side, with no request yet. `wake` ends the loop's wait.
    ///
    /// `wake` is called without a lock, on the thread of the requester, and must not panic. If the
    /// loop does not wait at that moment, the wake-up must end its next wait, as `evcore-poller`'s
    /// `Waker` and [`Thread::unpark`](std::thread::Thread::unpark) do.
    #[must_use]
    pub fn new(wake: impl Fn() + Send + Sync + 'static) -> Self {
        Self {
            shared: Arc::new(Shared::new(Box::new(wake))),
            pending: 0,
            shutdown: None,
            taken: VecDeque::new(),
        }
    }

    /// Returns a requester, for other threads.
    #[must_use]
    pub fn requester(&self) -> Requester<V> {
        Requester {
            shared: Arc::clone(&self.shared),
        }
    }

    /// Records that a wake-up has ended a wait.
    #[inline(never)]
    pub fn on_woken(&mut self) {
        self.pending |= POSTS;
        self.pending |= u32::from(self.shared.take_wake()) * WOKEN;
        // An earlier shutdown is still there if the loop has not taken it.
        let requested = [self.shutdown, self.shared.take_shutdown()];
        self.shutdown = requested.into_iter().flatten().min();
    }

    /// Returns 0 if the next wait may sleep, because there is no wake and no post to take. Posts
    /// that [`take_posts`](Self::take_posts) has taken do not count. The result is a number so that
    /// a loop can add it to the lengths of its queues, and needs one comparison for all.
    #[inline]
    #[must_use]
    pub fn pending(&self) -> u32 {
        self.pending
    }

    /// Returns whether there may be posts to take. Taking posts needs a lock, so a loop calls this
    /// first.
    ///
    /// Any wake-up makes this true until the posts are taken. A shutdown arrives by a wake-up, so
    /// take a shutdown in the same place.
    #[inline]
    #[must_use]
    pub fn may_have_posts(&self) -> bool {
        self.pending & POSTS != 0
    }

    /// Takes the oldest posts, at most `budget` of them, from the other threads' side, for
    /// [`next_post`](Self::next_post). If none is left, the next post wakes the loop.
    pub fn take_posts(&mut self, budget: usize) {
        let taken = &mut self.taken;
        let is_left = self.shared.posts.take(budget, |id, generation, value| {
            taken.push_back((id, generation, value));
        });
        if !is_left {
            self.pending &= !POSTS;
        }
    }

    /// Returns the next of the posts that were taken: its id, its generation and its merged value.
    /// No lock is held, so the caller may post.
    pub fn next_post(&mut self) -> Option<Post<V>> {
        self.taken.pop_front()
    }

    /// Takes the timeout of the shutdown that was requested: the shortest one, rounded up to whole
    /// milliseconds.
    pub fn take_shutdown(&mut self) -> Option<Duration> {
        self.shutdown.take()
    }

    /// Takes the wake. Returns false if there is none.
    pub fn take_wake(&mut self) -> bool {
        let is_woken = self.pending & WOKEN != 0;
        self.pending &= !WOKEN;
        is_woken
    }
}

/// Posts of a loop that is dropped are dropped, too.
impl<V: Copy + BitOrAssign> Drop for Requests<V> {
    fn drop(&mut self) {
        self.shared.posts.close();
    }
}

impl<V: Copy + BitOrAssign> fmt::Debug for Requests<V> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Requests")
            .field("pending", &self.pending)
            .field("shutdown", &self.shutdown)
            .finish_non_exhaustive()
    }
}

/// The side of the other threads: sends requests to the loop that owns the [`Requests`]. Cheap to
/// clone; any thread may use it.
///
/// The earlier writes of the requesting thread are visible to the loop when it takes the request.
pub struct Requester<V> {
    pub(crate) shared: Arc<Shared<V>>,
}

impl<V: Copy + BitOrAssign> Requester<V> {
    /// Wakes the loop. Several wakes may merge; none is lost. Takes no lock and allocates nothing,
    /// so a signal handler may call it if it may call the function that wakes.
    pub fn wake(&self) {
        // This is not a store, because a store would hide from the loop what another thread
        // released through the same word.
        self.shared.wake_requested.swap(true, Release);
        (self.shared.end_wait)();
    }

    /// Requests a shutdown within `timeout`, and wakes the loop. Of several timeouts that the loop
    /// has not yet taken, the shortest counts. A timeout is rounded up to whole milliseconds. A
    /// shutdown does not count as a [`wake`](Self::wake). A signal handler may call this method if
    /// it may call [`wake`](Self::wake).
    pub fn shutdown(&self, timeout: Duration) {
        let timeout_ms = whole_ms(timeout);
        self.shared.shutdown_ms.fetch_min(timeout_ms, Release);
        (self.shared.end_wait)();
    }

    /// Posts a value for an id, and wakes the loop if no post waits yet. Returns false if the loop
    /// has been dropped; no post fails otherwise. Holds a lock for a short time, so a signal
    /// handler must not call it.
    pub fn post(&self, id: u32, generation: NonZeroU32, value: V) -> bool {
        let posted = self.shared.posts.post(id, generation, value);
        if posted == Posted::First {
            (self.shared.end_wait)();
        }
        posted != Posted::Closed
    }

    /// Makes every later wake-up of the loop count as a [`wake`](Self::wake). Call this before the
    /// waker's descriptor is handed out, because a write to it carries no request.
    pub fn expose_waker(&self) {
        // The waker is used only after this store. So when such a use has ended a wait, the loop
        // sees the flag.
        self.shared.waker_exposed.store(true, Release);
    }
}

impl<V> Clone for Requester<V> {
    fn clone(&self) -> Self {
        Self {
            shared: Arc::clone(&self.shared),
        }
    }
}

impl<V> fmt::Debug for Requester<V> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Requester").finish_non_exhaustive()
    }
}

/// The requests that the loop has not taken yet. A signal handler may write all of them except the
/// posts.
///
/// A request is written before the loop is woken, and taken after a wake-up has ended a wait. The
/// loop may take a request early, if another thread has woken the loop meanwhile. The wake-up that
/// follows then finds no request, but the earlier writes of the requesting thread must still be
/// visible. The memory orderings make sure of that.
pub(crate) struct Shared<V> {
    pub(crate) wake_requested: AtomicBool,
    /// True if the waker is exposed, so that any wake-up may be a wake.
    pub(crate) waker_exposed: AtomicBool,
    /// The timeout of the shutdown that was requested, or [`NO_SHUTDOWN`].
    pub(crate) shutdown_ms: AtomicU64,
    pub(crate) posts: Merging<V>,
    pub(crate) end_wait: Box<dyn Fn() + Send + Sync>,
}

/// The value of [`Shared::shutdown_ms`] if no shutdown was requested. The longest timeout is one
/// less.
pub(crate) const NO_SHUTDOWN: u64 = u64::MAX;

impl<V: Copy + BitOrAssign> Shared<V> {
    pub(crate) fn new(end_wait: Box<dyn Fn() + Send + Sync>) -> Self {
        Self {
            wake_requested: AtomicBool::new(false),
            waker_exposed: AtomicBool::new(false),
            shutdown_ms: AtomicU64::new(NO_SHUTDOWN),
            posts: Merging::new(),
            end_wait,
        }
    }

    pub(crate) fn take_wake(&self) -> bool {
        // A `swap`, because a wake between a load and a store would be lost. `|`, not `||`, because
        // both words must be read.
        self.wake_requested.swap(false, AcqRel) | self.waker_exposed.load(Acquire)
    }

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

#[cfg(all(test, not(evcore_loom)))]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

    use super::*;

    const GENERATION: NonZeroU32 = NonZeroU32::MIN;

    fn requests() -> (Requests<u8>, Requester<u8>) {
        let requests = Requests::new(|| {});
        let requester = requests.requester();
        (requests, requester)
    }

    fn next_ids(requests: &mut Requests<u8>, budget: usize) -> Vec<u32> {
        requests.take_posts(budget);
        let mut ids = Vec::new();
        while let Some((id, ..)) = requests.next_post() {
            ids.push(id);
        }
        ids
    }

    #[test]
    fn a_wake_is_taken_once() {
        let (mut requests, requester) = requests();
        requester.wake();
        requests.on_woken();
        assert!(requests.pending() != 0 && requests.take_wake());
        requests.on_woken();
        assert!(!requests.take_wake());
    }

    #[test]
    fn with_the_waker_exposed_every_wake_up_is_a_wake() {
        let (mut requests, requester) = requests();
        requests.on_woken();
        assert!(!requests.take_wake());
        requester.expose_waker();
        for _ in 0..2 {
            requests.on_woken();
            assert!(requests.take_wake());
        }
    }

    #[test]
    fn posts_are_taken_from_a_wake_up_until_none_waits() {
        let (mut requests, requester) = requests();
        for id in 0..3 {
            assert!(requester.post(id, GENERATION, 1));
        }
        assert!(!requests.may_have_posts(), "on_woken was not called yet");
        requests.on_woken();
        assert_eq!(next_ids(&mut requests, 2), [0, 1]);
        assert!(requests.may_have_posts() && requests.pending() != 0);
        assert_eq!(next_ids(&mut requests, 2), [2]);
        assert!(!requests.may_have_posts() && requests.pending() == 0);
    }

    #[test]
    fn only_the_first_post_that_waits_wakes_the_loop() {
        let wakes = Arc::new(AtomicUsize::new(0));
        let counter = Arc::clone(&wakes);
        let mut requests = Requests::new(move || _ = counter.fetch_add(1, Relaxed));
        let requester = requests.requester();
        for id in 0..3 {
            requester.post(id, GENERATION, 1_u8);
        }
        assert_eq!(wakes.load(Relaxed), 1);
        assert_eq!(next_ids(&mut requests, 9), [0, 1, 2]);
        requester.post(0, GENERATION, 1);
        assert_eq!(wakes.load(Relaxed), 2);
    }

    #[test]
    fn a_loop_that_is_gone_refuses_posts() {
        let (requests, requester) = requests();
        drop(requests);
        assert!(!requester.post(0, GENERATION, 1));
    }

    #[test]
    fn the_shortest_shutdown_counts_until_it_is_taken() {
        let (mut requests, requester) = requests();
        let timeouts = [7_000_001, 5_000_001, 6_000_000].map(Duration::from_nanos);
        requester.shutdown(timeouts[0]);
        requester.shutdown(timeouts[1]);
        requests.on_woken();
        requester.shutdown(timeouts[2]);
        requests.on_woken();
        let rounded_up = Duration::from_millis(6);
        assert_eq!(requests.take_shutdown(), Some(rounded_up), "5.000001 ms");
        assert_eq!(requests.take_shutdown(), None);
    }

    #[test]
    fn the_longest_timeout_of_a_shutdown_is_accepted() {
        let (mut requests, requester) = requests();
        requester.shutdown(Duration::MAX);
        requests.on_woken();
        assert!(requests.take_shutdown() >= Some(Duration::from_secs(u64::MAX / 1001)));
    }
}
