//! The group protocol. Workers that share listeners use it so that one of them always listens.
//!
//! The workers share the accept lock, the *leader word*, and a cache line of atomic words for each
//! member. The leader word is empty, or names a worker whose listeners are registered, or names a
//! dead worker. This holds without a lock, because
//!
//! - a member writes only its own id to the leader word, and only after it has registered its
//!   listeners;
//! - a member whose id is in the word stops listening only after another member has replaced that
//!   id, or after it has removed the id itself.
//!
//! If a member stops listening because the word names another member, only that other member can
//! empty the word. (A third one can only replace the id by its own.) The parent removes the id of a
//! dead member.
//!
//! A *notification* wakes a member, so that it listens. No notification is lost:
//!
//! - A notification sets a word of the member before it writes to the member's descriptor.
//! - [`sync`](GroupMember::sync) reports the notification that it answers.
//! - A member that leaves with an unanswered notification notifies another member.
//! - Each search for a member to notify has a fence between the searcher's own stores and the
//!   search. Otherwise a member that fills up or leaves, and a member that gets room, could miss
//!   each other.
//! - After a death, every member with an unanswered notification is notified again.
//!
//! The nearest known pattern is Leader/Followers; see [`WorkerGroup`].
//!
//! `tests/loom_group.rs` runs this file and the policies over loom's atomics.

use std::{fmt, io, sync::Arc};

use crate::{
    accept_mutex::{AcceptMutex, MutexHandle},
    group_member::GroupMember,
    inputs::{GroupView, Leader, Load, Peer},
    member_words::{AWAKE, MemberWords, RESTS, ROUSED, replace},
    notify::{Notifier, Notify},
    notify_fd::NotifyFd,
    policy::Policy,
    shared_memory::SharedSlice,
    spread::{Mean, Place, Spread},
    sync::{AtomicU32, Ordering, fence},
    worker_id::WorkerId,
};

/// The workers that share listeners: their accept lock, their leader, their loads, and the means to
/// wake each of them.
///
/// Make it before the fork. Every process forked after that shares it, and so do threads. A clone
/// is another handle to the same group. Each worker [joins](Self::join) with the id of its slot.
/// When a worker has died, the parent calls [`release_dead`](Self::release_dead), which frees all
/// that the worker held.
///
/// ```
/// use evcore_balancer::{GroupMember, Leader, Load, Policy, WorkerGroup, WorkerId};
///
/// # fn main() -> std::io::Result<()> {
/// // Before the fork, with as many slots as the supervisor has. A reload needs more slots than
/// // there are workers, because old and new ones live at the same time.
/// let group = WorkerGroup::new(Policy::least_loaded(), 16)?;
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
/// The nearest known pattern is Leader/Followers (Schmidt, O'Ryan, Kircher, Pyarali, Buschmann:
/// *Leader/Followers: A Design Pattern for Efficient Multi-threaded Event Demultiplexing and
/// Dispatching*, Pattern Languages of Programs, 2000). There the leader is the only thread that
/// waits for events, and it promotes a follower before it handles an event. The differences are:
///
/// - Every worker waits for events of its own connections, and other members may listen too. The
///   leader is only the member that must not stop before another one has become leader.
/// - A worker becomes leader by its own decision, also while another one leads. The leader does not
///   promote a follower, but may notify the worker that should take over.
/// - Members are processes, which can die or be stopped at any moment.
#[derive(Debug)]
pub struct WorkerGroup<N = NotifyFd> {
    policy: Policy,
    shared: Arc<Shared<N>>,
    scoreboards: Vec<Arc<dyn ReleaseDead>>,
}

/// An object, such as a scoreboard, that is released together with the membership of a dead worker.
pub(crate) trait ReleaseDead: fmt::Debug + Send + Sync {
    fn release_dead(&self, dead: WorkerId);
}

#[derive(Debug)]
struct Shared<N> {
    mutex: AcceptMutex,
    /// One word: empty, or the id of the leader.
    leader: SharedSlice<AtomicU32>,
    members: SharedSlice<MemberWords>,
    // Invariant: one for each slot, or an empty list if the policy does not use a group.
    notifiers: Vec<N>,
}

impl<N: Notify> WorkerGroup<N> {
    /// Makes a group under this policy, with a notifier for each worker.
    ///
    /// # Errors
    ///
    /// [`InvalidInput`](io::ErrorKind::InvalidInput) if there are no notifiers. Otherwise the error
    /// of the operating system, if it has no memory left.
    #[doc(hidden)] // Only simulators need it.
    pub fn with_notifiers(policy: Policy, notifiers: Vec<N>) -> io::Result<Self> {
        Self::from_parts(policy, notifiers.len(), notifiers)
    }

    /// Makes a group for this many workers. Without notifiers, the workers share only the accept
    /// lock.
    pub(crate) fn from_parts(
        policy: Policy,
        workers: usize,
        notifiers: Vec<N>,
    ) -> io::Result<Self> {
        let shared = Shared {
            mutex: AcceptMutex::new()?,
            leader: SharedSlice::new(1)?,
            members: SharedSlice::new(workers)?,
            notifiers,
        };
        Ok(Self {
            policy,
            shared: Arc::new(shared),
            scoreboards: Vec::new(),
        })
    }

    /// Makes the worker in this slot a member. A worker process joins after the fork.
    ///
    /// This ends the leadership of a predecessor in this slot, even if
    /// [`release_dead`](Self::release_dead) was not called for it. It also clears the words of the
    /// predecessor, except for a notification and the number of accepted clients.
    ///
    /// # Panics
    ///
    /// If the group has no such slot.
    #[must_use]
    pub fn join(&self, id: WorkerId) -> Member<N> {
        self.shared.join(id);
        Member {
            lock: self.shared.mutex.lock_handle(id),
            group: self.clone(),
        }
    }

    /// Frees all that a dead worker held: the accept lock, the leadership, its membership, and its
    /// gauges on each [scoreboard](Self::with_scoreboard). Returns whether the worker was a member
    /// or held the lock.
    ///
    /// The call then notifies members, because the dead worker may have left clients waiting:
    ///
    /// - the least loaded member, because the dead worker may have been the only one that listened,
    ///   or the only one that the kernel woke for a client;
    /// - each member with an unanswered notification, because the worker that notified it may have
    ///   died before it wrote to the descriptor.
    ///
    /// The parent calls this after it has reaped the worker and before it starts the replacement.
    /// If the worker still ran, two workers could own the lock.
    ///
    /// # Panics
    ///
    /// If the group has no such slot.
    #[allow(clippy::must_use_candidate, reason = "callers rarely need the answer")]
    pub fn release_dead(&self, dead: WorkerId) -> bool {
        // The lock is freed first, because a member that is notified may want it.
        let held = self.shared.mutex.force_unlock(dead);
        let (was_member, _) = self.shared.clear(dead);
        for scoreboard in &self.scoreboards {
            scoreboard.release_dead(dead);
        }
        self.shared.notify_again();
        // Notify even if the dead worker was not a member, because it may have died while it left.
        self.shared.notify_least_loaded();
        held || was_member
    }

    /// The accept lock of the group.
    #[must_use]
    pub fn mutex(&self) -> &AcceptMutex {
        &self.shared.mutex
    }

    /// Number of slots, which is the maximum number of members at the same time.
    #[must_use]
    pub fn workers(&self) -> usize {
        self.shared.members.len()
    }

    pub(crate) fn also_release(mut self, other: Arc<dyn ReleaseDead>) -> Self {
        self.scoreboards.push(other);
        self
    }
}

impl<N> Clone for WorkerGroup<N> {
    fn clone(&self) -> Self {
        Self {
            policy: self.policy,
            shared: Arc::clone(&self.shared),
            scoreboards: self.scoreboards.clone(),
        }
    }
}

/// The membership of one worker in a [`WorkerGroup`]. Dropping it releases the accept lock, leaves
/// the group, and notifies another member if that one may have to listen now.
///
/// If a process forks, dropping the copy of the membership in the child changes nothing.
///
/// ```
/// use evcore_balancer::{GroupMember, Leader, Load, Policy, WorkerGroup, WorkerId};
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
    // Dropping this releases the lock, which `drop` below has done already.
    lock: MutexHandle,
    group: WorkerGroup<N>,
}

impl<N: Notify> Member<N> {
    /// The id of this worker.
    #[must_use]
    pub fn id(&self) -> WorkerId {
        self.lock.id()
    }

    /// The notifier of this worker; `None` if the members do not see each other.
    fn own_notifier(&self) -> Option<&N> {
        self.shared().notifiers.get(self.id().slot())
    }

    fn shared(&self) -> &Shared<N> {
        &self.group.shared
    }
}

impl<N: Notify> GroupMember for Member<N> {
    fn policy(&self) -> Option<Policy> {
        Some(self.group.policy)
    }

    fn try_lock(&self) -> bool {
        self.lock.try_lock()
    }

    fn unlock(&self) {
        self.lock.unlock();
    }

    fn in_group(&self) -> bool {
        self.shared().sees_members()
    }

    fn is_notified(&self) -> bool {
        self.shared().is_notified(self.id())
    }

    fn sync(&self, load: Load) -> GroupView {
        self.shared().sync(self.id(), load)
    }

    fn set_late(&self, late: bool) {
        let words = self.shared().words(self.id());
        words.late.store(u32::from(late), Ordering::Relaxed);
    }

    fn add_clients(&self, accepted: u32) {
        let clients = &self.shared().words(self.id()).clients;
        // Only this worker writes the word.
        let sum = clients.load(Ordering::Relaxed).wrapping_add(accepted);
        clients.store(sum, Ordering::Relaxed);
    }

    fn set_resting(&self, rests: bool) {
        let word = if rests { RESTS } else { AWAKE };
        let words = self.shared().words(self.id());
        words.rest.store(word, Ordering::Relaxed);
    }

    fn rouse(&self) {
        self.shared().rouse(self.id());
    }

    fn publish_open(&self, open: Option<u32>) {
        let word = open.map_or(0, |open| open.saturating_add(1));
        let words = self.shared().words(self.id());
        words.open.store(word, Ordering::Relaxed);
    }

    fn spread(&self, without: &[WorkerId]) -> Spread {
        let shared = self.shared();
        Spread::of(self.id(), || {
            let places = shared.places(self.id());
            places.map(|place| Place {
                takes: place.takes && !without.contains(&place.id),
                ..place
            })
        })
    }

    fn rouse_loaded(&self) {
        self.shared().rouse_loaded(self.id());
    }

    fn lead(&self) {
        self.shared().lead(self.id());
    }

    fn step_down(&self) {
        self.shared().step_down(self.id());
    }

    fn notify(&self, peer: WorkerId) {
        self.shared().notify(peer);
    }

    fn notifier(&self) -> Option<Notifier<'_>> {
        self.own_notifier().and_then(N::watched)
    }

    fn clear_notifier(&self) {
        self.own_notifier().into_iter().for_each(N::clear);
    }
}

impl<N: Notify> Drop for Member<N> {
    fn drop(&mut self) {
        if self.lock.is_of_this_process() {
            // The lock is released first, because a member that is notified may want it.
            self.lock.unlock();
            self.shared().leave(self.id());
        }
    }
}

impl<N: Notify> Shared<N> {
    fn join(&self, me: WorkerId) {
        let words = self.words(me);
        // An unanswered notification stays, because it is for the slot.
        self.step_down(me);
        words.load.store(0, Ordering::Relaxed);
        words.late.store(0, Ordering::Relaxed);
        words.rest.store(AWAKE, Ordering::Relaxed);
        words.open.store(0, Ordering::Relaxed);
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

    /// Clears the words of a member that leaves or has died. Returns whether it was a member, and
    /// whether it had an unanswered notification.
    fn clear(&self, id: WorkerId) -> (bool, bool) {
        let words = self.words(id);
        self.step_down(id);
        words.load.store(0, Ordering::Relaxed);
        words.rest.store(AWAKE, Ordering::Relaxed);
        words.open.store(0, Ordering::Relaxed);
        let notified = words.answer();
        let was_member = replace(&words.joined, 1, 0, Ordering::Relaxed);
        // The caller looks for a member to notify, and a member that has just got room looks for a
        // leader, as in `sync`. At least one of them must find the other.
        fence(Ordering::SeqCst);
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
        // The stores must precede the loads. Otherwise a worker that fills up, and a worker that
        // gets room, could miss each other, and neither would notify the other.
        fence(Ordering::SeqCst);
        let leader = self.leader(me);
        let on_time = self.least_loaded_of(self.others(me).filter(|id| !self.is_late(*id)));
        let is_late = self.is_late(me);
        // A member is late if its turns were long repeatedly. If this member is late or full, and
        // all others with room are late, one of those gets the clients that this one leaves.
        let [least_loaded, pending] = if (is_late || load.is_full()) && on_time == [None; 2] {
            self.least_loaded_of(self.others(me))
        } else {
            on_time
        };
        GroupView {
            leader,
            least_loaded,
            pending,
            notified,
            alone: !self.others(me).any(|id| self.has_joined(id)),
            outpaced: is_late && on_time != [None; 2],
            clients: self.clients(),
            others_rest: self.others(me).any(|id| self.rest(id) == RESTS),
            roused: self.rest(me) == ROUSED,
        }
    }

    fn clients(&self) -> u32 {
        let clients = |words: &MemberWords| words.clients.load(Ordering::Relaxed);
        self.members.iter().map(clients).fold(0, u32::wrapping_add)
    }

    fn rest(&self, id: WorkerId) -> u32 {
        self.words(id).rest.load(Ordering::Relaxed)
    }

    fn rouse(&self, me: WorkerId) {
        for id in self.others(me).filter(|id| self.words(*id).rouse()) {
            self.notifiers[id.slot()].notify();
        }
    }

    /// The members that take part in evening out connections, in the order of their slots.
    fn places(&self, me: WorkerId) -> impl Iterator<Item = Place> {
        let is_late = self.is_late(me);
        self.ids().filter_map(move |id| {
            let words = self.words(id);
            let open = words.open.load(Ordering::Relaxed).checked_sub(1)?;
            // This worker counts as having room, because it may not have published its load yet.
            let has_room = id == me || matches!(words.available_load(), Some((_, false)));
            // A late worker may also give connections to late ones.
            let takes = has_room && (is_late || !self.is_late(id));
            Some(Place { id, open, takes })
        })
    }

    fn rouse_loaded(&self, me: WorkerId) {
        let Some(mean) = Mean::of(self.places(me)) else {
            return;
        };
        let loaded = |place: &Place| place.id != me && place.open > mean.most;
        for place in self.places(me).filter(loaded) {
            self.notifiers[place.id.slot()].notify();
        }
    }

    fn lead(&self, me: WorkerId) {
        // Release: a member that reads this id also sees the registration. A plain store may
        // overwrite the id of the old leader, because the listeners of both are registered.
        self.leader[0].store(me.to_word(), Ordering::Release);
    }

    fn step_down(&self, me: WorkerId) {
        replace(&self.leader[0], me.to_word(), EMPTY, Ordering::Relaxed);
    }

    fn notify(&self, peer: WorkerId) {
        // Release: the cause of the notification happens before the reaction to it.
        let is_first = replace(&self.words(peer).notified, 0, 1, Ordering::Release);
        if let Some(notifier) = self.notifiers.get(peer.slot()).filter(|_| is_first) {
            notifier.notify();
        }
    }

    fn notify_again(&self) {
        for (id, notifier) in self.ids().zip(&self.notifiers) {
            if self.is_notified(id) {
                notifier.notify();
            }
        }
    }

    /// Notifies the least loaded member that is on time, or else the least loaded late one. The
    /// caller is not a member, so the search includes all slots.
    fn notify_least_loaded(&self) {
        let [on_time, _] = self.least_loaded_of(self.ids().filter(|id| !self.is_late(*id)));
        if let Some(least) = on_time.or_else(|| self.least_loaded_of(self.ids())[0]) {
            self.notify(least.id);
        }
    }

    fn leader(&self, me: WorkerId) -> Leader {
        // Acquire: the registration of the leader happens before the next steps of this member.
        match WorkerId::from_word(self.leader[0].load(Ordering::Acquire)) {
            None => Leader::None,
            Some(leader) if leader == me => Leader::Me,
            Some(_) => Leader::Other,
        }
    }

    fn has_leader(&self) -> bool {
        self.leader[0].load(Ordering::Relaxed) != EMPTY
    }

    fn is_late(&self, id: WorkerId) -> bool {
        self.words(id).late.load(Ordering::Relaxed) != 0
    }

    fn has_joined(&self, id: WorkerId) -> bool {
        self.words(id).joined.load(Ordering::Relaxed) != 0
    }

    /// Returns two members with room: the least loaded one without an unanswered notification, and
    /// the least loaded one with such a notification. Of equally loaded members it returns the
    /// first.
    fn least_loaded_of(&self, ids: impl Iterator<Item = WorkerId>) -> [Option<Peer>; 2] {
        let mut least: [Option<Peer>; 2] = [None; 2];
        for id in ids {
            let Some((active, is_pending)) = self.words(id).available_load() else {
                continue;
            };
            let least = &mut least[usize::from(is_pending)];
            if least.is_none_or(|peer| active < peer.active) {
                *least = Some(Peer { id, active });
            }
        }
        least
    }

    /// All other slots, beginning with the one after this member's, so that members that search
    /// among equal loads find different members.
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
            "there is no {id} in a group of {workers} slots, which count from 0 (a reload needs more \
             slots than workers: make the group with `Supervisor::slots()`)"
        );
        &self.members[id.slot()]
    }
}

/// The leader word of a group without a leader. No worker has this word.
const EMPTY: u32 = 0;

fn word_of(load: Load) -> u32 {
    if load.is_full() {
        0
    } else {
        load.active.saturating_add(1)
    }
}

#[cfg(all(test, not(evcore_loom)))]
#[path = "group/tests.rs"] // The path is the same when a loom model includes this file.
mod tests;
