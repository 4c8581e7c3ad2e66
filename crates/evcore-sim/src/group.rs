//! What simulated workers share, as their loops see it.

use std::{fmt, mem, os::fd::RawFd};

use evcore::{
    GroupMember,
    balancer::{GroupView, Load, Member, MutexHandle, WorkerId},
    poller::Target,
};

use crate::{Process, World, descriptors, notifier::Notifier, state::State, trace::What};

/// What the workers of one simulated server share: the accept lock, and the group that
/// [`Policy::LeastLoaded`](evcore::balancer::Policy::LeastLoaded) needs.
///
/// It is the [`WorkerGroup`](evcore::balancer::WorkerGroup) that ships, with simulated descriptors.
/// A clone is another handle to the same group. What a killed worker held stays held until the
/// parent [notices](crate::Conditions::reap) the death and releases it.
///
/// ```
/// use evcore::{GroupMember, balancer::{Leader, Load, WorkerId}};
/// use evcore_sim::World;
///
/// let world = World::new(7);
/// let group = world.group(2);
/// let member = |slot| group.join(&world.process(), WorkerId::from_slot(slot));
/// let [one, two] = [0, 1].map(member);
/// assert!(one.try_lock() && !two.try_lock());
/// assert_eq!(group.lock_owner(), Some(WorkerId::from_slot(0)));
/// one.lead(); // it listens
/// let load = Load { active: 3, capacity: 64 };
/// assert_eq!(two.sync(load).leader, Leader::Other);
/// ```
#[derive(Clone, Debug)]
pub struct SimGroup {
    world: World,
    index: u32,
}

impl SimGroup {
    pub(crate) fn new(world: World, workers: usize) -> Self {
        let index = world.state().new_group(workers);
        Self { world, index }
    }

    /// The membership of a process, for [`Builder::group`](evcore::Builder::group). A process that
    /// takes the place of a dead one has the same id.
    ///
    /// # Panics
    ///
    /// If the group has no such slot.
    #[must_use]
    pub fn join(&self, process: &Process, id: WorkerId) -> SimMember {
        let (member, fd) = self.world.state().join(self.index, process.id(), id);
        self.member(process, id, Part::Member(member), Some(fd))
    }

    /// The accept lock of the group in the hands of a process that is no member, for
    /// [`Builder::group`](evcore::Builder::group): such workers share it as those of nginx do.
    #[must_use]
    pub fn lock_handle(&self, process: &Process, id: WorkerId) -> SimMember {
        let handle = self.world.state().lock_handle(self.index, process.id(), id);
        self.member(process, id, Part::Lock(handle), None)
    }

    /// The worker that owns the accept lock.
    #[must_use]
    pub fn lock_owner(&self) -> Option<WorkerId> {
        self.world.state().lock_owner(self.index)
    }

    fn member(&self, process: &Process, id: WorkerId, part: Part, fd: Option<RawFd>) -> SimMember {
        SimMember {
            group: self.clone(),
            process: process.id(),
            id,
            part: Some(part),
            fd,
        }
    }
}

/// What one simulated process has of a [`SimGroup`]. Dropping it releases the lock and leaves the
/// group, unless the process was killed. For an example, see there.
pub struct SimMember {
    group: SimGroup,
    process: u32,
    id: WorkerId,
    // `None` only while it is dropped.
    part: Option<Part>,
    /// The descriptor of its notifier.
    fd: Option<RawFd>,
}

/// A part in what the workers share.
#[derive(Debug)]
pub(crate) enum Part {
    Member(Member<Notifier>),
    Lock(MutexHandle),
}

impl SimMember {
    fn state(&self) -> std::sync::MutexGuard<'_, State> {
        self.group.world.state()
    }

    fn note(&self, what: What, amount: u64) {
        let process = u64::from(self.process);
        self.state().note(what, process, amount);
    }

    fn slot(&self) -> u64 {
        self.id.slot() as u64
    }

    fn part(&self) -> &Part {
        self.part.as_ref().expect("it is not dropped")
    }

    fn member(&self) -> Option<&Member<Notifier>> {
        match self.part() {
            Part::Member(member) => Some(member),
            Part::Lock(_) => None,
        }
    }
}

impl GroupMember for SimMember {
    fn try_lock(&self) -> bool {
        let is_mine = match self.part() {
            Part::Member(member) => member.try_lock(),
            Part::Lock(handle) => handle.try_lock(),
        };
        self.note(What::Lock, u64::from(is_mine));
        is_mine
    }

    fn unlock(&self) {
        if self.group.lock_owner() == Some(self.id) {
            self.note(What::Unlock, 0);
        }
        match self.part() {
            Part::Member(member) => member.unlock(),
            Part::Lock(handle) => handle.unlock(),
        }
    }

    fn in_group(&self) -> bool {
        self.member().is_some()
    }

    fn is_notified(&self) -> bool {
        self.member().is_some_and(Member::is_notified)
    }

    fn sync(&self, load: Load) -> GroupView {
        let member = self.member();
        member.map_or(GroupView::alone(), |member| member.sync(load))
    }

    fn lead(&self) {
        self.note(What::Lead, self.slot());
        self.member().into_iter().for_each(Member::lead);
    }

    fn step_down(&self) {
        self.note(What::StepDown, self.slot());
        self.member().into_iter().for_each(Member::step_down);
    }

    fn notify(&self, peer: WorkerId) {
        if let Some(member) = self.member() {
            member.notify(peer);
            self.state().wake_notified(self.group.index);
        }
    }

    fn notifier(&self) -> Option<Target<'_>> {
        self.fd.map(descriptors::target)
    }

    fn clear_notifier(&self) {
        self.member().into_iter().for_each(Member::clear_notifier);
    }
}

impl Drop for SimMember {
    fn drop(&mut self) {
        let Some(part) = self.part.take() else {
            return;
        };
        let Some(mut state) = self.group.world.try_state() else {
            // A client has panicked, and the test with it.
            return mem::forget(part);
        };
        if !state.is_alive(self.process) {
            // A dead process drops nothing. Its parent releases what it held.
            return state.keep_of_dead(part);
        }
        if let Some(fd) = self.fd {
            state.close_descriptor(self.process, fd);
        }
        drop(part);
        state.wake_notified(self.group.index);
    }
}

/// Which member it is.
impl fmt::Debug for SimMember {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SimMember")
            .field("process", &self.process)
            .field("id", &self.id)
            .finish_non_exhaustive()
    }
}
