//! Many workers: accepting, pauses, kills and wake-ups.

use std::{cell::RefCell, rc::Rc, time::Duration};

use evcore::{
    EventLoop, Interest, Mode, Step,
    balancer::Policy,
    poller::{Events, Poller},
};
use evcore_sim::{
    App, ClientOutcome, Fault, Faults, Probability, Process, Script, Sim, SimConfig, SimGroup,
    SimListener, SimStream, Workers,
};

use crate::{
    echo_server::{Counts, Echo, address},
    native,
};

const MS: Duration = Duration::from_millis(1);

fn hello() -> Script {
    Script::new().send("hello").recv(5)
}

fn with_lock(sim: &Sim, count: usize) -> (Workers<Echo>, SimGroup, Rc<RefCell<Counts>>) {
    let counts = Rc::<RefCell<Counts>>::default();
    let group = sim.group(Policy::mutex(), count);
    let (shared, its_group) = (Rc::clone(&counts), group.clone());
    let begin =
        move |process: &Process, index| Echo::with_lock(process, index, &its_group, &shared);
    (Workers::new(sim, count, begin), group, counts)
}

#[test]
fn a_worker_keeps_the_lock_while_it_waits() {
    let sim = Sim::new(7);
    let (mut workers, group, _) = with_lock(&sim, 3);
    workers.run_for(MS * 100);
    let holder = group.lock_owner().expect("a worker waits with it");
    let listening = workers.apps().filter(|(_, app)| app.ev.stats().listening);
    let listening: Vec<_> = listening.map(|(index, _)| index).collect();
    assert_eq!(listening, [holder.slot()]);
}

#[test]
fn the_lock_of_a_dead_worker_is_released_by_its_parent() {
    let sim = Sim::new(7);
    sim.set_config(SimConfig {
        reap_delay: MS * 50..=MS * 50,
        ..SimConfig::default()
    });
    let (mut workers, group, counts) = with_lock(&sim, 2);
    let deaths = Rc::<RefCell<Vec<usize>>>::default();
    let recorded = Rc::clone(&deaths);
    workers.on_death(move |index| recorded.borrow_mut().push(index));
    workers.run_for(MS * 10);
    let holder = group.lock_owner().expect("a worker waits with it");
    let index = holder.slot();
    let process = workers.process(index).id();

    workers.kill(index);
    assert!(workers.app(index).is_none());
    workers.run_for(MS * 49);
    assert_eq!(
        group.lock_owner(),
        Some(holder),
        "the parent has not noticed yet"
    );
    workers.run_for(MS * 2);
    let holder = group.lock_owner().expect("a living worker has it").slot();
    assert!(
        workers
            .app(holder)
            .is_some_and(|app| app.ev.stats().listening)
    );
    assert_eq!(*deaths.borrow(), [index]);
    assert_eq!(counts.borrow().started, 3);
    assert_ne!(workers.process(index).id(), process);

    let client = sim.client(address(), hello());
    assert!(workers.run_until(MS * 1_000, |_| client.is_done()));
    assert_eq!(client.outcome(), Some(ClientOutcome::Completed));
}

#[test]
fn killing_a_worker_closes_its_connections() {
    let sim = Sim::new(7);
    let (mut workers, _, _) = with_lock(&sim, 1);
    let quiet = sim.client(address(), hello().recv(1));
    let busy = sim.client(address(), Script::new().pause(MS * 20).send("x").recv(2));
    workers.run_for(MS * 10);
    workers.pause(0, MS * 30);
    workers.run_for(MS * 15);
    workers.kill(0);
    workers.run_for(MS * 5);
    assert_eq!(
        quiet.outcome(),
        Some(ClientOutcome::ClosedEarly),
        "nothing was unread"
    );
    assert_eq!(
        busy.outcome(),
        Some(ClientOutcome::Reset),
        "a byte was unread"
    );
}

#[test]
fn a_worker_that_exits_closes_its_connections() {
    let sim = Sim::new(7);
    let (mut workers, group, counts) = with_lock(&sim, 1);
    let quiet = sim.client(address(), hello().recv(1));
    workers.run_for(MS * 10);
    workers.app_mut(0).unwrap().ev.shutdown(MS * 100);
    assert!(workers.run_until(MS * 200, Workers::all_done));
    assert_eq!(
        workers.app(0).unwrap().ev.stats().active,
        1,
        "the shutdown timed out"
    );
    workers.kill(0);
    workers.run_for(MS * 100);
    assert_eq!(quiet.outcome(), Some(ClientOutcome::ClosedEarly));
    assert!(workers.all_done() && workers.app(0).is_some());
    assert_eq!((group.lock_owner(), counts.borrow().started), (None, 1));
}

#[test]
fn a_paused_worker_does_nothing_and_loses_nothing() {
    let sim = Sim::new(7);
    let (mut workers, group, _) = with_lock(&sim, 1);
    workers.run_for(MS * 10);
    workers.pause(0, MS * 300);
    let holder = group.lock_owner();
    let client = sim.client(address(), hello());
    assert!(!workers.run_until(MS * 290, |_| client.is_done()));
    assert_eq!(group.lock_owner(), holder, "the paused worker keeps it");
    assert!(workers.run_until(MS * 20, |_| client.is_done()));
    assert_eq!(client.outcome(), Some(ClientOutcome::Completed));
}

#[test]
fn busy_workers_serve_clients_in_parallel() {
    let sim = Sim::new(7);
    sim.set_config(SimConfig {
        step_time: MS * 10..=MS * 10,
        ..SimConfig::default()
    });
    let counts = Rc::<RefCell<Counts>>::default();
    let begin = move |process: &Process, _| Echo::new(process, &counts);
    let mut workers = Workers::new(&sim, 4, begin);
    let clients: Vec<_> = (0..40).map(|_| sim.client(address(), hello())).collect();
    let all_done = |_: &_| clients.iter().all(evcore_sim::ScriptHandle::is_done);
    assert!(workers.run_until(MS * 10_000, all_done));
    // The 40 clients cause at least two steps each. One worker would need 800 ms for them.
    assert!(sim.now() < MS * 600, "{:?}", sim.now());
}

#[test]
fn a_handle_ends_the_wait_of_its_worker() {
    let sim = Sim::new(7);
    let counts = Rc::<RefCell<Counts>>::default();
    let shared = Rc::clone(&counts);
    let begin = move |process: &Process, _| Echo::new(process, &shared);
    let mut workers = Workers::new(&sim, 2, begin);
    workers.run_for(MS);
    let (handle, before) = (workers.app(1).unwrap().ev.handle(), counts.borrow().turns);
    handle.wake();
    workers.run_for(MS);
    assert_eq!(counts.borrow().turns, before + 1);
}

#[test]
fn a_reuseport_listener_resets_its_backlog_when_it_closes() {
    let sim = Sim::new(7);
    let (one, two) = (sim.process(), sim.process());
    let (first, second) = (
        one.listen_reuseport(address()),
        two.listen_reuseport(address()),
    );
    let clients: Vec<_> = (0..20).map(|_| sim.connect(address()).unwrap()).collect();
    sim.run_for(MS);
    drop(first);
    sim.run_for(MS);
    let was_reset = |client: &&evcore_sim::SimStream| {
        client
            .recv(&mut [0])
            .is_err_and(|error| error.kind() == std::io::ErrorKind::ConnectionReset)
    };
    let lost = clients.iter().filter(was_reset).count();
    assert_eq!(lost + sim.backlog_len(address()), 20);
    assert!(lost > 0 && lost < 20, "{lost} by chance");
    drop(second);
    assert!(sim.connect(address()).is_err());
}

#[test]
fn exclusive_pollers_that_do_not_sleep_all_report() {
    let sim = Sim::new(7);
    let processes: Vec<_> = (0..3).map(|_| sim.process()).collect();
    let listeners: Vec<_> = processes
        .iter()
        .map(|process| process.listen(address()))
        .collect();
    let mut pollers: Vec<_> = processes.iter().map(exclusive_poller).collect();
    for (poller, listener) in pollers.iter_mut().zip(&listeners) {
        poller
            .add(listener, 0, Interest::READ, Mode::Exclusive)
            .unwrap();
    }
    let _client = sim.connect(address()).unwrap();
    // None of the pollers slept, so all report the client.
    let mut events = Events::bounded(4);
    for poller in &mut pollers {
        assert_eq!(poller.wait(&mut events, Some(Duration::ZERO)).unwrap(), 1);
    }
}

#[test]
fn one_of_several_exclusive_pollers_reports_a_client() {
    for (exclusive, woken) in [(true, 1), (false, 4)] {
        let sim = Sim::new(7);
        let processes: Vec<_> = (0..4).map(|_| sim.process()).collect();
        assert_eq!(woken_by_one_client(&sim, &processes, exclusive), woken);
    }
}

fn exclusive_poller(process: &Process) -> Poller {
    Poller::from(process.backend_with(native()))
}

fn woken_by_one_client(sim: &Sim, processes: &[Process], exclusive: bool) -> usize {
    let listeners: Vec<_> = processes
        .iter()
        .map(|process| process.listen(address()))
        .collect();
    let mut pollers: Vec<_> = processes.iter().map(exclusive_poller).collect();
    for (poller, listener) in pollers.iter_mut().zip(&listeners) {
        let mode = match exclusive {
            true => Mode::ExclusiveEdge,
            false => Mode::Edge,
        };
        poller.add(listener, 0, Interest::READ, mode).unwrap();
    }
    let mut events = Events::bounded(4);
    for poller in &mut pollers {
        assert_eq!(poller.wait(&mut events, Some(Duration::ZERO)).unwrap(), 0);
    }
    // The first poller sleeps and is woken. If the registrations are exclusive, no other poller
    // reports the client.
    sim.client(address(), Script::new());
    let mut woken = 0;
    for poller in &mut pollers {
        woken += poller.wait(&mut events, Some(MS)).unwrap();
    }
    woken
}

/// An event that another worker has taken does not end a wait, as in `epoll_wait`.
#[test]
fn a_worker_woken_for_nothing_sleeps_on() {
    let turns = |count| {
        let (sim, counts) = (Sim::new(7), Rc::<RefCell<Counts>>::default());
        let shared = Rc::clone(&counts);
        let begin = move |process: &Process, _| Echo::new(process, &shared);
        let mut workers = Workers::new(&sim, count, begin);
        let client = sim.client(address(), hello());
        assert!(workers.run_until(MS * 100, |_| client.is_done()));
        let counts = counts.borrow();
        assert_eq!(counts.accepted, 1);
        counts.turns
    };
    assert_eq!(turns(4), turns(1));
}

/// A worker that receives from an accepted connection before it registers the connection. A fault
/// may kill the worker in that receive.
struct ReadsFirst {
    ev: EventLoop<SimListener>,
    accepted: Vec<SimStream>,
}

impl App for ReadsFirst {
    fn event_loop(&mut self) -> &mut EventLoop<SimListener> {
        &mut self.ev
    }

    fn on_step(&mut self, step: Step<SimStream>) {
        let Step::Accepted(new) = step else { return };
        let stream = new.stream;
        let _ = stream.recv(&mut [0; 8]);
        let added = self.ev.add(&stream, Interest::READ, Mode::Edge);
        added.expect("its descriptor is open");
        self.accepted.push(stream);
    }
}

#[test]
fn a_killed_worker_gets_no_error_for_its_closed_descriptors() {
    let sim = Sim::new(7);
    sim.set_faults(Faults::none().with(Fault::StreamKill, Probability::ALWAYS));
    let mut workers = Workers::new(&sim, 1, |process, _| {
        let builder = process.builder().listener(process.listen(address()));
        ReadsFirst {
            ev: builder.build().expect("a loop"),
            accepted: Vec::new(),
        }
    });
    let client = sim.client(address(), hello());
    assert!(workers.run_until(MS * 1_000, |_| client.is_done()));
    assert!(sim.fault_count(Fault::StreamKill) > 0);
}
