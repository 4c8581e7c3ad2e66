//! The loops of two workers under `LeastLoaded`, with a real listener, in one thread. Their clock
//! is manual, and a turn (iteration) takes 100 µs by that clock. With a real clock, turns could
//! last so long on a busy machine that a worker counts as late and leaves clients to the other one.

use std::{
    net::{SocketAddr, TcpStream},
    os::fd::AsFd,
    time::Duration,
};

use evcore::{
    Builder, Error, EventLoop, Interest, Listener, Mode, Step, Stream, TokenMap,
    balancer::{GroupMember, Policy, WorkerGroup, WorkerId},
    clock::{Clock, ManualTimeSource},
    poller::BackendKind,
};

struct Worker {
    ev: EventLoop,
    clients: TokenMap<Stream>,
    time: ManualTimeSource,
}

impl Worker {
    fn turn(&mut self) {
        self.ev.wait_at_most(Duration::ZERO).unwrap();
        while let Some(step) = self.ev.next_step() {
            if let Step::Accepted(new) = step {
                let (ev, mode) = (&mut self.ev, Mode::Edge);
                let added = self.clients.add(ev, new.stream, Interest::READ, mode);
                added.unwrap();
            }
        }
        self.time.advance(Duration::from_micros(100));
    }
}

fn two_workers(kind: BackendKind, connections: u32) -> ([Worker; 2], SocketAddr) {
    let listener = Listener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().tcp().unwrap();
    let group = WorkerGroup::new(Policy::least_loaded(), 2).unwrap();
    let members = [0, 1].map(|slot| group.join(WorkerId::from_slot(slot)));
    let time = ManualTimeSource::new();
    let workers = members.map(|member| {
        let same = listener.as_fd().try_clone_to_owned().unwrap();
        let ev = EventLoop::builder()
            .listener(Listener::from_fd(same).unwrap())
            .clock(Clock::with_source(time.clone()))
            .group(member)
            .poller(kind)
            .connections(connections)
            .build()
            .unwrap();
        Worker {
            ev,
            clients: TokenMap::new(),
            time: time.clone(),
        }
    });
    (workers, address)
}

#[test]
fn clients_are_spread_evenly_on_every_backend() {
    for kind in &BackendKind::usable() {
        let (mut workers, address) = two_workers(*kind, 1000);
        let mut clients = Vec::new();
        for number in 1..=100 {
            clients.push(TcpStream::connect(address).unwrap());
            while workers.iter().map(|w| w.clients.len()).sum::<usize>() < number {
                workers.iter_mut().for_each(Worker::turn);
            }
        }
        let [a, b] = workers.each_ref().map(|w| w.clients.len());
        assert!(a.abs_diff(b) <= 12, "{kind}: {a} and {b}");
        let stats = workers.iter().map(|w| w.ev.stats());
        let notifications: u64 = stats.map(|stats| stats.notifications).sum();
        let few = 1..=50;
        assert!(few.contains(&notifications), "{kind}: {notifications}");
    }
}

#[test]
fn all_slots_are_filled_and_the_first_freed_slot_too() {
    for kind in &BackendKind::usable() {
        let (mut workers, address) = two_workers(*kind, 5);
        let mut clients: Vec<_> = (0..11)
            .map(|_| TcpStream::connect(address).unwrap())
            .collect();
        while workers.iter().any(|w| w.clients.len() < 5) {
            workers.iter_mut().for_each(Worker::turn);
        }
        workers.iter_mut().for_each(Worker::turn);
        assert!(workers.iter().all(|w| !w.ev.stats().listening), "{kind}");

        // The eleventh client waits until one of the others leaves.
        let Worker {
            ev,
            clients: served,
            ..
        } = &mut workers[1];
        let (token, _) = served.iter().next().unwrap();
        assert!(served.close(ev, token));
        while workers[1].clients.len() < 5 {
            workers.iter_mut().for_each(Worker::turn);
        }
        clients.clear();
    }
}

#[test]
fn a_client_of_a_worker_that_shuts_down_is_found_by_another() {
    if !BackendKind::available().contains(&BackendKind::Epoll) {
        evcore_testing::not_run("only epoll has both exclusive wake-ups and edges");
        return;
    }
    let ([mut leaves, mut stays], address) = two_workers(BackendKind::Epoll, 1000);
    let mut clients = Vec::new();
    for number in 1..=10 {
        clients.push(TcpStream::connect(address).unwrap());
        while stays.clients.len() < number {
            stays.turn();
        }
    }
    leaves.turn();
    stays.turn();
    assert!(leaves.ev.stats().listening && !stays.ev.stats().listening);

    clients.push(TcpStream::connect(address).unwrap());
    leaves.ev.wait().unwrap();
    leaves.ev.shutdown(Duration::ZERO);
    // The notification ends the first wait of `stays`, which listens from its second turn on.
    stays.turn();
    stays.turn();
    assert_eq!(stays.clients.len(), 11);
}

/// Returns whether a worker with these settings listens in its first turn. (Another worker has the
/// lock.)
fn listens_without_the_lock(builder: Builder) -> bool {
    let mut ev = builder.build().unwrap();
    ev.handle().wake();
    ev.wait().unwrap();
    ev.stats().listening
}

#[test]
fn a_loop_without_a_policy_follows_that_of_its_group() {
    let [me, other] = [0, 1].map(WorkerId::from_slot);
    let builder = || {
        let listener = Listener::bind("127.0.0.1:0").unwrap();
        EventLoop::builder().listener(listener)
    };
    let group = WorkerGroup::new(Policy::mutex(), 2).unwrap();
    let owner = group.join(other);
    assert!(owner.try_lock());
    assert!(!listens_without_the_lock(builder().group(group.join(me))));
    let handle = || group.mutex().lock_handle(me);
    assert!(!listens_without_the_lock(builder().group(handle())));
    let off = builder().group(handle()).policy(Policy::Off);
    assert!(listens_without_the_lock(off));
    assert!(listens_without_the_lock(builder()));
}

#[test]
fn least_loaded_needs_a_group_that_was_made_for_it() {
    let policy = Policy::least_loaded();
    let built = EventLoop::builder().policy(policy).build();
    assert!(matches!(built, Err(Error::NoGroup { .. })));

    let me = WorkerId::from_slot(0);
    let group = WorkerGroup::new(Policy::Off, 2).unwrap();
    let of_another = EventLoop::builder().policy(policy).group(group.join(me));
    let error = of_another.build().unwrap_err();
    assert!(error.to_string().contains("make a WorkerGroup for it"));

    let just_a_lock = group.mutex().lock_handle(me);
    let with_a_lock = EventLoop::builder().policy(policy).group(just_a_lock);
    assert!(matches!(with_a_lock.build(), Err(Error::NoGroup { .. })));
}
