//! The accept lock as workers hold it: in shared or in plain memory, and in the hands of one owner.
//!
//! The algorithm is in `raw.rs`; here is where its word lives, and who unlocks when a worker goes.
//! Across `exec` it reaches if it was made for that: by a descriptor that the new program inherits.

use std::{fmt, num::NonZeroU32, sync::Arc};
#[cfg(not(evcore_loom))]
use std::{
    io,
    os::fd::{AsFd, BorrowedFd, OwnedFd},
};

#[cfg(not(evcore_loom))]
use crate::{header::Kind, shared::Shared};
use crate::{
    planted::{Bug, is_planted},
    raw::{FREE, RawAcceptMutex, Word},
    sync::{Ordering, SharedU32},
};

/// The accept lock of a server: whoever owns it listens.
///
/// A clone is another handle to the same lock. Each worker is an owner, known by a number of its
/// own:
/// its [process id](this_process), or between threads any numbers that differ.
/// Two workers with one number would be one worker to the lock.
///
/// ```
/// use evcore_balancer::AcceptMutex;
/// use std::num::NonZeroU32;
///
/// # fn main() -> std::io::Result<()> {
/// let [one, two] = [1, 2].map(|n| NonZeroU32::new(n).unwrap());
/// let mutex = AcceptMutex::shared()?; // before the fork
///
/// assert!(mutex.try_lock(one));
/// assert!(!mutex.try_lock(two));
///
/// // Worker one was killed. Its parent has reaped it and frees what it held.
/// assert!(mutex.force_unlock(one));
/// assert!(mutex.try_lock(two));
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug)]
pub struct AcceptMutex {
    raw: RawAcceptMutex<Home>,
}

impl AcceptMutex {
    /// A lock between this process and those that it forks from now on. Takes a page of memory.
    ///
    /// # Errors
    ///
    /// The operating system's, if it has no memory to map.
    #[cfg(not(evcore_loom))]
    pub fn shared() -> io::Result<Self> {
        let word = Shared::new(1)?;
        Ok(Self::at(Home::Shared(Arc::new(word))))
    }

    /// A lock like a [`shared`](Self::shared) one that a new program can [inherit](Self::inherit)
    /// too:
    /// one that this process or a child of it becomes by `exec`, so that old and new workers
    /// exclude each other.
    ///
    /// ```
    /// use evcore_balancer::{AcceptMutex, this_process};
    ///
    /// # #[cfg(any(target_os = "linux", target_os = "android", target_os = "freebsd"))]
    /// # fn main() -> std::io::Result<()> {
    /// let old = AcceptMutex::inheritable()?;
    /// // What the old program passes on: not closed on exec, and its number told.
    /// let passed_on = old.file().expect("it has one").try_clone_to_owned()?;
    ///
    /// // What the new program does with it:
    /// let new = AcceptMutex::inherit(passed_on)?;
    /// assert!(new.try_lock(this_process()));
    /// assert_eq!(old.owner(), Some(this_process()));
    /// # Ok(())
    /// # }
    /// # #[cfg(not(any(target_os = "linux", target_os = "android", target_os = "freebsd")))]
    /// # fn main() {}
    /// ```
    ///
    /// # Errors
    ///
    /// [`Unsupported`](io::ErrorKind::Unsupported) where there are no files in memory (Linux and
    /// FreeBSD have them); else the operating system's.
    #[cfg(not(evcore_loom))]
    pub fn inheritable() -> io::Result<Self> {
        let word = Shared::inheritable(Kind::AcceptMutex, 1)?;
        Ok(Self::at(Home::Shared(Arc::new(word))))
    }

    /// The lock that another program has made [inheritable](Self::inheritable).
    ///
    /// # Errors
    ///
    /// [`InvalidData`](io::ErrorKind::InvalidData) with the reason, if the descriptor is of another
    /// version of this crate, of another size, of something else, or of a file whose size is not
    /// sealed; [`Unsupported`](io::ErrorKind::Unsupported) where there are no such files (Linux and
    /// FreeBSD have them; macOS, NetBSD, OpenBSD and illumos do not); else the operating system's.
    #[cfg(not(evcore_loom))]
    pub fn inherit(file: OwnedFd) -> io::Result<Self> {
        let word = Shared::inherit(file, Kind::AcceptMutex)?;
        Ok(Self::at(Home::Shared(Arc::new(word))))
    }

    /// What to pass on to a new program, if the lock is inheritable. It is closed on `exec` unless
    /// you change that.
    #[cfg(not(evcore_loom))]
    #[must_use]
    pub fn file(&self) -> Option<BorrowedFd<'_>> {
        match self.raw.word() {
            Home::Shared(word) => word.file().map(AsFd::as_fd),
            Home::Local(_) => None,
        }
    }

    /// A lock between the threads of this process. A forked child gets a copy that locks nothing.
    #[must_use]
    pub fn local() -> Self {
        Self::at(Home::Local(Arc::new(SharedU32::new(FREE))))
    }

    /// The lock as one worker sees it, for an event loop to hold.
    ///
    /// A worker process makes it after the fork, and one is enough.
    #[must_use]
    pub fn handle(&self, owner: NonZeroU32) -> MutexHandle {
        MutexHandle {
            mutex: self.clone(),
            owner,
            process: this_process(),
        }
    }

    /// Makes `owner` the owner if there is none. See [`RawAcceptMutex::try_lock`].
    #[must_use = "it says whether the lock is held"]
    pub fn try_lock(&self, owner: NonZeroU32) -> bool {
        self.raw.try_lock(owner)
    }

    /// Frees the lock if it is `owner`'s. See [`RawAcceptMutex::unlock`].
    #[allow(
        clippy::must_use_candidate,
        reason = "whoever unlocks rarely needs the answer"
    )]
    pub fn unlock(&self, owner: NonZeroU32) -> bool {
        self.raw.unlock(owner)
    }

    /// Frees the lock if it is that of the `dead`. See [`RawAcceptMutex::force_unlock`].
    #[allow(
        clippy::must_use_candidate,
        reason = "whoever unlocks rarely needs the answer"
    )]
    pub fn force_unlock(&self, dead: NonZeroU32) -> bool {
        !is_planted(Bug::LockOutlives) && self.raw.force_unlock(dead)
    }

    /// Who held the lock a moment ago. See [`RawAcceptMutex::owner`].
    #[must_use]
    pub fn owner(&self) -> Option<NonZeroU32> {
        self.raw.owner()
    }

    fn at(home: Home) -> Self {
        Self {
            raw: RawAcceptMutex::new(home),
        }
    }
}

/// What an event loop needs of a lock: to try, and to release.
///
/// [`MutexHandle`] is the real one; a test or a simulator brings its own.
///
/// ```
/// use evcore_balancer::Lock;
///
/// #[derive(Debug)]
/// struct AlwaysMine;
///
/// impl Lock for AlwaysMine {
///     fn try_lock(&mut self) -> bool {
///         true
///     }
///     fn unlock(&mut self) {}
/// }
///
/// let mut lock: Box<dyn Lock> = Box::new(AlwaysMine);
/// assert!(lock.try_lock());
/// ```
pub trait Lock: fmt::Debug + Send {
    /// Gets the lock if nobody else has it, without waiting, and says whether this worker has it
    /// now.
    #[must_use = "it says whether the lock is held"]
    fn try_lock(&mut self) -> bool;

    /// Releases the lock if this worker has it; else nothing happens.
    fn unlock(&mut self);
}

/// An [`AcceptMutex`] in the hands of one owner; dropping it releases the lock, in a panic as well.
///
/// A copy that came into a forked child releases nothing when it is dropped there: what it holds is
/// its parent's.
///
/// ```
/// use evcore_balancer::{AcceptMutex, Lock, this_process};
///
/// let mutex = AcceptMutex::local();
/// let mut mine = mutex.handle(this_process());
/// assert!(mine.try_lock());
/// assert_eq!(mutex.owner(), Some(this_process()));
///
/// drop(mine);
/// assert_eq!(mutex.owner(), None);
/// ```
#[derive(Debug)]
pub struct MutexHandle {
    mutex: AcceptMutex,
    owner: NonZeroU32,
    /// The process that made this handle.
    process: NonZeroU32,
}

impl MutexHandle {
    /// The number under which this handle locks.
    #[must_use]
    pub fn owner(&self) -> NonZeroU32 {
        self.owner
    }
}

impl Lock for MutexHandle {
    fn try_lock(&mut self) -> bool {
        self.mutex.try_lock(self.owner)
    }

    fn unlock(&mut self) {
        self.mutex.unlock(self.owner);
    }
}

impl Drop for MutexHandle {
    fn drop(&mut self) {
        if self.process == this_process() {
            self.unlock();
        }
    }
}

/// The number by which a worker process is known as an owner: its process id.
///
/// ```
/// assert_eq!(evcore_balancer::this_process().get(), std::process::id());
/// ```
#[must_use]
pub fn this_process() -> NonZeroU32 {
    rustix::process::getpid().as_raw_nonzero().unsigned_abs()
}

/// Where the word of an [`AcceptMutex`] lives.
#[derive(Clone, Debug)]
enum Home {
    #[cfg(not(evcore_loom))]
    Shared(Arc<Shared<SharedU32>>),
    Local(Arc<SharedU32>),
}

impl Home {
    fn word(&self) -> &SharedU32 {
        match self {
            #[cfg(not(evcore_loom))]
            Self::Shared(words) => &words[0],
            Self::Local(word) => word,
        }
    }
}

impl Word for Home {
    fn load(&self, order: Ordering) -> u32 {
        self.word().load(order)
    }

    fn store(&self, value: u32, order: Ordering) {
        self.word().store(value, order);
    }

    fn compare_exchange(
        &self,
        current: u32,
        new: u32,
        success: Ordering,
        failure: Ordering,
    ) -> Result<u32, u32> {
        self.word().compare_exchange(current, new, success, failure)
    }
}

#[cfg(test)]
mod tests {
    use std::{panic, sync::Mutex, thread};

    use proptest::prelude::*;

    use super::*;

    fn owner(number: u32) -> NonZeroU32 {
        NonZeroU32::new(number).unwrap()
    }

    #[test]
    fn one_owner_at_a_time() {
        let mutex = AcceptMutex::shared().unwrap();
        assert!(mutex.try_lock(owner(1)));
        assert!(!mutex.try_lock(owner(2)));
        assert!(mutex.unlock(owner(1)));
        assert!(mutex.try_lock(owner(2)));
    }

    #[test]
    fn the_owner_may_try_again_and_one_unlock_frees() {
        let mutex = AcceptMutex::local();
        assert!(mutex.try_lock(owner(1)));
        assert!(mutex.try_lock(owner(1)));
        assert!(mutex.unlock(owner(1)));
        assert_eq!(mutex.owner(), None);
    }

    #[test]
    fn a_clone_is_the_same_lock() {
        for mutex in [AcceptMutex::local(), AcceptMutex::shared().unwrap()] {
            assert!(mutex.clone().try_lock(owner(1)));
            assert_eq!(mutex.owner(), Some(owner(1)));
        }
    }

    #[test]
    fn two_locks_are_two_locks() {
        let (one, two) = (
            AcceptMutex::shared().unwrap(),
            AcceptMutex::shared().unwrap(),
        );
        assert!(one.try_lock(owner(1)));
        assert!(two.try_lock(owner(2)));
    }

    #[test]
    fn dropping_a_handle_frees_what_it_holds_and_no_more() {
        let mutex = AcceptMutex::local();
        let mut one = mutex.handle(owner(1));
        let two = mutex.handle(owner(2));
        assert!(one.try_lock());
        drop(two);
        assert_eq!(mutex.owner(), Some(owner(1)));
        drop(one);
        assert_eq!(mutex.owner(), None);
    }

    #[test]
    fn a_worker_that_panics_frees_the_lock() {
        let mutex = AcceptMutex::local();
        let mut handle = mutex.handle(owner(1));
        let panicked = panic::catch_unwind(panic::AssertUnwindSafe(move || {
            assert!(handle.try_lock());
            // Unlike `panic!`, this prints nothing.
            panic::resume_unwind(Box::new(handle.owner()));
        }));
        assert!(panicked.is_err());
        assert_eq!(mutex.owner(), None);
    }

    #[test]
    fn a_handle_from_another_process_frees_nothing_when_dropped() {
        let mutex = AcceptMutex::shared().unwrap();
        let mut handle = mutex.handle(owner(1));
        assert!(handle.try_lock());
        // What a forked child finds: a handle that was made by a process that it is not.
        handle.process = owner(this_process().get() ^ 1 << 30);
        drop(handle);
        assert_eq!(mutex.owner(), Some(owner(1)));
    }

    #[test]
    fn threads_exclude_each_other() {
        let mutex = AcceptMutex::shared().unwrap();
        let count = Mutex::new(0_u32);
        thread::scope(|scope| {
            for number in 1..=4 {
                let mut handle = mutex.handle(owner(number));
                let count = &count;
                scope.spawn(move || {
                    for _ in 0..10_000 {
                        if handle.try_lock() {
                            *count.try_lock().expect("two owners at once") += 1;
                            handle.unlock();
                        }
                    }
                });
            }
        });
        assert!(count.into_inner().unwrap() > 0);
    }

    #[derive(Clone, Copy, Debug)]
    enum Call {
        TryLock(u32),
        Unlock(u32),
        ForceUnlock(u32),
    }

    fn call() -> impl Strategy<Value = Call> {
        (0..3, 1_u32..4).prop_map(|(what, who)| match what {
            0 => Call::TryLock(who),
            1 => Call::Unlock(who),
            _ => Call::ForceUnlock(who),
        })
    }

    proptest! {
        #[test]
        fn any_sequence_of_calls_agrees_with_a_plain_option(calls in prop::collection::vec(call(), 0..60)) {
            let mutex = AcceptMutex::local();
            let mut oracle = None;
            for call in calls {
                let (said, expected) = match call {
                    Call::TryLock(who) => {
                        oracle = oracle.or(Some(who));
                        (mutex.try_lock(owner(who)), oracle == Some(who))
                    }
                    Call::Unlock(who) => (mutex.unlock(owner(who)), oracle.take_if(|o| *o == who).is_some()),
                    Call::ForceUnlock(who) => {
                        (mutex.force_unlock(owner(who)), oracle.take_if(|o| *o == who).is_some())
                    }
                };
                prop_assert_eq!(said, expected, "{:?}", call);
                prop_assert_eq!(mutex.owner().map(NonZeroU32::get), oracle);
            }
        }
    }
}
