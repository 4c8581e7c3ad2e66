//! Many workers: who gets the clients, and what becomes of those who are stopped or killed.

use std::{cell::RefCell, rc::Rc, time::Duration};

use evcore::{
    Interest, Mode,
    poller::{Events, Poller},
};
use evcore_sim::{Conditions, Ending, Process, Script, SimGroup, Workers, World};

use crate::echo::{Counts, Echo, address};

const MS: Duration = Duration::from_millis(1);

fn ask() -> Script {
    Script::new().send("hello").hear(5)
}

/// Workers that share an accept lock, and what has the lock.
fn with_lock(world: &World, count: usize) -> (Workers<Echo>, SimGroup, Rc<RefCell<Counts>>) {
    let (counts, group) = (Rc::<RefCell<Counts>>::default(), world.group(count));
    let (shared, its_group) = (Rc::clone(&counts), group.clone());
    let begin =
        move |process: &Process, index| Echo::with_lock(process, index, &its_group, &shared);
    (Workers::new(world, count, begin), group, counts)
}

#[test]
fn the_holder_of_the_lock_keeps_it_while_it_waits() {
    let world = World::new(7);
    let (mut workers, group, _) = with_lock(&world, 3);
    workers.run_for(MS * 100);
    let holder = group.lock_owner().expect("a worker waits with it");
    let listening = workers.apps().filter(|(_, app)| app.ev.status().listening);
    let listening: Vec<_> = listening.map(|(index, _)| index).collect();
    assert_eq!(listening, [holder.slot()]);
}

#[test]
fn a_lock_of_a_dead_worker_is_free_once_the_parent_has_noticed() {
    let world = World::new(7);
    world.set_conditions(Conditions {
        reap: MS * 50..=MS * 50,
        ..Conditions::default()
    });
    let (mut workers, group, counts) = with_lock(&world, 2);
    let deaths = Rc::<RefCell<Vec<usize>>>::default();
    let told = Rc::clone(&deaths);
    workers.on_death(move |index| told.borrow_mut().push(index));
    workers.run_for(MS * 10);
    let holder = group.lock_owner().expect("a worker waits with it");
    let index = holder.slot();
    let process = workers.process(index).id();

    workers.kill(index);
    assert!(workers.app(index).is_none());
    workers.run_for(MS * 49);
    assert_eq!(group.lock_owner(), Some(holder), "nobody has noticed yet");
    workers.run_for(MS * 2);
    let holder = group.lock_owner().expect("a living worker has it").slot();
    assert!(
        workers
            .app(holder)
            .is_some_and(|app| app.ev.status().listening)
    );
    assert_eq!(*deaths.borrow(), [index]);
    assert_eq!(counts.borrow().begun, 3);
    assert_ne!(workers.process(index).id(), process);

    let client = world.client(address(), ask());
    assert!(workers.run_until(MS * 1_000, |_| client.is_done()));
    assert_eq!(client.ending(), Some(Ending::Done));
}

#[test]
fn the_clients_of_a_dead_worker_hear_of_it_from_the_kernel() {
    let world = World::new(7);
    let (mut workers, _, _) = with_lock(&world, 1);
    let quiet = world.client(address(), ask().hear(1));
    let busy = world.client(address(), Script::new().pause(MS * 20).send("x").hear(2));
    workers.run_for(MS * 10);
    workers.stop(0, MS * 30);
    workers.run_for(MS * 15);
    workers.kill(0);
    workers.run_for(MS * 5);
    assert_eq!(quiet.ending(), Some(Ending::CutShort), "nothing was unread");
    assert_eq!(busy.ending(), Some(Ending::Reset), "a byte was");
}

#[test]
fn whom_a_worker_leaves_behind_at_its_end_hears_of_it_from_the_kernel() {
    let world = World::new(7);
    let (mut workers, group, counts) = with_lock(&world, 1);
    let quiet = world.client(address(), ask().hear(1));
    workers.run_for(MS * 10);
    workers.app_mut(0).unwrap().ev.shutdown(MS * 100);
    assert!(workers.run_until(MS * 200, Workers::are_done));
    assert_eq!(
        workers.app(0).unwrap().ev.status().active,
        1,
        "its time was over"
    );
    workers.kill(0);
    workers.run_for(MS * 100);
    assert_eq!(quiet.ending(), Some(Ending::CutShort));
    assert!(workers.are_done() && workers.app(0).is_some());
    assert_eq!((group.lock_owner(), counts.borrow().begun), (None, 1));
}

#[test]
fn a_stopped_worker_does_nothing_and_loses_nothing() {
    let world = World::new(7);
    let (mut workers, group, _) = with_lock(&world, 1);
    workers.run_for(MS * 10);
    workers.stop(0, MS * 300);
    let holder = group.lock_owner();
    let client = world.client(address(), ask());
    assert!(!workers.run_until(MS * 290, |_| client.is_done()));
    assert_eq!(group.lock_owner(), holder, "it has it still");
    assert!(workers.run_until(MS * 20, |_| client.is_done()));
    assert_eq!(client.ending(), Some(Ending::Done));
}

#[test]
fn a_worker_at_work_keeps_only_its_own_clients_waiting() {
    let world = World::new(7);
    world.set_conditions(Conditions {
        step: MS * 10..=MS * 10,
        ..Conditions::default()
    });
    let counts = Rc::<RefCell<Counts>>::default();
    let begin = move |process: &Process, _| Echo::new(process, &counts);
    let mut workers = Workers::new(&world, 4, begin);
    let clients: Vec<_> = (0..40).map(|_| world.client(address(), ask())).collect();
    let all_are_done = |_: &_| clients.iter().all(evcore_sim::Scripted::is_done);
    assert!(workers.run_until(MS * 10_000, all_are_done));
    // 40 clients of at least two steps each: 800 ms for one, a quarter for each of four.
    assert!(world.now() < MS * 600, "{:?}", world.now());
}

#[test]
fn a_wake_from_one_worker_ends_the_sleep_of_another() {
    let world = World::new(7);
    let counts = Rc::<RefCell<Counts>>::default();
    let shared = Rc::clone(&counts);
    let begin = move |process: &Process, _| Echo::new(process, &shared);
    let mut workers = Workers::new(&world, 2, begin);
    workers.run_for(MS);
    let (handle, before) = (workers.app(1).unwrap().ev.handle(), counts.borrow().turns);
    handle.wake();
    workers.run_for(MS);
    assert_eq!(counts.borrow().turns, before + 1);
}

#[test]
fn a_listener_of_ones_own_goes_with_its_process() {
    let world = World::new(7);
    let (one, two) = (world.process(), world.process());
    let (first, second) = (one.listen_alone(address()), two.listen_alone(address()));
    let clients: Vec<_> = (0..20).map(|_| world.connect(address()).unwrap()).collect();
    world.run_for(MS);
    drop(first);
    world.run_for(MS);
    let was_reset = |client: &&evcore_sim::SimStream| {
        client
            .recv(&mut [0])
            .is_err_and(|error| error.kind() == std::io::ErrorKind::ConnectionReset)
    };
    let lost = clients.iter().filter(was_reset).count();
    assert_eq!(lost + world.waiting(address()), 20);
    assert!(lost > 0 && lost < 20, "{lost} by chance");
    drop(second);
    assert!(world.connect(address()).is_err());
}

/// As Linux: the first who sleeps is woken, and only if he does not come, another.
#[test]
fn of_exclusive_watchers_one_is_woken() {
    let world = World::new(7);
    let processes: Vec<_> = (0..3).map(|_| world.process()).collect();
    let listeners: Vec<_> = processes
        .iter()
        .map(|process| process.listen(address()))
        .collect();
    let mut pollers: Vec<_> = processes
        .iter()
        .map(|process| Poller::from(process.backend()))
        .collect();
    for (poller, listener) in pollers.iter_mut().zip(&listeners) {
        poller
            .add_exclusive(listener, 0, Interest::READ, Mode::Level)
            .unwrap();
    }
    let _client = world.connect(address()).unwrap();
    // Nobody slept, so all will find it.
    let mut events = Events::with_capacity(4);
    for poller in &mut pollers {
        assert_eq!(poller.wait(&mut events, Some(Duration::ZERO)).unwrap(), 1);
    }
}

#[test]
fn of_workers_who_watch_exclusively_one_wakes_for_a_client() {
    for (exclusive, woken) in [(true, 1), (false, 4)] {
        let world = World::new(7);
        let processes: Vec<_> = (0..4).map(|_| world.process()).collect();
        assert_eq!(woken_by_one_client(&world, &processes, exclusive), woken);
    }
}

/// How many of sleeping pollers a client wakes.
fn woken_by_one_client(world: &World, processes: &[Process], exclusive: bool) -> usize {
    let listeners: Vec<_> = processes
        .iter()
        .map(|process| process.listen(address()))
        .collect();
    let mut pollers: Vec<_> = processes
        .iter()
        .map(|process| Poller::from(process.backend()))
        .collect();
    for (poller, listener) in pollers.iter_mut().zip(&listeners) {
        if exclusive {
            poller
                .add_exclusive(listener, 0, Interest::READ, Mode::Edge)
                .unwrap();
        } else {
            poller.add(listener, 0, Interest::READ, Mode::Edge).unwrap();
        }
    }
    let mut events = Events::with_capacity(4);
    for poller in &mut pollers {
        assert_eq!(poller.wait(&mut events, Some(Duration::ZERO)).unwrap(), 0);
    }
    // The first sleeps, and is woken; where it was woken alone, nobody else has heard of it.
    world.client(address(), Script::new());
    let mut woken = 0;
    for poller in &mut pollers {
        woken += poller.wait(&mut events, Some(MS)).unwrap();
    }
    woken
}

/// As in `epoll_wait`: what somebody else has taken is no reason to return.
#[test]
fn who_was_woken_for_nothing_sleeps_on() {
    let turns = |count| {
        let (world, counts) = (World::new(7), Rc::<RefCell<Counts>>::default());
        let shared = Rc::clone(&counts);
        let begin = move |process: &Process, _| Echo::new(process, &shared);
        let mut workers = Workers::new(&world, count, begin);
        let client = world.client(address(), ask());
        assert!(workers.run_until(MS * 100, |_| client.is_done()));
        let counts = counts.borrow();
        assert_eq!(counts.accepted, 1);
        counts.turns
    };
    assert_eq!(turns(4), turns(1));
}
