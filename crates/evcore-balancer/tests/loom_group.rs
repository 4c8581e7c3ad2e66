//! Every interleaving of workers that start and stop listening, fill up and die. The models include
//! the files that ship, and run them over loom's atomics.
//!
//! A registration with the kernel is modelled twice. The first model is a cell that is not atomic. A
//! worker writes it when it registers, and another worker reads it before it stops. loom fails if
//! the two are not ordered. The second model is a count of the registered workers: one that stops
//! must not be the last. Each mutant is a model over faulty atomics, or with a faulty worker, which
//! loom must reject.
//!
//! loom does not find a change of the orderings of `joined`, because it runs read-modify-writes only
//! in the order in which they were made. It also misses a race if the same thread has loaded the
//! same word before. For that reason `lead` is a plain store.

#![cfg(evcore_loom)]
#![allow(unsafe_code, reason = "the test shares a cell between threads")]

#[path = "../src/accept_mutex.rs"]
#[allow(dead_code, unreachable_pub, reason = "the crate uses and exports it")]
mod accept_mutex;
#[path = "../src/group.rs"]
#[allow(dead_code, unreachable_pub, reason = "the crate uses and exports it")]
mod group;
#[path = "../src/inputs.rs"]
#[allow(dead_code, unreachable_pub, reason = "the crate uses and exports it")]
mod inputs;
#[path = "loom/notify_fd.rs"]
mod notify_fd;
#[path = "loom/shared_memory.rs"]
mod shared_memory;
#[path = "loom/sync.rs"]
mod sync;
#[path = "../src/worker_id.rs"]
#[allow(dead_code, unreachable_pub, reason = "the crate uses and exports it")]
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
use sync::{Fault, inject};
use worker_id::WorkerId;

/// The group keeps it for its members, and the protocol does not use it.
#[derive(Clone, Copy, Debug)]
pub struct Policy;

/// A server of three workers.
struct Server {
    group: WorkerGroup,
    /// They leave the group at the end of a model, but not if the model fails.
    members: [ManuallyDrop<Member>; 3],
    /// How many workers are registered.
    registered: AtomicU32,
    registration: [UnsafeCell<()>; 3],
}

// SAFETY: this is the claim under test. loom panics before an access that contradicts it.
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
    /// A group whose members have published these loads. None of them is registered.
    fn new(loads: [Load; 3]) -> Arc<Self> {
        let notifiers = [NotifyFd, NotifyFd, NotifyFd];
        let group = WorkerGroup::with_notifiers(Policy, notifiers.into()).unwrap();
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

    /// Lets all workers leave the group, after all threads have ended.
    fn end(server: Arc<Self>) {
        let server = Arc::try_unwrap(server)
            .ok()
            .expect("all threads have ended");
        for member in server.members {
            drop(ManuallyDrop::into_inner(member));
        }
    }

    fn start(&self, me: usize) {
        self.register(me);
        self.members[me].lead();
    }

    fn register(&self, me: usize) {
        // loom only has to see the access.
        self.registration[me].with_mut(|_| ());
        self.registered.fetch_add(1, Relaxed);
    }

    /// Stops listening if another worker leads.
    fn stop(&self, me: usize) {
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

/// The leader wants to stop while another worker starts.
fn the_leader_stops_while_another_worker_starts() {
    loom::model(|| {
        let server = Server::new([load(9), load(0), FULL]);
        server.start(A);
        let other = spawn(&server, |server| server.start(B));
        if server.members[A].sync(load(9)).leader == Leader::Other {
            // B has written this when it registered.
            server.registration[B].with(|_| ());
        }
        other.join().unwrap();
        Server::end(server);
    });
}

/// One worker starts and would stop again, while the leader and another one would stop too.
///
/// The model has at most three preemptions, because all interleavings of three workers take hours.
fn three_would_stop(start: fn(&Server, usize)) {
    let mut model = loom::model::Builder::new();
    model.preemption_bound = Some(3);
    model.check(move || {
        let server = Server::new([load(9), load(9), load(9)]);
        server.register(C);
        server.start(A);
        let others = [
            spawn(&server, move |server| {
                start(server, B);
                server.stop(B);
            }),
            spawn(&server, |server| server.stop(C)),
        ];
        server.stop(A);
        for other in others {
            other.join().unwrap();
        }
        assert!(server.registered.load(Relaxed) > 0);
        Server::end(server);
    });
}

/// The leader fills up while a full worker gets room.
fn one_fills_up_while_another_gets_room() {
    loom::model(|| {
        let server = Server::new([load(0), FULL, FULL]);
        server.start(A);
        let other = spawn(&server, |server| {
            // Its load is so high that it starts only if it sees no other worker.
            let view = server.members[B].sync(load(50));
            view.leader == Leader::None || view.least_loaded.is_none()
        });
        fill_up(&server, A);
        let starts = other.join().unwrap();
        let notified = server.is_notified(B);
        assert!(starts || notified, "no worker with room listens");
        Server::end(server);
    });
}

/// A leader without room: it steps down, stops, and notifies another worker.
fn fill_up(server: &Server, me: usize) {
    let view = server.members[me].sync(FULL);
    assert_eq!(view.leader, Leader::Me);
    server.members[me].step_down();
    if let Some(peer) = view.least_loaded {
        server.members[me].notify(peer.id);
    }
}

/// A worker that stops has left a client waiting and notifies another one. The other one listens and
/// plans a turn meanwhile. It registers again if it notices the notification.
fn one_is_notified_while_it_syncs(notices: fn(GroupView) -> bool) {
    loom::model(move || {
        let server = Server::new([load(9), load(0), FULL]);
        let notifier = spawn(&server, |server| {
            // The cause of the notification.
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
        assert!(
            notices || later,
            "a notification is answered and not reported"
        );
        Server::end(server);
    });
}

/// The leader dies, or (`early`) a worker dies that has registered and not become leader yet. Its
/// parent releases it, while a worker that listens would stop, and another one does not listen.
fn one_dies_while_another_stops(early: bool) {
    loom::model(move || {
        let server = Server::new([load(0), load(0), load(9)]);
        server.register(C);
        if early {
            server.members[C].lead();
        }
        let dying = spawn(&server, move |server| {
            if !early {
                server.start(A);
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
        let notified = [B, C].iter().any(|&worker| server.is_notified(worker));
        assert!(listens || notified, "each waits for another one to listen");
        Server::end(server);
    });
}

#[test]
fn the_leader_stops_after_another_has_registered() {
    the_leader_stops_while_another_worker_starts();
}

#[test]
fn of_three_workers_that_would_stop_one_always_listens() {
    three_would_stop(Server::start);
}

#[test]
fn a_worker_that_fills_up_or_one_that_gets_room_sees_the_other() {
    one_fills_up_while_another_gets_room();
}

#[test]
fn a_notification_during_a_sync_is_reported_then_or_later() {
    one_is_notified_while_it_syncs(|view| view.notified);
}

#[test]
fn when_the_leader_dies_another_listens_or_is_notified() {
    one_dies_while_another_stops(false);
}

#[test]
fn when_a_worker_dies_before_it_leads_another_listens() {
    one_dies_while_another_stops(true);
}

#[test]
#[should_panic(expected = "Causality violation")]
fn mutant_sync_does_not_acquire_the_leader() {
    inject(Fault::NoAcquire);
    the_leader_stops_while_another_worker_starts();
}

#[test]
#[should_panic(expected = "Causality violation")]
fn mutant_lead_does_not_release() {
    inject(Fault::NoRelease);
    the_leader_stops_while_another_worker_starts();
}

#[test]
#[should_panic(expected = "Causality violation")]
fn mutant_answering_does_not_acquire() {
    inject(Fault::NoAcquire);
    one_is_notified_while_it_syncs(|view| view.notified);
}

#[test]
#[should_panic(expected = "Causality violation")]
fn mutant_notify_does_not_release() {
    inject(Fault::NoRelease);
    one_is_notified_while_it_syncs(|view| view.notified);
}

#[test]
#[should_panic(expected = "a notification is answered and not reported")]
fn mutant_sync_does_not_report_what_it_answers() {
    one_is_notified_while_it_syncs(|_| false);
}

#[test]
#[should_panic(expected = "no worker with room listens")]
fn mutant_sync_has_no_fence() {
    inject(Fault::NoFence);
    one_fills_up_while_another_gets_room();
}

#[test]
#[should_panic(expected = "no worker listens")]
fn mutant_a_worker_leads_before_it_registers() {
    three_would_stop(|server, me| {
        server.members[me].lead();
        server.register(me);
    });
}
