//! The group protocol: workers that share listeners, so that one of them always listens.
//!
//! The workers share the accept lock, the *leader word*, and a line of words for each member. The
//! leader word is empty, or names a member whose listeners are registered, or names a dead member.
//! That holds without a lock, because
//!
//! - a member writes no id but its own there, and only after it has registered its listeners;
//! - a member stops only while the word names another member, or after it has removed its own id.
//!
//! A member that stops has read the id of another member, and only that one could remove it again.
//! What a dead member leaves behind is cleared by its parent.
//!
//! No notification is lost: the word of a notification is set before its descriptor is written,
//! [`Member::sync`] reports the notification that it answers, a member that leaves with one
//! unanswered notifies another member, and after a death every notified member is notified again.
//!
//! The nearest known thing is the Leader/Followers pattern; [`WorkerGroup`] describes what differs.
//!
//! `tests/loom_group.rs` includes this file and runs it over loom's atomics.

use std::{fmt, io, sync::Arc};

use crate::{
    AcceptMutex, GroupView, Leader, Load, MutexHandle, Peer, WorkerId,
    notify_fd::NotifyFd,
    shared_memory::SharedSlice,
    sync::{AtomicU32, Ordering, fence},
};

/// What the workers of a server share: the accept lock, the leader, the load of each worker, and
/// how to wake one.
///
/// It is made before the fork and shared with every process forked after that; it works between
/// threads as well. A clone is another handle to the same group. Each worker [joins](Self::join) by
/// the id of its slot. When a worker has died, one call of [`release_dead`](Self::release_dead)
/// frees all that it held.
///
/// ```
/// use evcore_balancer::{Leader, Load, Policy, WorkerGroup, WorkerId};
///
/// # fn main() -> std::io::Result<()> {
/// let group = WorkerGroup::new(Policy::least_loaded(), 4)?; // before the fork
///
/// // In the worker of slot 2:
/// let member = group.join(WorkerId::from_slot(2));
/// let view = member.sync(Load { active: 3, capacity: 1024 });
/// assert_eq!(view.leader, Leader::None);
/// member.lead(); // once its listeners are registered
///
/// // In the parent, when the worker of slot 1 has died:
/// group.release_dead(WorkerId::from_slot(1));
/// # Ok(())
/// # }
/// ```
///
/// # Leader and followers
///
/// The nearest known thing is the Leader/Followers pattern (Schmidt, O'Ryan, Kircher, Pyarali,
/// Buschmann: *Leader/Followers: A Design Pattern for Efficient Multi-threaded Event Demultiplexing
/// and Dispatching*, Pattern Languages of Programs, 2000). There the leader is the one thread that waits for events, and it
/// promotes a follower before it handles an event. Here
///
/// - every worker waits for events of its own connections, and other members may listen too: the
///   leader is only the one that must not stop before another member has become leader;
/// - a worker becomes leader by its own decision, also while another leads, and the leader may
///   notify the worker that should take over;
/// - the members are processes that can die or be stopped at any moment.
#[derive(Debug)]
pub struct WorkerGroup<N = NotifyFd> {
    shared: Arc<Shared<N>>,
    scoreboards: Vec<Arc<dyn ReleaseDead>>,
}

/// How a member of a [`WorkerGroup`] is woken from its wait.
///
/// A real server needs no implementation of its own: [`WorkerGroup::new`] brings descriptors. A
/// simulator implements it for what its pollers can wait for, and so runs the same group protocol.
///
/// ```
/// use evcore_balancer::{Notify, WorkerGroup, WorkerId};
/// use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
///
/// #[derive(Debug, Default)]
/// struct Flag(AtomicBool);
///
/// impl Notify for Flag {
///     fn notify(&self) {
///         self.0.store(true, Relaxed);
///     }
///     fn clear(&self) {
///         self.0.store(false, Relaxed);
///     }
/// }
///
/// # fn main() -> std::io::Result<()> {
/// let group = WorkerGroup::with_notifiers(vec![Flag::default(), Flag::default()])?;
/// let [one, two] = [0, 1].map(|slot| group.join(WorkerId::from_slot(slot)));
/// one.notify(two.id());
/// assert!(two.is_notified());
/// # Ok(())
/// # }
/// ```
pub trait Notify: fmt::Debug + Send + Sync {
    /// Ends the member's wait: the one that it is in, or else its next one. Any worker may call it.
    fn notify(&self);

    /// Forgets the notifications so far, so that the next wait is a full one.
    fn clear(&self);
}

/// What else of a dead worker is released together with its membership.
pub(crate) trait ReleaseDead: fmt::Debug + Send + Sync {
    fn release_dead(&self, dead: WorkerId);
}

/// The memory of a group, and its notifiers.
#[derive(Debug)]
struct Shared<N> {
    mutex: AcceptMutex,
    /// One word: empty, or the id of the leader.
    leader: SharedSlice<AtomicU32>,
    members: SharedSlice<MemberWords>,
    // Invariant: one for each member, or none at all if the policy has no use for a group.
    notifiers: Vec<N>,
}

/// The words of one member, alone in their cache line. All zero if no worker is there.
#[derive(Debug, Default)]
#[repr(C, align(64))]
pub(crate) struct MemberWords {
    /// 1 from `join` until the member has left or its death was noticed.
    joined: AtomicU32,
    /// 0 if the member has no free place; else its connections, and one more.
    load: AtomicU32,
    /// 1 from a notification until it is answered.
    notified: AtomicU32,
}

impl<N: Notify> WorkerGroup<N> {
    /// A group of as many workers as there are notifiers.
    ///
    /// # Errors
    ///
    /// [`InvalidInput`](io::ErrorKind::InvalidInput) without notifiers; else that of the operating
    /// system, if it has no memory to map.
    pub fn with_notifiers(notifiers: Vec<N>) -> io::Result<Self> {
        Self::from_parts(notifiers.len(), notifiers)
    }

    /// A group for this many workers, which cannot see or wake each other if there are no
    /// notifiers.
    pub(crate) fn from_parts(workers: usize, notifiers: Vec<N>) -> io::Result<Self> {
        let shared = Shared {
            mutex: AcceptMutex::new()?,
            leader: SharedSlice::new(1)?,
            members: SharedSlice::new(workers)?,
            notifiers,
        };
        Ok(Self {
            shared: Arc::new(shared),
            scoreboards: Vec::new(),
        })
    }

    /// The membership of the worker in this slot, for its event loop to hold. A worker process
    /// joins after the fork.
    ///
    /// What a predecessor in this slot has left behind is gone, even if its death was not reported
    /// to [`release_dead`](Self::release_dead).
    ///
    /// # Panics
    ///
    /// If the group has no such slot.
    #[must_use]
    pub fn join(&self, id: WorkerId) -> Member<N> {
        self.shared.join(id);
        Member {
            lock: self.shared.mutex.handle(id),
            group: self.clone(),
        }
    }

    /// Frees all that the dead worker held, and returns whether that was anything: the accept lock,
    /// the leadership, its membership, and the gauges of its line on each
    /// [scoreboard](Self::with_scoreboard).
    ///
    /// After that, two kinds of members look for clients that the dead worker may have left:
    ///
    /// - the least loaded member is notified, because the dead worker may have been the only one
    ///   that listened, or the only one that the kernel woke for a client;
    /// - each member with an unanswered notification is notified again, because the worker that
    ///   notified it may have died on the way to its descriptor.
    ///
    /// For the parent, after it has reaped the worker and before it starts the replacement. For a
    /// worker that still runs it would break the exclusion of the lock.
    ///
    /// # Panics
    ///
    /// If the group has no such slot.
    #[allow(clippy::must_use_candidate, reason = "callers rarely need the answer")]
    pub fn release_dead(&self, dead: WorkerId) -> bool {
        // The lock goes first: the members that are notified now may want it.
        let held = self.shared.mutex.force_unlock(dead);
        let (was_member, _) = self.shared.clear(dead);
        for scoreboard in &self.scoreboards {
            scoreboard.release_dead(dead);
        }
        self.shared.notify_again();
        // Also if the dead worker was no member: it may have died while it left.
        self.shared.notify_least_loaded();
        held || was_member
    }

    /// The accept lock of the group.
    #[must_use]
    pub fn mutex(&self) -> &AcceptMutex {
        &self.shared.mutex
    }

    /// How many workers can be members at the same time.
    #[must_use]
    pub fn workers(&self) -> usize {
        self.shared.members.len()
    }

    /// Releases something else together with the membership of a dead worker.
    pub(crate) fn also_release(mut self, other: Arc<dyn ReleaseDead>) -> Self {
        self.scoreboards.push(other);
        self
    }
}

impl<N> Clone for WorkerGroup<N> {
    fn clone(&self) -> Self {
        Self {
            shared: Arc::clone(&self.shared),
            scoreboards: self.scoreboards.clone(),
        }
    }
}

/// The membership of one worker in a [`WorkerGroup`]. Dropping it releases the accept lock and
/// leaves the group. If the clients of this worker need another one, that one is notified.
///
/// A copy of a membership in a forked child changes nothing when it is dropped there.
///
/// ```
/// use evcore_balancer::{Leader, Load, Policy, WorkerGroup, WorkerId};
///
/// # fn main() -> std::io::Result<()> {
/// let group = WorkerGroup::new(Policy::least_loaded(), 2)?;
/// let [one, two] = [0, 1].map(|slot| group.join(WorkerId::from_slot(slot)));
/// let load = Load { active: 0, capacity: 64 };
///
/// one.lead();
/// assert_eq!(two.sync(load).leader, Leader::Other);
/// drop(one);
/// assert_eq!(two.sync(load).leader, Leader::None);
/// # Ok(())
/// # }
/// ```
#[derive(Debug)]
pub struct Member<N: Notify = NotifyFd> {
    // Fields are dropped in this order. `drop` below has released the lock before that.
    lock: MutexHandle,
    group: WorkerGroup<N>,
}

impl<N: Notify> Member<N> {
    /// Which worker this is.
    #[must_use]
    pub fn id(&self) -> WorkerId {
        self.lock.id()
    }

    /// Whether the members see and wake each other. They do not if the group was made for a policy
    /// that [has no use for it](crate::Policy::uses_group).
    #[must_use]
    pub fn in_group(&self) -> bool {
        self.shared().sees_members()
    }

    /// Gets the accept lock if no other worker owns it, without waiting, and returns whether this
    /// worker owns it now.
    #[must_use = "it returns whether the lock is held"]
    pub fn try_lock(&self) -> bool {
        self.lock.try_lock()
    }

    /// Releases the accept lock if this worker owns it.
    pub fn unlock(&self) {
        self.lock.unlock();
    }

    /// Whether another member has notified this one since its last [`sync`](Self::sync). It costs a
    /// load.
    #[must_use]
    pub fn is_notified(&self) -> bool {
        self.shared().is_notified(self.id())
    }

    /// Publishes the load of this worker, answers a notification, and then looks at the other
    /// members.
    ///
    /// If two members do this at the same time, at least one of them sees what the other has
    /// published. It reads a cache line for each slot of the group.
    #[must_use]
    pub fn sync(&self, load: Load) -> GroupView {
        self.shared().sync(self.id(), load)
    }

    /// Makes this worker the leader, whichever member leads now.
    ///
    /// Its listeners must be registered, and stay so until another member leads.
    pub fn lead(&self) {
        self.shared().lead(self.id());
    }

    /// Leaves the group without a leader if this worker leads. Call it while the listeners are
    /// still registered.
    pub fn step_down(&self) {
        self.shared().step_down(self.id());
    }

    /// Notifies another member, which then looks at the group and listens. A member that has a
    /// notification to answer is not woken again.
    ///
    /// # Panics
    ///
    /// If the group has no such slot.
    pub fn notify(&self, peer: WorkerId) {
        self.shared().notify(peer);
    }

    /// Clears the notifier of this worker. Call it before the `sync` that answers the notification.
    pub fn clear_notifier(&self) {
        if let Some(notifier) = self.notifier() {
            notifier.clear();
        }
    }

    /// What wakes this worker; `None` if the members do not see each other.
    pub(crate) fn notifier(&self) -> Option<&N> {
        self.shared().notifiers.get(self.id().slot())
    }

    fn shared(&self) -> &Shared<N> {
        &self.group.shared
    }
}

impl<N: Notify> Drop for Member<N> {
    fn drop(&mut self) {
        if self.lock.is_of_this_process() {
            // The lock goes first: the member that is notified may want it.
            self.lock.unlock();
            self.shared().leave(self.id());
        }
    }
}

impl<N: Notify> Shared<N> {
    fn join(&self, me: WorkerId) {
        let words = self.words(me);
        // An unanswered notification stays for this worker to answer.
        self.step_down(me);
        words.load.store(0, Ordering::Relaxed);
        if let Some(notifier) = self.notifiers.get(me.slot()) {
            notifier.clear();
        }
        words.joined.store(1, Ordering::Relaxed);
    }

    fn leave(&self, me: WorkerId) {
        let (_, notified) = self.clear(me);
        if notified || !self.has_leader() {
            self.notify_least_loaded();
        }
    }

    /// Empties the words of a member that leaves or has died. Returns whether it was a member, and
    /// whether it leaves a notification unanswered.
    fn clear(&self, id: WorkerId) -> (bool, bool) {
        let words = self.words(id);
        self.step_down(id);
        words.load.store(0, Ordering::Relaxed);
        let notified = words.answer();
        let was_member = replace(&words.joined, 1, 0, Ordering::Relaxed);
        (was_member, notified)
    }

    fn is_notified(&self, me: WorkerId) -> bool {
        self.words(me).notified.load(Ordering::Relaxed) != 0
    }

    fn sync(&self, me: WorkerId, load: Load) -> GroupView {
        if !self.sees_members() {
            return GroupView::alone();
        }
        let words = self.words(me);
        words.load.store(word_of(load), Ordering::Relaxed);
        let notified = words.answer();
        // The stores come before the loads. Otherwise a worker that becomes full and one that
        // becomes free could miss each other, and neither would notify the other.
        fence(Ordering::SeqCst);
        GroupView {
            leader: self.leader(me),
            least_loaded: self.least_loaded_of(self.others(me)),
            notified,
            alone: !self.others(me).any(|id| self.has_joined(id)),
        }
    }

    fn lead(&self, me: WorkerId) {
        // Release: a member that reads this id sees the registration too. The old leader need not
        // agree, because both are registered.
        self.leader[0].store(me.to_word(), Ordering::Release);
    }

    fn step_down(&self, me: WorkerId) {
        replace(&self.leader[0], me.to_word(), EMPTY, Ordering::Relaxed);
    }

    fn notify(&self, peer: WorkerId) {
        // Release: what made this member notify comes before what the other one does about it.
        let is_first = replace(&self.words(peer).notified, 0, 1, Ordering::Release);
        if let Some(notifier) = self.notifiers.get(peer.slot()).filter(|_| is_first) {
            notifier.notify();
        }
    }

    /// Notifies every member that has been notified and has not answered.
    fn notify_again(&self) {
        for (id, notifier) in self.ids().zip(&self.notifiers) {
            if self.is_notified(id) {
                notifier.notify();
            }
        }
    }

    /// Notifies the least loaded of all members, for a caller that is none of them.
    fn notify_least_loaded(&self) {
        if let Some(least) = self.least_loaded_of(self.ids()) {
            self.notify(least.id);
        }
    }

    fn leader(&self, me: WorkerId) -> Leader {
        // Acquire: the registration of the leader comes before what this member does now.
        match WorkerId::from_word(self.leader[0].load(Ordering::Acquire)) {
            None => Leader::None,
            Some(leader) if leader == me => Leader::Me,
            Some(_) => Leader::Other,
        }
    }

    fn has_leader(&self) -> bool {
        self.leader[0].load(Ordering::Relaxed) != EMPTY
    }

    fn has_joined(&self, id: WorkerId) -> bool {
        self.words(id).joined.load(Ordering::Relaxed) != 0
    }

    /// The first of the least loaded members that have a free place and no unanswered notification.
    fn least_loaded_of(&self, ids: impl Iterator<Item = WorkerId>) -> Option<Peer> {
        ids.filter_map(|id| {
            let active = self.words(id).available_load()?;
            Some(Peer { id, active })
        })
        .min_by_key(|peer| peer.active)
    }

    /// All slots but this one, from the next one on: so members with equal loads are each notified
    /// by another member.
    fn others(&self, me: WorkerId) -> impl Iterator<Item = WorkerId> + use<N> {
        let slots = (me.slot() + 1..self.members.len()).chain(0..me.slot());
        slots.map(WorkerId::from_slot)
    }

    fn ids(&self) -> impl Iterator<Item = WorkerId> + use<N> {
        (0..self.members.len()).map(WorkerId::from_slot)
    }

    fn sees_members(&self) -> bool {
        !self.notifiers.is_empty()
    }

    fn words(&self, id: WorkerId) -> &MemberWords {
        let workers = self.members.len();
        assert!(
            id.slot() < workers,
            "there is no {id} in a group of {workers}: slots count from 0"
        );
        &self.members[id.slot()]
    }
}

impl MemberWords {
    /// Answers a notification, and returns whether there was one. The member that sent it relies on
    /// what follows from that.
    fn answer(&self) -> bool {
        // Acquire: what made another member notify comes before what is done about it.
        replace(&self.notified, 1, 0, Ordering::Acquire)
    }

    /// How many connections the member has; `None` if it has no free place, or has a notification
    /// to answer.
    fn available_load(&self) -> Option<u32> {
        let active = self.load.load(Ordering::Relaxed).checked_sub(1)?;
        let answers = self.notified.load(Ordering::Relaxed) == 0;
        answers.then_some(active)
    }
}

/// The leader word of a group without a leader. No worker has this word.
const EMPTY: u32 = 0;

/// The word that shows this load to the other members.
fn word_of(load: Load) -> u32 {
    if load.is_full() {
        0
    } else {
        load.active.saturating_add(1)
    }
}

fn replace(word: &AtomicU32, current: u32, new: u32, success: Ordering) -> bool {
    word.compare_exchange(current, new, success, Ordering::Relaxed)
        .is_ok()
}

#[cfg(all(test, not(evcore_loom)))]
#[path = "group/tests.rs"] // Also where a loom model includes this file.
mod tests;
