//! Every interleaving of workers that come, leave, fill up and die: the files that ship, over
//! loom's atomics.
//!
//! A registration with the kernel is modelled twice. The first model is a cell that is not atomic:
//! a worker writes it when it registers, and another worker reads it before it leaves. loom fails
//! when the two are not ordered. The second model is a count: a worker that leaves must not be the
//! last. Each mutant is an atomic, or a worker, that does a little less than it should, and must be
//! caught.
//!
//! loom cannot show a change of the orderings of `joined`: it never sees read-modify-writes in
//! another order than they were made. It also misses a race that hides behind a load of the same
//! word by the same thread, which is why `lead` is a plain store.

#![cfg(evcore_loom)]
#![allow(unsafe_code, reason = "the test shares a cell between threads")]

#[path = "../src/accept_mutex.rs"]
#[allow(dead_code, unreachable_pub, reason = "public where it ships")]
mod accept_mutex;
#[path = "../src/group.rs"]
#[allow(dead_code, unreachable_pub, reason = "public where it ships")]
mod group;
#[path = "../src/inputs.rs"]
#[allow(dead_code, unreachable_pub, reason = "public where it ships")]
mod inputs;
#[path = "loom/notify_fd.rs"]
mod notify_fd;
#[path = "loom/shared_memory.rs"]
mod shared_memory;
#[path = "loom/sync.rs"]
mod sync;
#[path = "../src/worker_id.rs"]
#[allow(dead_code, unreachable_pub, reason = "public where it ships")]
mod worker_id;

use std::{mem::ManuallyDrop, sync::Arc};

use accept_mutex::{AcceptMutex, MutexHandle};
use group::{Member, Notify, WorkerGroup};
use inputs::{GroupView, Leader, Load, Peer};
use loom::{
    cell::UnsafeCell,
    sync::atomic::{AtomicU32, Ordering::Relaxed},
    thread,
};
use notify_fd::NotifyFd;
use sync::{Fault, plant};
use worker_id::WorkerId;

/// A server of three workers.
struct Server {
    group: WorkerGroup,
    /// They leave at the end of a model, and not when a mutant is caught.
    members: [ManuallyDrop<Member>; 3],
    /// How many workers are registered.
    registered: AtomicU32,
    registration: [UnsafeCell<()>; 3],
}

// SAFETY: this is not a fact but the claim under test. loom panics before an access that
// contradicts it.
unsafe impl Send for Server {}
// SAFETY: as above.
unsafe impl Sync for Server {}

const A: usize = 0;
const B: usize = 1;
const C: usize = 2;

const FULL: Load = Load {
    active: 0,
    capacity: 0,
};

fn load(active: u32) -> Load {
    Load {
        active,
        capacity: 100,
    }
}

impl Server {
    /// Members that have published these loads. None of them is registered.
    fn new(loads: [Load; 3]) -> Arc<Self> {
        let notifiers = [NotifyFd, NotifyFd, NotifyFd];
        let group = WorkerGroup::with_notifiers(notifiers.into()).unwrap();
        let members = [A, B, C].map(|slot| {
            let member = group.join(WorkerId::from_slot(slot));
            let _ = member.sync(loads[slot]);
            ManuallyDrop::new(member)
        });
        Arc::new(Self {
            group,
            members,
            registered: AtomicU32::new(0),
            registration: Default::default(),
        })
    }

    /// All workers leave, after all threads have ended.
    fn end(server: Arc<Self>) {
        let server = Arc::try_unwrap(server).ok().expect("the threads are over");
        for member in server.members {
            drop(ManuallyDrop::into_inner(member));
        }
    }

    fn come(&self, me: usize) {
        self.register(me);
        self.members[me].lead();
    }

    fn register(&self, me: usize) {
        // loom only has to see the access.
        self.registration[me].with_mut(|_| ());
        self.registered.fetch_add(1, Relaxed);
    }

    /// Leaves, if it may.
    fn leave(&self, me: usize) {
        if self.members[me].sync(load(9)).leader == Leader::Other {
            let listened = self.registered.fetch_sub(1, Relaxed);
            assert!(listened > 1, "no worker listens");
        }
    }

    fn is_notified(&self, worker: usize) -> bool {
        self.members[worker].is_notified()
    }
}

fn spawn<R: 'static>(
    server: &Arc<Server>,
    work: impl FnOnce(&Server) -> R + 'static,
) -> thread::JoinHandle<R> {
    let server = Arc::clone(server);
    thread::spawn(move || work(&server))
}

/// The leader wants to leave while another worker comes.
fn a_registration_comes_before_the_leaving_that_it_allows() {
    loom::model(|| {
        let server = Server::new([load(9), load(0), FULL]);
        server.come(A);
        let other = spawn(&server, |server| server.come(B));
        if server.members[A].sync(load(9)).leader == Leader::Other {
            // What B wrote when it registered.
            server.registration[B].with(|_| ());
        }
        other.join().unwrap();
        Server::end(server);
    });
}

/// One worker comes and would leave again, while the leader and another one would leave too.
///
/// With at most three preemptions: all interleavings of three workers take hours.
fn three_would_leave(come: fn(&Server, usize)) {
    let mut model = loom::model::Builder::new();
    model.preemption_bound = Some(3);
    model.check(move || {
        let server = Server::new([load(9), load(9), load(9)]);
        server.register(C);
        server.come(A);
        let others = [
            spawn(&server, move |server| {
                come(server, B);
                server.leave(B);
            }),
            spawn(&server, |server| server.leave(C)),
        ];
        server.leave(A);
        for other in others {
            other.join().unwrap();
        }
        assert!(server.registered.load(Relaxed) > 0);
        Server::end(server);
    });
}

/// The leader becomes full while a full worker becomes free.
fn one_fills_up_while_another_becomes_free() {
    loom::model(|| {
        let server = Server::new([load(0), FULL, FULL]);
        server.come(A);
        let other = spawn(&server, |server| {
            // Its load is so high that it comes only if there is no other worker.
            let view = server.members[B].sync(load(50));
            view.leader == Leader::None || view.least_loaded.is_none()
        });
        fill_up(&server, A);
        let came = other.join().unwrap();
        let notified = server.is_notified(B);
        assert!(came || notified, "a free place is left unserved");
        Server::end(server);
    });
}

/// What a leader does that has no free place left: it steps down, leaves, and notifies another.
fn fill_up(server: &Server, me: usize) {
    let view = server.members[me].sync(FULL);
    assert_eq!(view.leader, Leader::Me);
    server.members[me].step_down();
    if let Some(peer) = view.least_loaded {
        server.members[me].notify(peer.id);
    }
}

/// A worker that leaves notifies another one of a client that no other was woken for, while the
/// other one, which listens, plans a turn. It registers again if it notices the notification.
fn one_is_notified_while_it_syncs(notices: fn(GroupView) -> bool) {
    loom::model(move || {
        let server = Server::new([load(9), load(0), FULL]);
        let notifier = spawn(&server, |server| {
            // What made it notify.
            server.registration[A].with_mut(|_| ());
            server.members[A].notify(WorkerId::from_slot(B));
        });
        let is_notified = server.is_notified(B);
        let notices = notices(server.members[B].sync(load(0))) || is_notified;
        if notices {
            server.registration[A].with(|_| ());
        }
        notifier.join().unwrap();
        let later = server.is_notified(B);
        assert!(notices || later, "a notification is answered unnoticed");
        Server::end(server);
    });
}

/// The leader dies, or (`early`) a worker that has registered and was about to lead. Its parent
/// releases it, while a worker that listens would leave and another one is away.
fn one_dies_while_another_leaves(early: bool) {
    loom::model(move || {
        let server = Server::new([load(0), load(0), load(9)]);
        server.register(C);
        if early {
            server.members[C].lead();
        }
        let dying = spawn(&server, move |server| {
            if !early {
                server.come(A);
            }
        });
        let listening = spawn(&server, |server| {
            match server.members[C].sync(load(9)).leader {
                Leader::Other => false,
                Leader::Me => true,
                Leader::None => {
                    server.members[C].lead();
                    true
                }
            }
        });
        dying.join().unwrap();
        assert!(server.group.release_dead(WorkerId::from_slot(A)));
        let listens = listening.join().unwrap();
        let comes = [B, C].iter().any(|&worker| server.is_notified(worker));
        assert!(listens || comes, "each relies on another one to listen");
        Server::end(server);
    });
}

#[test]
fn the_leader_leaves_after_another_has_registered() {
    a_registration_comes_before_the_leaving_that_it_allows();
}

#[test]
fn of_three_workers_that_would_leave_one_always_listens() {
    three_would_leave(Server::come);
}

#[test]
fn of_a_full_and_a_free_worker_one_sees_the_other() {
    one_fills_up_while_another_becomes_free();
}

#[test]
fn a_worker_notified_while_it_syncs_notices_it_then_or_later() {
    one_is_notified_while_it_syncs(|view| view.notified);
}

#[test]
fn when_the_leader_dies_another_stays_or_is_notified() {
    one_dies_while_another_leaves(false);
}

#[test]
fn when_a_worker_dies_before_it_leads_the_old_leader_stays() {
    one_dies_while_another_leaves(true);
}

#[test]
#[should_panic(expected = "Causality violation")]
fn mutant_sync_does_not_acquire_the_leader() {
    plant(Fault::NoAcquire);
    a_registration_comes_before_the_leaving_that_it_allows();
}

#[test]
#[should_panic(expected = "Causality violation")]
fn mutant_lead_does_not_release() {
    plant(Fault::NoRelease);
    a_registration_comes_before_the_leaving_that_it_allows();
}

#[test]
#[should_panic(expected = "Causality violation")]
fn mutant_answering_does_not_acquire() {
    plant(Fault::NoAcquire);
    one_is_notified_while_it_syncs(|view| view.notified);
}

#[test]
#[should_panic(expected = "Causality violation")]
fn mutant_notify_does_not_release() {
    plant(Fault::NoRelease);
    one_is_notified_while_it_syncs(|view| view.notified);
}

#[test]
#[should_panic(expected = "a notification is answered unnoticed")]
fn mutant_sync_does_not_report_what_it_answers() {
    one_is_notified_while_it_syncs(|_| false);
}

#[test]
#[should_panic(expected = "a free place is left unserved")]
fn mutant_sync_has_no_fence() {
    plant(Fault::NoFence);
    one_fills_up_while_another_becomes_free();
}

#[test]
#[should_panic(expected = "no worker listens")]
fn mutant_a_worker_leads_before_it_registers() {
    three_would_leave(|server, me| {
        server.members[me].lead();
        server.register(me);
    });
}
