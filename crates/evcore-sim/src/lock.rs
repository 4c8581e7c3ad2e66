//! The accept lock of simulated workers.

use evcore::balancer::Lock;

use crate::{Process, World};

/// An accept lock that processes of one world share.
///
/// A clone is another handle to the same lock. When its holder is killed it stays taken until the
/// parent [notices](crate::Conditions::reap), as in life.
///
/// ```
/// use evcore::balancer::Lock;
/// use evcore_sim::World;
///
/// let world = World::new(7);
/// let mutex = world.mutex();
/// let (mut one, mut two) = (mutex.lock(&world.process()), mutex.lock(&world.process()));
/// assert!(one.try_lock() && !two.try_lock());
/// one.unlock();
/// assert!(two.try_lock());
/// assert_eq!(mutex.owner(), Some(1));
/// ```
#[derive(Clone, Debug)]
pub struct SimMutex {
    world: World,
    place: usize,
}

impl SimMutex {
    pub(crate) fn new(world: World) -> Self {
        let mut state = world.state();
        state.locks.push(None);
        let place = state.locks.len() - 1;
        drop(state);
        Self { world, place }
    }

    /// The lock as one process sees it: for [`Builder::lock`](evcore::Builder::lock).
    #[must_use]
    pub fn lock(&self, process: &Process) -> SimLock {
        SimLock {
            mutex: self.clone(),
            process: process.id(),
        }
    }

    /// Which process has it.
    #[must_use]
    pub fn owner(&self) -> Option<u32> {
        self.world.state().locks[self.place]
    }
}

/// A [`SimMutex`] in the hands of one process; dropping it releases it, unless the process was
/// killed. For an example, see there.
#[derive(Debug)]
pub struct SimLock {
    mutex: SimMutex,
    process: u32,
}

impl Lock for SimLock {
    fn try_lock(&mut self) -> bool {
        let mut state = self.mutex.world.state();
        state.try_lock(self.mutex.place, self.process)
    }

    fn unlock(&mut self) {
        if let Some(mut state) = self.mutex.world.try_state() {
            state.unlock(self.mutex.place, self.process);
        }
    }
}

impl Drop for SimLock {
    fn drop(&mut self) {
        self.unlock();
    }
}
