//! Clients that are shed by the reserve descriptor, because there is no other.
//!
//! The limit belongs to the whole process, so these tests are alone in their own, and one at a
//! time.

#![cfg(target_os = "linux")] // the others may check the limit at another moment of accept

use std::{
    fs::File,
    io::{self, Read},
    net::TcpStream,
    sync::Mutex,
    time::Duration,
};

use evcore::{
    Address, EventLoop, Interest, Listener, Mode, Step, Token,
    balancer::{Leader, Load, Member, Policy, WorkerGroup, WorkerId},
    clock::{Clock, ManualTimeSource},
};
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

/// Held by the test that counts on the descriptors of this process.
static DESCRIPTORS: Mutex<()> = Mutex::new(());

/// As many as these tests ever need.
const FEW: u64 = 128;

/// From now on no descriptor of this number or above is opened.
fn limit_descriptors(current: u64) {
    let limit = Rlimit {
        current: Some(current),
        ..getrlimit(Resource::Nofile)
    };
    setrlimit(Resource::Nofile, limit).unwrap();
}

fn open_descriptors() -> usize {
    std::fs::read_dir("/proc/self/fd").unwrap().count()
}

/// Takes every descriptor that there is, under a limit that is soon reached.
fn take_all_descriptors() -> Vec<File> {
    limit_descriptors(FEW);
    let files: Vec<_> = std::iter::from_fn(|| File::open("/dev/null").ok()).collect();
    assert!(!files.is_empty());
    files
}

/// A turn that a wake-up ends, if nothing else does; returns the clients.
fn accepted(ev: &mut EventLoop) -> Vec<evcore::Accepted> {
    ev.handle().wake();
    ev.wait().unwrap();
    let steps = std::iter::from_fn(|| ev.next_step());
    steps
        .filter_map(|step| match step {
            Step::Accepted(new) => Some(new),
            _ => None,
        })
        .collect()
}

/// How many clients have been closed by the server.
fn closed_clients(clients: &mut [TcpStream]) -> usize {
    let ended = |client: &mut TcpStream| match client.read(&mut [0]) {
        Ok(n) => n == 0,
        Err(error) => error.kind() != io::ErrorKind::WouldBlock,
    };
    clients
        .iter_mut()
        .filter_map(|client| ended(client).then_some(()))
        .count()
}

/// Watches a descriptor without an interest. Closing its token ends a pause of the listeners.
fn watch(ev: &mut EventLoop, stream: &TcpStream) -> Token {
    ev.add(stream, Interest::NONE, Mode::Level).unwrap()
}

#[test]
fn one_client_a_pause_is_shed_and_the_others_wait() {
    let _alone = DESCRIPTORS.lock().unwrap();
    let time = ManualTimeSource::new();
    let listener = Listener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().clone();
    let mut ev = EventLoop::builder()
        .listener(listener)
        .clock(Clock::with_source(time.clone()))
        .build()
        .unwrap();
    let mut clients = [(); 5].map(|()| TcpStream::connect(&address).unwrap());
    for client in &clients {
        client.set_nonblocking(true).unwrap();
    }
    let [spare, last] = [0, 1].map(|client| watch(&mut ev, &clients[client]));
    let mut files = take_all_descriptors();

    assert_eq!(accepted(&mut ev).len(), 0);
    assert_eq!((closed_clients(&mut clients), ev.stats().shed), (1, 1));
    assert!(
        File::open("/dev/null").is_err(),
        "the reserve is held again"
    );

    // One descriptor is free: one client is served, and no other is shed for it.
    files.pop();
    assert!(ev.close(spare));
    let served = accepted(&mut ev);
    assert_eq!(served.len(), 1);
    assert_eq!((closed_clients(&mut clients), ev.stats().shed), (1, 1));
    assert_eq!(ev.stats().accept_pauses, 2);

    // Half a second later it is the next one's turn, and not earlier.
    time.advance(Duration::from_millis(499));
    assert_eq!(accepted(&mut ev).len() + accepted(&mut ev).len(), 0);
    assert_eq!(closed_clients(&mut clients), 1);
    time.advance(Duration::from_millis(1));
    assert_eq!(accepted(&mut ev).len() + accepted(&mut ev).len(), 0);
    assert_eq!((closed_clients(&mut clients), ev.stats().shed), (2, 2));

    // In the end every waiting client is served, and the listener is drained.
    files.clear();
    assert!(ev.close(last));
    assert_eq!(accepted(&mut ev).len(), 2);
    assert_eq!(ev.stats().accepted, 3);
    drop(served);
}

/// A worker in a group, its listener's address, and another member.
fn grouped(policy: Policy, time: &ManualTimeSource) -> (EventLoop, Address, Member) {
    let listener = Listener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().clone();
    let group = WorkerGroup::new(policy, 2).unwrap();
    let ev = EventLoop::builder()
        .listener(listener)
        .group(group.join(WorkerId::from_slot(0)))
        .clock(Clock::with_source(time.clone()))
        .build()
        .unwrap();
    (ev, address, group.join(WorkerId::from_slot(1)))
}

#[test]
fn another_worker_with_a_free_slot_is_notified_before_shedding() {
    let _alone = DESCRIPTORS.lock().unwrap();
    let load = |active| Load {
        active,
        capacity: 10,
    };
    for policy in [Policy::least_loaded(), Policy::mutex()] {
        let time = ManualTimeSource::new();
        let (mut ev, address, other) = grouped(policy, &time);
        let mut clients = [TcpStream::connect(&address).unwrap()];
        clients[0].set_nonblocking(true).unwrap();
        let _files = take_all_descriptors();

        let _ = other.sync(load(3));
        assert_eq!(accepted(&mut ev).len(), 0);
        assert_eq!(accepted(&mut ev).len(), 0, "the plan of this turn notifies");
        assert!(other.is_notified() && !ev.status().listening, "{policy:?}");
        assert_eq!((closed_clients(&mut clients), ev.stats().shed), (0, 0));

        // The other worker has come and is full: after the pause there is none to notify.
        let least_loaded = other.sync(load(10)).least_loaded;
        assert_eq!(least_loaded, None, "no place there either");
        time.advance(Duration::from_millis(500));
        assert_eq!(accepted(&mut ev).len() + accepted(&mut ev).len(), 0);
        assert!(!other.is_notified());
        assert_eq!((closed_clients(&mut clients), ev.stats().shed), (1, 1));
    }
}

#[test]
fn a_notification_while_descriptors_run_out_is_followed_later() {
    let _alone = DESCRIPTORS.lock().unwrap();
    let (mut ev, address, other) = grouped(Policy::least_loaded(), &ManualTimeSource::new());
    let _client = TcpStream::connect(&address).unwrap();
    assert_eq!(accepted(&mut ev).len(), 1);
    let none = Load::default();
    assert_eq!(other.sync(none).leader, Leader::Other);

    let second = TcpStream::connect(&address).unwrap();
    let spare = watch(&mut ev, &second);
    let timeout = ev.prepare().unwrap();
    other.lead();
    other.notify(WorkerId::from_slot(0));
    let files = take_all_descriptors();
    ev.poll(timeout).unwrap();
    while ev.next_step().is_some() {}
    assert_eq!(ev.stats().accept_pauses, 1);
    drop(files);
    assert!(ev.close(spare));
    accepted(&mut ev);
    let leader = other.sync(none).leader;
    assert_eq!(leader, Leader::Other, "it has registered again");
}

#[test]
fn a_lost_reserve_is_acquired_again_after_the_last_accept() {
    let _alone = DESCRIPTORS.lock().unwrap();
    let listener = Listener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().clone();
    let mut ev = EventLoop::builder().listener(listener).build().unwrap();
    let client = TcpStream::connect(&address).unwrap();
    let spare = watch(&mut ev, &client);
    let before = open_descriptors();

    // Not even the reserve's own number can be had.
    limit_descriptors(0);
    assert_eq!(accepted(&mut ev).len(), 0);
    limit_descriptors(FEW);
    assert_eq!(open_descriptors(), before - 1, "the reserve is lost");

    assert!(ev.close(spare));
    let served = accepted(&mut ev);
    assert_eq!((served.len(), ev.stats().shed), (1, 0));
    assert_eq!(
        open_descriptors(),
        before + 1,
        "the connection, and the reserve again"
    );
}

#[test]
fn a_loop_without_listeners_sets_nothing_aside() {
    let _alone = DESCRIPTORS.lock().unwrap();
    let open = open_descriptors;
    let before = open();
    let ev = EventLoop::builder().build().unwrap();
    let bare = open() - before;
    drop(ev);
    let listener = Listener::bind("127.0.0.1:0").unwrap();
    let mut ev = EventLoop::builder().listener(listener).build().unwrap();
    assert_eq!(open() - before, bare + 2, "the listener, and the reserve");
    ev.close_listeners().unwrap();
    assert_eq!(open() - before, bare, "neither is needed any more");
}
