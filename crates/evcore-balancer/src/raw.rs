//! The algorithm of the accept lock: one word, 0 or the number of its owner.
//!
//! Nobody ever waits for it: a worker that does not get it serves its connections and tries again
//! later.
//! Because the word names the owner, a parent can free what a dead worker held, and only that.
//! There is no lease: an owner that lives but is stopped keeps the lock.
//!
//! Generic over the word, so that loom checks the very code that ships: `tests/loom_lock.rs`.

use std::num::NonZeroU32;

use crate::sync::{AtomicU32, Ordering, fence};

/// The algorithm of the accept lock, over any [`Word`].
///
/// [`AcceptMutex`](crate::AcceptMutex) is this over memory of its own, and what most users want.
/// This one is for a word that lives elsewhere, and for checkers: loom runs it over its own
/// atomics.
///
/// ```
/// use evcore_balancer::RawAcceptMutex;
/// use std::{num::NonZeroU32, sync::atomic::AtomicU32};
///
/// let mutex = RawAcceptMutex::new(AtomicU32::new(0));
/// let me = NonZeroU32::new(42).unwrap();
/// assert!(mutex.try_lock(me));
/// assert!(mutex.unlock(me));
/// ```
#[derive(Clone, Debug)]
pub struct RawAcceptMutex<W> {
    word: W,
}

impl<W: Word> RawAcceptMutex<W> {
    /// A lock in `word`, which is 0 or already has the number of an owner in it.
    pub const fn new(word: W) -> Self {
        Self { word }
    }

    /// Makes `owner` the owner if there is none, and says whether it is the owner now.
    ///
    /// An owner that tries again has the lock still, and is told so: a turn that was left early
    /// must not make a worker deaf to its own listeners.
    #[must_use = "it says whether the lock is held"]
    pub fn try_lock(&self, owner: NonZeroU32) -> bool {
        // Looking first leaves the cache line with the owner: most who try do not get the lock.
        match self.word.load(Ordering::Relaxed) {
            FREE => self.replace(FREE, owner.get(), Ordering::Acquire),
            other => other == owner.get(),
        }
    }

    /// Frees the lock if it is `owner`'s, and says whether it was. By others it does nothing.
    pub fn unlock(&self, owner: NonZeroU32) -> bool {
        self.replace(owner.get(), FREE, Ordering::Release)
    }

    /// Frees the lock if it is that of the `dead`, and says whether it was.
    ///
    /// For the parent, after it has reaped the worker and before it forks another, which may be
    /// given the same process id. Of a worker that still runs it would break the exclusion.
    pub fn force_unlock(&self, dead: NonZeroU32) -> bool {
        // Release: the next owner sees what the dead one wrote, because reaping has shown it to us.
        self.replace(dead.get(), FREE, Ordering::Release)
    }

    /// Who held the lock a moment ago: for logs and tests, since it may have changed meanwhile.
    #[must_use]
    pub fn owner(&self) -> Option<NonZeroU32> {
        NonZeroU32::new(self.word.load(Ordering::Relaxed))
    }

    /// The word.
    #[cfg(not(evcore_loom))]
    pub(crate) const fn word(&self) -> &W {
        &self.word
    }

    fn replace(&self, current: u32, new: u32, success: Ordering) -> bool {
        self.word
            .compare_exchange(current, new, success, Ordering::Relaxed)
            .is_ok()
    }
}

/// An atomic 32-bit word, wherever it lives.
///
/// The first three mean what those of [`AtomicU32`](std::sync::atomic::AtomicU32) mean.
///
/// ```
/// use evcore_balancer::{RawAcceptMutex, Word};
/// use std::num::NonZeroU32;
/// use std::sync::atomic::{AtomicU32, Ordering};
///
/// /// A word in memory that somebody else manages.
/// struct Borrowed<'a>(&'a AtomicU32);
///
/// impl Word for Borrowed<'_> {
///     fn load(&self, order: Ordering) -> u32 {
///         self.0.load(order)
///     }
///     fn store(&self, value: u32, order: Ordering) {
///         self.0.store(value, order)
///     }
///     fn compare_exchange(&self, current: u32, new: u32, success: Ordering, failure: Ordering)
///         -> Result<u32, u32> {
///         self.0.compare_exchange(current, new, success, failure)
///     }
/// }
///
/// let word = AtomicU32::new(0);
/// assert!(RawAcceptMutex::new(Borrowed(&word)).try_lock(NonZeroU32::MIN));
/// assert_eq!(word.load(Ordering::Relaxed), 1);
/// ```
pub trait Word {
    /// The value of the word.
    fn load(&self, order: Ordering) -> u32;

    /// Sets the word, whatever it was.
    fn store(&self, value: u32, order: Ordering);

    /// Stores `new` if the value is `current`, in one step.
    ///
    /// # Errors
    ///
    /// The value found, if it is another; then nothing was stored.
    fn compare_exchange(
        &self,
        current: u32,
        new: u32,
        success: Ordering,
        failure: Ordering,
    ) -> Result<u32, u32>;

    /// Orders what this thread wrote before, to whatever word, before what it reads afterwards.
    ///
    /// A sequentially consistent [fence](std::sync::atomic::fence), unless a checker leaves it out.
    fn fence() {
        fence(Ordering::SeqCst);
    }
}

impl Word for AtomicU32 {
    fn load(&self, order: Ordering) -> u32 {
        self.load(order)
    }

    fn store(&self, value: u32, order: Ordering) {
        self.store(value, order);
    }

    fn compare_exchange(
        &self,
        current: u32,
        new: u32,
        success: Ordering,
        failure: Ordering,
    ) -> Result<u32, u32> {
        self.compare_exchange(current, new, success, failure)
    }
}

/// The word of a lock that nobody owns. No process has this id.
pub(crate) const FREE: u32 = 0;
