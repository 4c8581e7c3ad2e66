//! A fake member of a group. A test sets the state of the group that the loop sees, and some of the
//! loop's calls are recorded.

use std::{
    fs::File,
    mem,
    os::fd::{AsFd, AsRawFd, RawFd},
    sync::{Arc, Mutex, MutexGuard},
};

use evcore::balancer::{GroupMember, GroupView, Leader, Load, Notifier, Peer, WorkerId};

use crate::fake_backend::{FakeBackend, Recorded};

#[derive(Clone, Debug)]
pub(crate) struct FakeMember {
    state: Arc<Mutex<State>>,
    /// The notifier. Any descriptor is enough, because only the fake backend gets it.
    notifier: Arc<File>,
}

#[derive(Debug)]
struct State {
    is_notified: bool,
    /// The value that the loop has last passed to `set_late`; false at first.
    is_late: bool,
    looks: u32,
    view: GroupView,
    /// True if another worker accepts a client before each call of `sync`.
    is_busy: bool,
    calls: Vec<Call>,
    /// The backend whose record also gets the calls.
    backend: Option<FakeBackend>,
    /// The backend that has the lock of the group. If it is `None`, a call that uses the lock
    /// panics.
    lock: Option<FakeBackend>,
}

/// A recorded call of the loop to its member.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Call {
    Lead,
    StepDown,
    Notify(WorkerId),
    ClearNotifier,
    /// The worker begins to rest (true): it sleeps without a limit, because its group has met no
    /// client for some time. False ends the rest.
    Rest(bool),
    /// The worker wakes the other workers that rest.
    Rouse,
}

/// The other worker, whose load [`show`](FakeMember::show) sets.
pub(crate) fn other() -> WorkerId {
    WorkerId::from_slot(7)
}

impl FakeMember {
    /// A member of a group in which no other member has a free slot.
    pub(crate) fn new() -> Self {
        let view = GroupView {
            alone: false,
            ..GroupView::alone()
        };
        let state = State {
            is_notified: false,
            is_late: false,
            looks: 0,
            view,
            is_busy: true,
            calls: Vec::new(),
            backend: None,
            lock: None,
        };
        Self {
            state: Arc::new(Mutex::new(state)),
            notifier: Arc::new(File::open("/dev/null").unwrap()),
        }
    }

    pub(crate) fn with_lock(self, backend: &FakeBackend) -> Self {
        self.state().lock = Some(backend.clone());
        self
    }

    /// Shows to the loop this leader, and the [other](other) worker as the least loaded one, with
    /// this number of connections. With `None`, no other worker has room.
    pub(crate) fn show(&self, leader: Leader, least: Option<u32>) {
        let least_loaded = least.map(|active| Peer {
            id: other(),
            active,
        });
        self.state().view = GroupView {
            leader,
            least_loaded,
            alone: false,
            ..GroupView::alone()
        };
    }

    /// Shows to the loop that all other workers have left.
    pub(crate) fn show_alone(&self, leader: Leader) {
        self.state().view = GroupView {
            leader,
            ..GroupView::alone()
        };
    }

    /// Makes the other workers accept no further client.
    pub(crate) fn quieten(&self) {
        self.state().is_busy = false;
    }

    pub(crate) fn calls(&self) -> Vec<Call> {
        mem::take(&mut self.state().calls)
    }

    /// Adds later recorded calls to the backend's record as well.
    pub(crate) fn record_in(&self, backend: &FakeBackend) {
        self.state().backend = Some(backend.clone());
    }

    pub(crate) fn set_notified(&self, is_notified: bool) {
        self.state().is_notified = is_notified;
    }

    pub(crate) fn is_late(&self) -> bool {
        self.state().is_late
    }

    /// Number of times that the loop checked for a notification since the last call.
    pub(crate) fn looks(&self) -> u32 {
        mem::take(&mut self.state().looks)
    }

    pub(crate) fn notifier_fd(&self) -> RawFd {
        self.notifier.as_raw_fd()
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().expect("no test goes on after a panic")
    }

    fn lock(&self) -> FakeBackend {
        let state = self.state();
        state.lock.clone().expect("the loop uses no lock here")
    }

    fn record(&self, call: Call) {
        let mut state = self.state();
        state.calls.push(call);
        if let Some(backend) = &state.backend {
            backend.note(Recorded::Member(call));
        }
    }
}

impl GroupMember for FakeMember {
    fn try_lock(&self) -> bool {
        self.lock().try_lock()
    }

    fn unlock(&self) {
        self.lock().unlock();
    }

    fn in_group(&self) -> bool {
        true
    }

    fn is_notified(&self) -> bool {
        let mut state = self.state();
        state.looks += 1;
        state.is_notified
    }

    fn sync(&self, _load: Load) -> GroupView {
        let mut state = self.state();
        state.view.clients += u32::from(state.is_busy);
        GroupView {
            notified: mem::take(&mut state.is_notified),
            ..state.view
        }
    }

    fn set_late(&self, late: bool) {
        self.state().is_late = late;
    }

    fn set_resting(&self, rests: bool) {
        self.record(Call::Rest(rests));
    }

    fn rouse(&self) {
        self.record(Call::Rouse);
    }

    fn lead(&self) {
        self.record(Call::Lead);
    }

    fn step_down(&self) {
        self.record(Call::StepDown);
    }

    fn notify(&self, peer: WorkerId) {
        self.record(Call::Notify(peer));
    }

    fn notifier(&self) -> Option<Notifier<'_>> {
        Some(Notifier::Descriptor(self.notifier.as_fd()))
    }

    fn clear_notifier(&self) {
        self.record(Call::ClearNotifier);
    }
}
