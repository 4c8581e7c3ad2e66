//! Clients: scripts, timers, backlog and descriptor limits.

use std::{
    io,
    rc::Rc,
    sync::{Arc, Mutex},
    time::Duration,
};

use evcore::{
    Acceptor,
    net::{Accept, Resource},
};
use evcore_sim::{Client, ClientCx, ClientEvent, ClientOutcome, Script, Sim, SimConfig, Workers};

use crate::echo_server::{Counts, Echo, IDLE, address};

const MS: Duration = Duration::from_millis(1);

fn echoing(sim: &Sim) -> (Workers<Echo>, Rc<std::cell::RefCell<Counts>>) {
    let counts = Rc::<std::cell::RefCell<Counts>>::default();
    let shared = Rc::clone(&counts);
    let workers = Workers::new(sim, 1, move |process, _| Echo::new(process, &shared));
    (workers, counts)
}

#[test]
fn a_script_runs_to_its_end() {
    let sim = Sim::new(7);
    let (mut workers, counts) = echoing(&sim);
    let script = Script::new()
        .send("one,")
        .recv_until(",")
        .pause(MS * 500)
        .send_slowly("two,", 1, MS * 10)
        .recv_until("o,")
        .shutdown_write()
        .recv_eof();
    let client = sim.client(address(), script);
    assert!(workers.run_until(Duration::from_secs(5), |_| client.is_done()));
    assert_eq!(client.received(), b"one,two,");
    assert_eq!(client.outcome(), Some(ClientOutcome::Completed));
    assert!(sim.now() >= MS * 540, "{:?}", sim.now());
    assert_eq!(counts.borrow().accepted, 1);
}

#[test]
fn an_idle_client_is_closed_at_the_timeout() {
    let sim = Sim::new(7);
    let (mut workers, counts) = echoing(&sim);
    let client = sim.client(address(), Script::new().recv_eof());
    assert!(workers.run_until(IDLE * 2, |_| client.is_done()));
    assert_eq!(counts.borrow().expired, 1);
    assert!(
        sim.now() >= IDLE && sim.now() < IDLE + MS * 5,
        "{:?}",
        sim.now()
    );
}

#[test]
fn a_client_that_does_not_read_blocks_no_other_client() {
    let sim = Sim::new(7);
    sim.set_config(SimConfig {
        socket_buffer: 1_000,
        ..SimConfig::default()
    });
    let (mut workers, _) = echoing(&sim);
    let stalled = Script::new()
        .stop_reading()
        .send(vec![b'x'; 10_000])
        .pause(IDLE / 2);
    let stalled = sim.client(address(), stalled.resume_reading().recv(10_000));
    let other = sim.client(address(), Script::new().pause(MS * 100).send("hi").recv(2));
    assert!(workers.run_until(Duration::from_secs(1), |_| other.is_done()));
    assert_eq!(other.outcome(), Some(ClientOutcome::Completed));
    workers.run_for(IDLE);
    // The client could not send everything, so it never resumed reading, and the server closed it.
    assert_ne!(stalled.outcome(), Some(ClientOutcome::Completed));
    assert!(stalled.received().is_empty());
}

#[test]
fn a_client_that_resumes_reading_in_time_gets_everything() {
    let sim = Sim::new(7);
    sim.set_config(SimConfig {
        socket_buffer: 4_000,
        ..SimConfig::default()
    });
    let (mut workers, _) = echoing(&sim);
    let script = Script::new()
        .stop_reading()
        .send(vec![b'x'; 6_000])
        .pause(IDLE / 2);
    let client = sim.client(address(), script.resume_reading().recv(6_000));
    assert!(workers.run_until(IDLE * 2, |_| client.is_done()));
    assert_eq!(client.outcome(), Some(ClientOutcome::Completed));
}

#[test]
fn a_reset_ends_the_connection_at_the_server() {
    let sim = Sim::new(7);
    let (mut workers, _) = echoing(&sim);
    let client = sim.client(address(), Script::new().send("hello").pause(MS * 5).reset());
    let active = |workers: &Workers<Echo>| workers.app(0).unwrap().ev.stats().active;
    assert!(workers.run_until(MS * 5, |workers| active(workers) == 1));
    assert!(workers.run_until(MS * 20, |workers| client.is_done() && active(workers) == 0));
}

#[test]
fn connecting_without_a_listener_is_refused() {
    let sim = Sim::new(7);
    let error = sim.connect(address()).unwrap_err();
    assert_eq!(error.kind(), io::ErrorKind::ConnectionRefused);
}

#[test]
fn beyond_the_backlog_clients_retry_and_give_up() {
    let sim = Sim::new(7);
    sim.set_config(SimConfig {
        backlog: 2,
        ..SimConfig::default()
    });
    let process = sim.process();
    let listener = process.listen(address());
    let clients: Vec<_> = (0..4)
        .map(|_| sim.client(address(), Script::new().pause(IDLE * 10)))
        .collect();
    sim.run_for(MS * 500);
    assert_eq!(sim.backlog_len(address()), 2);

    assert!(matches!(listener.accept(), Ok(Accept::Connection(..))));
    sim.run_for(MS * 600);
    assert_eq!(
        sim.backlog_len(address()),
        2,
        "one client has tried again after a second"
    );

    sim.run_for(Duration::from_secs(60));
    let refused =
        |client: &&evcore_sim::ScriptHandle| client.outcome() == Some(ClientOutcome::Refused);
    assert_eq!(clients.iter().filter(refused).count(), 1);
    assert_eq!(
        sim.connect(address()).unwrap_err().kind(),
        io::ErrorKind::TimedOut
    );
}

#[test]
fn a_process_at_its_descriptor_limit_accepts_nothing() {
    let sim = Sim::new(7);
    sim.set_config(SimConfig {
        max_descriptors: 2,
        ..SimConfig::default()
    });
    let process = sim.process();
    let listener = process.listen(address());
    let _clients = [
        sim.connect(address()).unwrap(),
        sim.connect(address()).unwrap(),
    ];
    let Ok(Accept::Connection(stream, _)) = listener.accept() else {
        panic!("there is a descriptor");
    };
    let none = listener.accept();
    assert!(matches!(none, Ok(Accept::Exhausted(Resource::Process))));
    drop(stream);
    let Ok(Accept::Connection(_second, _)) = listener.accept() else {
        panic!("there is a descriptor again");
    };
    // As on Linux, the result is the same if no client waits.
    let none = listener.accept();
    assert!(matches!(none, Ok(Accept::Exhausted(Resource::Process))));
}

#[test]
fn a_connection_reset_in_the_backlog_is_still_accepted() {
    let sim = Sim::new(7);
    let listener = sim.process().listen(address());
    sim.connect(address()).unwrap().reset();
    sim.run_for(MS);
    let Ok(Accept::Connection(stream, _)) = listener.accept() else {
        panic!("it still waits, as on Linux");
    };
    let error = stream.recv(&mut [0; 8]).unwrap_err();
    assert_eq!(error.kind(), io::ErrorKind::ConnectionReset);
}

/// Arms its timer twice at each event, and records when it is called.
#[derive(Debug)]
struct Rearming(Arc<Mutex<Vec<(ClientEvent, Duration)>>>);

impl Client for Rearming {
    fn on_event(&mut self, event: ClientEvent, cx: &mut ClientCx<'_>) {
        let mut calls = self.0.lock().unwrap();
        calls.push((event, cx.now()));
        if calls.len() == 3 {
            cx.exit();
        }
        cx.arm(MS * 10);
        cx.arm(MS * 25);
    }
}

#[test]
fn only_the_timer_armed_last_expires_and_none_after_exit() {
    let (sim, calls) = (Sim::new(7), Arc::default());
    sim.add_client(Rearming(Arc::clone(&calls)));
    sim.run_for(MS * 200);
    let expected = [
        (ClientEvent::Started, Duration::ZERO),
        (ClientEvent::Expired, MS * 25),
        (ClientEvent::Expired, MS * 50),
    ];
    assert_eq!(*calls.lock().unwrap(), expected);
}
