//! Handles to a simulated worker group and its accept lock.

use std::{fmt, mem, os::fd::RawFd};

use evcore::balancer::{GroupMember, GroupView, Load, Notifier, Policy, Spread, WorkerId};

use crate::{fd_table, process::Process, role::Role, sim::Sim, state::State, trace::Event};

/// The accept lock and the worker group of one simulated server.
///
/// This is the real [`WorkerGroup`](evcore::balancer::WorkerGroup) with simulated descriptors. A
/// clone is another handle to the same group. A killed worker keeps the lock and its membership
/// until the parent [notices](crate::SimConfig::reap_delay) the death and releases them.
///
/// ```
/// use evcore::balancer::{GroupMember, Leader, Load, Policy, WorkerId};
/// use evcore_sim::Sim;
///
/// let sim = Sim::new(7);
/// let group = sim.group(Policy::least_loaded(), 2);
/// let member = |slot| group.join(&sim.process(), WorkerId::from_slot(slot));
/// let [one, two] = [0, 1].map(member);
/// assert!(one.try_lock() && !two.try_lock());
/// assert_eq!(group.lock_owner(), Some(WorkerId::from_slot(0)));
/// one.lead(); // it listens
/// let load = Load { active: 3, capacity: 64 };
/// assert_eq!(two.sync(load).leader, Leader::Other);
/// ```
#[derive(Clone, Debug)]
pub struct SimGroup {
    sim: Sim,
    index: u32,
}

impl Sim {
    /// Creates the group of one server's workers under this policy, with a slot for each worker.
    ///
    /// # Panics
    ///
    /// If `workers` is 0.
    #[must_use]
    pub fn group(&self, policy: Policy, workers: usize) -> SimGroup {
        SimGroup::new(self.clone(), policy, workers)
    }
}

impl SimGroup {
    pub(crate) fn new(sim: Sim, policy: Policy, workers: usize) -> Self {
        let index = sim.state().new_group(policy, workers);
        Self { sim, index }
    }

    /// Makes a process a member of the group. Pass the result to
    /// [`Builder::group`](evcore::Builder::group). The successor of a dead worker joins with the
    /// dead worker's id.
    ///
    /// # Panics
    ///
    /// If the group has no such slot.
    #[must_use]
    pub fn join(&self, process: &Process, id: WorkerId) -> SimMember {
        let (member, fd) = self.sim.state().join(self.index, process.id(), id);
        self.member(process, id, Box::new(member), Some(fd))
    }

    /// A handle to the accept lock for a process that is not a member, for
    /// [`Builder::group`](evcore::Builder::group). Workers with such handles share nothing but the
    /// lock, as in nginx.
    #[must_use]
    pub fn lock_handle(&self, process: &Process, id: WorkerId) -> SimMember {
        let handle = self.sim.state().lock_handle(self.index, process.id(), id);
        self.member(process, id, Box::new(handle), None)
    }

    /// The worker that holds the accept lock. `None` if the lock is free.
    #[must_use]
    pub fn lock_owner(&self) -> Option<WorkerId> {
        self.sim.state().lock_owner(self.index)
    }

    fn member(&self, process: &Process, id: WorkerId, role: Role, fd: Option<RawFd>) -> SimMember {
        SimMember {
            group: self.clone(),
            process: process.id(),
            id,
            role: Some(role),
            fd,
        }
    }
}

/// The membership of one process in a [`SimGroup`], or its handle to the accept lock.
///
/// Dropping the value releases the lock and leaves the group, unless the process was killed.
/// [`SimGroup`] has an example.
pub struct SimMember {
    group: SimGroup,
    process: u32,
    id: WorkerId,
    // Invariant: `None` only while the member is dropped.
    role: Option<Role>,
    /// The descriptor of the member's notifier. `None` for a handle to the lock.
    fd: Option<RawFd>,
}

impl SimMember {
    fn state(&self) -> std::sync::MutexGuard<'_, State> {
        self.group.sim.state()
    }

    fn note(&self, event: Event) {
        self.state().note(event);
    }

    fn role(&self) -> &dyn GroupMember {
        self.role.as_deref().expect("it is not dropped")
    }
}

impl GroupMember for SimMember {
    fn policy(&self) -> Option<Policy> {
        self.role().policy()
    }

    fn try_lock(&self) -> bool {
        let is_mine = self.role().try_lock();
        let (process, taken) = (self.process, is_mine);
        self.note(Event::LockTried { process, taken });
        is_mine
    }

    fn unlock(&self) {
        if self.group.lock_owner() == Some(self.id) {
            let process = self.process;
            self.note(Event::Unlocked { process });
        }
        self.role().unlock();
    }

    fn in_group(&self) -> bool {
        self.role().in_group()
    }

    fn is_notified(&self) -> bool {
        self.role().is_notified()
    }

    fn sync(&self, load: Load) -> GroupView {
        self.role().sync(load)
    }

    fn set_late(&self, late: bool) {
        self.role().set_late(late);
    }

    fn add_clients(&self, accepted: u32) {
        self.role().add_clients(accepted);
    }

    fn set_resting(&self, rests: bool) {
        let process = self.process;
        self.note(Event::Rests { process, rests });
        self.role().set_resting(rests);
    }

    fn rouse(&self) {
        self.role().rouse();
        self.state().wake_notified(self.group.index);
    }

    fn publish_open(&self, open: Option<u32>) {
        self.role().publish_open(open);
    }

    fn spread(&self, without: &[WorkerId]) -> Spread {
        self.role().spread(without)
    }

    fn rouse_loaded(&self) {
        self.role().rouse_loaded();
        self.state().wake_notified(self.group.index);
    }

    fn lead(&self) {
        let (process, slot) = (self.process, self.id.slot());
        self.note(Event::Leads { process, slot });
        self.role().lead();
    }

    fn step_down(&self) {
        let (process, slot) = (self.process, self.id.slot());
        self.note(Event::SteppedDown { process, slot });
        self.role().step_down();
    }

    fn notify(&self, peer: WorkerId) {
        self.role().notify(peer);
        self.state().wake_notified(self.group.index);
    }

    fn notifier(&self) -> Option<Notifier<'_>> {
        let fd = self.fd?;
        Some(Notifier::Simulated(fd_table::number(fd)))
    }

    fn clear_notifier(&self) {
        self.role().clear_notifier();
    }
}

impl Drop for SimMember {
    fn drop(&mut self) {
        let Some(role) = self.role.take() else {
            return;
        };
        let Some(mut state) = self.group.sim.try_state() else {
            // The state is locked because a client panics, so the test is about to end.
            return mem::forget(role);
        };
        if !state.is_alive(self.process) {
            // A dead process runs no destructor. Its parent releases what it held.
            return state.keep_role_of_dead(role);
        }
        if let Some(fd) = self.fd {
            state.close_descriptor(self.process, fd);
        }
        drop(role);
        state.wake_notified(self.group.index);
    }
}

impl fmt::Debug for SimMember {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SimMember")
            .field("process", &self.process)
            .field("id", &self.id)
            .finish_non_exhaustive()
    }
}
