//! The accept lock: one word in shared memory, which is empty or holds the id of the owner.
//!
//! No worker waits for the lock. A worker that does not get it serves its connections and tries
//! again later. Because the word names the owner, a parent can free the lock of a dead worker.
//! There is no lease: an owner that is stopped but alive keeps the lock.
//!
//! `tests/loom_lock.rs` runs this file over loom's atomics.

use std::{io, process, sync::Arc};

use crate::{
    shared_memory::SharedSlice,
    sync::{AtomicU32, Ordering},
    worker_id::WorkerId,
};

/// The accept lock of a server: the worker that owns it listens.
///
/// Make it before the fork. Every process forked after that shares it, and so do threads. A clone
/// is another handle to the same lock.
///
/// ```
/// use evcore_balancer::{AcceptMutex, WorkerId};
///
/// # fn main() -> std::io::Result<()> {
/// let [one, two] = [0, 1].map(WorkerId::from_slot);
/// let mutex = AcceptMutex::new()?; // before the fork
///
/// assert!(mutex.try_lock(one));
/// assert!(!mutex.try_lock(two));
///
/// // Worker one was killed. Its parent has reaped it, and frees its lock.
/// assert!(mutex.force_unlock(one));
/// assert!(mutex.try_lock(two));
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug)]
pub struct AcceptMutex {
    memory: Arc<SharedSlice<AtomicU32>>,
}

impl AcceptMutex {
    /// Makes a lock without an owner. It takes a page of memory.
    ///
    /// # Errors
    ///
    /// The error of the operating system, if it has no memory left.
    pub fn new() -> io::Result<Self> {
        Ok(Self {
            memory: Arc::new(SharedSlice::new(1)?),
        })
    }

    /// Makes the handle of one worker. A worker process calls this after the fork.
    #[must_use]
    pub fn lock_handle(&self, id: WorkerId) -> MutexHandle {
        MutexHandle {
            mutex: self.clone(),
            id,
            process: process::id(),
        }
    }

    /// Makes this worker the owner if there is none, and returns whether it is the owner now.
    ///
    /// An owner that tries again still owns the lock. So a worker that leaves a turn (an iteration
    /// of its event loop) early, without releasing the lock, keeps listening in the next turn.
    #[must_use = "it returns whether the lock is held"]
    pub fn try_lock(&self, id: WorkerId) -> bool {
        // Most attempts fail. Unlike an exchange, a load leaves the cache line with the owner.
        match self.word().load(Ordering::Relaxed) {
            FREE => self.replace(FREE, id.to_word(), Ordering::Acquire),
            owner => owner == id.to_word(),
        }
    }

    /// Frees the lock if this worker owns it, and returns whether it did. A lock that another
    /// worker owns stays locked.
    #[allow(clippy::must_use_candidate, reason = "callers rarely need the answer")]
    pub fn unlock(&self, id: WorkerId) -> bool {
        self.replace(id.to_word(), FREE, Ordering::Release)
    }

    /// Frees the lock if the dead worker owned it, and returns whether it did.
    ///
    /// The parent calls this after it has reaped the worker and before it starts the replacement.
    /// If the worker still runs, two workers may own the lock.
    /// [`WorkerGroup::release_dead`](crate::WorkerGroup::release_dead) does this for the lock of a
    /// group.
    #[allow(clippy::must_use_candidate, reason = "callers rarely need the answer")]
    pub fn force_unlock(&self, dead: WorkerId) -> bool {
        // Release: reaping has made the writes of the dead owner visible here, and the release
        // makes them visible to the next owner.
        self.replace(dead.to_word(), FREE, Ordering::Release)
    }

    /// The present owner, for logs and tests. It may have changed when this call returns.
    #[must_use]
    pub fn owner(&self) -> Option<WorkerId> {
        WorkerId::from_word(self.word().load(Ordering::Relaxed))
    }

    fn replace(&self, current: u32, new: u32, success: Ordering) -> bool {
        self.word()
            .compare_exchange(current, new, success, Ordering::Relaxed)
            .is_ok()
    }

    fn word(&self) -> &AtomicU32 {
        &self.memory[0]
    }
}

/// The word of a lock without an owner. No worker has this word.
const FREE: u32 = 0;

/// The handle of one worker to an [`AcceptMutex`]. Dropping it releases the lock, even during a
/// panic.
///
/// If a process forks, dropping the copy of the handle in the child releases nothing, because the
/// lock belongs to the parent.
///
/// ```
/// use evcore_balancer::{AcceptMutex, GroupMember, WorkerId};
///
/// # fn main() -> std::io::Result<()> {
/// let mutex = AcceptMutex::new()?;
/// let handle = mutex.lock_handle(WorkerId::from_slot(0));
/// assert!(handle.try_lock());
/// assert_eq!(mutex.owner(), Some(handle.id()));
///
/// drop(handle);
/// assert_eq!(mutex.owner(), None);
/// # Ok(())
/// # }
/// ```
#[derive(Debug)]
pub struct MutexHandle {
    mutex: AcceptMutex,
    id: WorkerId,
    process: u32,
}

impl MutexHandle {
    /// The worker that this handle locks for.
    #[must_use]
    pub fn id(&self) -> WorkerId {
        self.id
    }

    pub(crate) fn mutex(&self) -> &AcceptMutex {
        &self.mutex
    }

    pub(crate) fn is_of_this_process(&self) -> bool {
        self.process == process::id()
    }
}

impl Drop for MutexHandle {
    fn drop(&mut self) {
        if self.is_of_this_process() {
            self.mutex.unlock(self.id);
        }
    }
}

#[cfg(all(test, not(evcore_loom)))]
mod tests {
    use std::{panic, sync::Mutex, thread};

    use proptest::prelude::*;

    use super::*;
    use crate::group_member::GroupMember;

    impl MutexHandle {
        /// Simulates a forked child.
        pub(crate) fn move_to_another_process(&mut self) {
            self.process ^= 1 << 30;
        }
    }

    fn mutex() -> AcceptMutex {
        AcceptMutex::new().unwrap()
    }

    fn id(slot: usize) -> WorkerId {
        WorkerId::from_slot(slot)
    }

    #[test]
    fn a_lock_has_one_owner_at_a_time() {
        let mutex = mutex();
        assert!(mutex.try_lock(id(0)));
        assert!(!mutex.try_lock(id(1)));
        assert!(mutex.unlock(id(0)));
        assert!(mutex.try_lock(id(1)));
    }

    #[test]
    fn an_owner_may_lock_twice_and_unlocks_once() {
        let mutex = mutex();
        assert!(mutex.try_lock(id(0)));
        assert!(mutex.try_lock(id(0)));
        assert!(mutex.unlock(id(0)));
        assert_eq!(mutex.owner(), None);
    }

    #[test]
    fn a_clone_is_the_same_lock() {
        let mutex = mutex();
        assert!(mutex.clone().try_lock(id(0)));
        assert_eq!(mutex.owner(), Some(id(0)));
    }

    #[test]
    fn two_locks_are_independent() {
        let (one, two) = (mutex(), mutex());
        assert!(one.try_lock(id(0)));
        assert!(two.try_lock(id(1)));
    }

    #[test]
    fn dropping_a_handle_releases_only_its_own_lock() {
        let mutex = mutex();
        let one = mutex.lock_handle(id(0));
        let two = mutex.lock_handle(id(1));
        assert!(one.try_lock());
        drop(two);
        assert_eq!(mutex.owner(), Some(id(0)));
        drop(one);
        assert_eq!(mutex.owner(), None);
    }

    #[test]
    fn a_worker_that_panics_releases_the_lock() {
        let mutex = mutex();
        let handle = mutex.lock_handle(id(0));
        let panicked = panic::catch_unwind(panic::AssertUnwindSafe(move || {
            assert!(handle.try_lock());
            // Unlike `panic!`, this prints nothing.
            panic::resume_unwind(Box::new(handle.id()));
        }));
        assert!(panicked.is_err());
        assert_eq!(mutex.owner(), None);
    }

    #[test]
    fn dropping_a_handle_of_another_process_releases_nothing() {
        let mutex = mutex();
        let mut handle = mutex.lock_handle(id(0));
        assert!(handle.try_lock());
        handle.move_to_another_process();
        drop(handle);
        assert_eq!(mutex.owner(), Some(id(0)));
    }

    #[test]
    fn threads_exclude_each_other() {
        let mutex = mutex();
        let count = Mutex::new(0_u32);
        thread::scope(|scope| {
            for slot in 0..4 {
                let handle = mutex.lock_handle(id(slot));
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
    enum Op {
        TryLock(usize),
        Unlock(usize),
        ForceUnlock(usize),
    }

    fn op() -> impl Strategy<Value = Op> {
        (0..3, 0_usize..3).prop_map(|(op, slot)| match op {
            0 => Op::TryLock(slot),
            1 => Op::Unlock(slot),
            _ => Op::ForceUnlock(slot),
        })
    }

    proptest! {
        #[test]
        fn any_sequence_of_calls_agrees_with_an_option(ops in prop::collection::vec(op(), 0..60)) {
            let mutex = mutex();
            let mut oracle = None;
            for op in ops {
                let (returned, expected) = match op {
                    Op::TryLock(slot) => {
                        oracle = oracle.or(Some(slot));
                        (mutex.try_lock(id(slot)), oracle == Some(slot))
                    }
                    Op::Unlock(slot) => {
                        (mutex.unlock(id(slot)), oracle.take_if(|owner| *owner == slot).is_some())
                    }
                    Op::ForceUnlock(slot) => {
                        let expected = oracle.take_if(|owner| *owner == slot).is_some();
                        (mutex.force_unlock(id(slot)), expected)
                    }
                };
                prop_assert_eq!(returned, expected, "{:?}", op);
                prop_assert_eq!(mutex.owner().map(WorkerId::slot), oracle);
            }
        }
    }
}
