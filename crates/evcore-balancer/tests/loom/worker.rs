//! A worker of a model. It uses the shipped member and the shipped balancer. It imitates the part
//! of `evcore` that follows a plan.

#![allow(unsafe_code, reason = "the models share a cell between threads")]

use std::{
    mem::{self, ManuallyDrop},
    sync::Arc,
    time::Duration,
};

use loom::cell::UnsafeCell;

use crate::{
    balancer::Balancer,
    group::{Member, WorkerGroup},
    group_member::GroupMember,
    inputs::{GroupView, Inputs, Leader, Load},
    kernel::{Kernel, Registration},
    notify_fd::NotifyFd,
    plan::{Leadership, Plan},
    policy::Policy,
    sync::{Fault, is_injected},
    worker_id::WorkerId,
};

pub(crate) const CAPACITY: usize = 100;

/// The state that the workers of a model share.
pub(crate) struct Server {
    pub(crate) group: WorkerGroup,
    pub(crate) kernel: Arc<Kernel>,
    /// True if the poller has exclusive wake-ups. Otherwise the workers share the accept lock.
    pub(crate) exclusive: bool,
    /// True if no worker fills up, leaves or dies, so that one worker always listens.
    pub(crate) one_always_listens: bool,
    /// Each of two workers has two cells. A worker writes its first cell before it first becomes
    /// leader, and its second cell before it first notifies the other worker. loom fails if the
    /// other worker reads a cell without being ordered after the write. Models of three workers
    /// have no such check, because a view does not name the leader.
    traces: [[Trace; 2]; 2],
}

type Trace = UnsafeCell<()>;
const LED: usize = 0;
const NOTIFIED: usize = 1;

// SAFETY: this is the claim under test. loom panics before an access that contradicts it.
unsafe impl Send for Server {}
// SAFETY: as above.
unsafe impl Sync for Server {}

impl Server {
    pub(crate) fn new(workers: usize, exclusive: bool, one_always_listens: bool) -> Arc<Self> {
        let kernel = Arc::new(Kernel::new(!exclusive));
        let notifiers = (0..workers).map(|slot| NotifyFd::new(&kernel, slot));
        let group = WorkerGroup::with_notifiers(Policy::least_loaded(), notifiers.collect());
        Arc::new(Self {
            group: group.unwrap(),
            kernel,
            exclusive,
            one_always_listens,
            traces: Default::default(),
        })
    }
}

pub(crate) struct Worker {
    server: Arc<Server>,
    slot: usize,
    /// `None` once the worker has left. It is not dropped if the model fails.
    member: Option<ManuallyDrop<Member>>,
    balancer: Balancer,
    pub(crate) now: Duration,
    pub(crate) active: usize,
    /// True if a turn is due, because the wait has returned or an input has changed.
    pub(crate) is_due: bool,
    accepted: u32,
    reported: bool,
    may_have_left_clients: bool,
    pub(crate) rests: bool,
    is_registered: bool,
    holds_lock: bool,
    allowed: usize,
    wait_at_most: Option<Duration>,
    /// True for each cell that this worker has written. The other worker may read such a cell at
    /// any time, so this worker does not write it again.
    is_traced: [bool; 2],
}

impl Worker {
    pub(crate) fn new(server: &Arc<Server>, slot: usize, active: usize) -> Self {
        let member = server.group.join(WorkerId::from_slot(slot));
        Self {
            server: Arc::clone(server),
            slot,
            balancer: Balancer::new(Policy::least_loaded()),
            member: Some(ManuallyDrop::new(member)),
            now: Duration::ZERO,
            active,
            is_due: true,
            accepted: 0,
            reported: false,
            rests: false,
            may_have_left_clients: false,
            is_registered: false,
            holds_lock: false,
            allowed: 0,
            wait_at_most: None,
            is_traced: [false; 2],
        }
    }

    pub(crate) fn slot(&self) -> usize {
        self.slot
    }

    pub(crate) fn has_room(&self) -> bool {
        self.active < CAPACITY
    }

    /// Takes a turn (an iteration of the event loop). A model may call this although the previous
    /// wait has not ended. That stands for a wait that an event of a connection has ended.
    pub(crate) fn turn(&mut self) {
        self.unlock();
        self.plan();
        self.is_due = self.wait();
    }

    /// Handles the events that came while the worker slept.
    pub(crate) fn wake(&mut self) {
        self.is_due |= self.wait();
    }

    /// Ends the wait without an event, if the plan limits the wait.
    pub(crate) fn time_out(&mut self) {
        if let Some(limit) = self.wait_at_most {
            self.now += limit;
            self.is_due = true;
        }
    }

    pub(crate) fn leave(&mut self) {
        if mem::take(&mut self.is_registered) {
            self.server.kernel.deregister(self.slot);
        }
        self.trace(NOTIFIED);
        drop(self.member.take().map(ManuallyDrop::into_inner));
        self.is_due = false;
    }

    /// Call this when the threads of the model begin. The first worker leads by then, so its first
    /// cell counts as written. All other cells count as unwritten.
    pub(crate) fn begin(&mut self) {
        self.is_traced = [self.slot == 0, false];
    }

    pub(crate) fn is_member(&self) -> bool {
        self.member.is_some()
    }

    /// Ends the worker at the end of a model, so that it leaves the group.
    pub(crate) fn end(self) {
        drop(self.member.map(ManuallyDrop::into_inner));
    }

    fn member(&self) -> &Member {
        self.member.as_ref().expect("the worker has not left")
    }

    fn plan(&mut self) {
        let load = Load {
            active: self.active as u32,
            capacity: CAPACITY as u32,
        };
        let inputs = Inputs {
            load,
            accepted: mem::take(&mut self.accepted),
            reported: mem::take(&mut self.reported),
            may_have_left_clients: mem::take(&mut self.may_have_left_clients),
            notified: self.member().is_notified(),
            exclusive: self.server.exclusive,
            in_group: true,
            ..Inputs::at(self.now)
        };
        let member = self.member.as_ref().expect("the worker has not left");
        member.add_clients(inputs.accepted);
        let sync = || self.server.seen(self.slot, member.sync(load));
        let plan = self.balancer.plan(&inputs, || member.try_lock(), sync);
        if is_injected(Fault::ClearsLate) {
            member.clear_notifier();
        }
        self.follow(plan);
    }

    /// Follows a plan in the order that [`Plan`] describes.
    fn follow(&mut self, plan: Plan) {
        if plan.leadership == Leadership::Release {
            self.member().step_down();
        }
        if is_injected(Fault::LeadsFirst) {
            self.lead_if(&plan);
        }
        let stops_first = is_injected(Fault::StopsFirst) && plan.notify.is_some();
        self.register_or_stop(&plan, plan.listening && !stops_first);
        if !is_injected(Fault::LeadsFirst) {
            self.lead_if(&plan);
        }
        if let Some(peer) = plan.notify.filter(|_| !is_injected(Fault::IsMute)) {
            self.trace(NOTIFIED);
            self.member().notify(peer);
        }
        if mem::replace(&mut self.rests, plan.rests) != plan.rests {
            self.member().set_resting(plan.rests);
        }
        if plan.rouses {
            self.member().rouse();
        }
        self.allowed = plan
            .accepts_at_most
            .map_or(CAPACITY, |clients| clients as usize);
        self.holds_lock = plan.holds_lock;
        self.wait_at_most = plan.wait_at_most;
    }

    fn register_or_stop(&mut self, plan: &Plan, listening: bool) {
        let kernel = &self.server.kernel;
        if self.is_registered && !listening {
            let others_listen = kernel.deregister(self.slot);
            assert!(
                others_listen || !self.server.one_always_listens,
                "no worker listens"
            );
        } else if self.is_registered && plan.register_again {
            kernel.register_again(self.slot);
        }
        if listening && (!self.is_registered || plan.register_again) {
            kernel.register(Registration {
                slot: self.slot,
                exclusive: plan.exclusive,
                edge_triggered: plan.edge_triggered,
            });
        }
        self.is_registered = listening;
    }

    fn lead_if(&mut self, plan: &Plan) {
        if plan.leadership == Leadership::Acquire {
            self.trace(LED);
            self.member().lead();
        }
    }

    /// Waits, and accepts. Returns whether a turn follows at once.
    fn wait(&mut self) -> bool {
        let sleeps = self.wait_at_most != Some(Duration::ZERO);
        let woken = self.server.kernel.wait(self.slot, sleeps);
        if woken.by_notification && !is_injected(Fault::ClearsLate) {
            self.member().clear_notifier();
        }
        if woken.by_client {
            self.reported = true;
            let room = CAPACITY.saturating_sub(self.active);
            let (accepted, left) = self.server.kernel.accept(room.min(self.allowed));
            self.active += accepted;
            self.accepted += accepted as u32;
            self.may_have_left_clients = left;
        }
        let returns = woken.by_client || woken.by_notification || !sleeps;
        if returns {
            self.unlock();
        }
        returns
    }

    fn unlock(&mut self) {
        if mem::take(&mut self.holds_lock) {
            self.member().unlock();
        }
    }

    /// Writes a cell for the other worker. Only the first call writes.
    fn trace(&mut self, what: usize) {
        let written = mem::replace(&mut self.is_traced[what], true);
        if let (false, Some(traces)) = (written, self.server.traces_of(self.slot)) {
            // loom only has to see the access.
            traces[what].with_mut(|_| ());
        }
    }
}

impl Server {
    /// Returns this worker's view of the group. Reads each cell that, according to this view, the
    /// other worker must have written.
    fn seen(&self, slot: usize, view: GroupView) -> GroupView {
        if let Some(traces) = self.traces_of(1_usize.wrapping_sub(slot)) {
            if view.leader == Leader::Other {
                traces[LED].with(|_| ());
            }
            if view.notified {
                traces[NOTIFIED].with(|_| ());
            }
        }
        GroupView {
            notified: view.notified && !is_injected(Fault::IgnoresAnswer),
            ..view
        }
    }

    /// The cells of a worker that the others read; `None` in a model of three workers.
    fn traces_of(&self, slot: usize) -> Option<&[Trace; 2]> {
        self.traces.get(slot).filter(|_| self.group.workers() == 2)
    }
}
