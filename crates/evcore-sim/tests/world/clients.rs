//! Clients, from the knock to the end.

use std::{
    io,
    rc::Rc,
    sync::{Arc, Mutex},
    time::Duration,
};

use evcore::{
    Acceptor,
    accept::{Accept, Resource},
};
use evcore_sim::{Client, Conditions, Ending, News, Script, Visit, Workers, World};

use crate::echo::{Counts, Echo, IDLE, address};

const MS: Duration = Duration::from_millis(1);

fn echoing(world: &World) -> (Workers<Echo>, Rc<std::cell::RefCell<Counts>>) {
    let counts = Rc::<std::cell::RefCell<Counts>>::default();
    let shared = Rc::clone(&counts);
    let workers = Workers::new(world, 1, move |process, _| Echo::new(process, &shared));
    (workers, counts)
}

#[test]
fn a_script_is_followed_to_its_end() {
    let world = World::new(7);
    let (mut workers, counts) = echoing(&world);
    let script = Script::new()
        .send("one,")
        .hear_until(",")
        .pause(MS * 500)
        .send_slowly("two,", 1, MS * 10)
        .hear_until("o,")
        .shutdown_write()
        .hear_end();
    let client = world.client(address(), script);
    assert!(workers.run_until(Duration::from_secs(5), |_| client.is_done()));
    assert_eq!(client.heard(), b"one,two,");
    assert_eq!(client.ending(), Some(Ending::Done));
    assert!(world.now() >= MS * 540, "{:?}", world.now());
    assert_eq!(counts.borrow().accepted, 1);
}

#[test]
fn who_is_silent_too_long_is_left() {
    let world = World::new(7);
    let (mut workers, counts) = echoing(&world);
    let client = world.client(address(), Script::new().hear_end());
    assert!(workers.run_until(IDLE * 2, |_| client.is_done()));
    assert_eq!(counts.borrow().expired, 1);
    assert!(
        world.now() >= IDLE && world.now() < IDLE + MS * 5,
        "{:?}",
        world.now()
    );
}

#[test]
fn a_client_that_does_not_read_blocks_its_server_and_none_else() {
    let world = World::new(7);
    world.set_conditions(Conditions {
        buffer: 1_000,
        ..Conditions::default()
    });
    let (mut workers, _) = echoing(&world);
    let stalled = Script::new()
        .stop_reading()
        .send(vec![b'x'; 10_000])
        .pause(IDLE / 2);
    let stalled = world.client(address(), stalled.read_on().hear(10_000));
    let other = world.client(address(), Script::new().pause(MS * 100).send("hi").hear(2));
    assert!(workers.run_until(Duration::from_secs(1), |_| other.is_done()));
    assert_eq!(other.ending(), Some(Ending::Done));
    workers.run_for(IDLE);
    // It could not even send all, and so never came to read: the server gave it up.
    assert_ne!(stalled.ending(), Some(Ending::Done));
    assert!(stalled.heard().is_empty());
}

#[test]
fn whoever_reads_on_in_time_gets_all() {
    let world = World::new(7);
    world.set_conditions(Conditions {
        buffer: 4_000,
        ..Conditions::default()
    });
    let (mut workers, _) = echoing(&world);
    let script = Script::new()
        .stop_reading()
        .send(vec![b'x'; 6_000])
        .pause(IDLE / 2);
    let client = world.client(address(), script.read_on().hear(6_000));
    assert!(workers.run_until(IDLE * 2, |_| client.is_done()));
    assert_eq!(client.ending(), Some(Ending::Done));
}

#[test]
fn a_reset_ends_the_connection_on_the_other_side() {
    let world = World::new(7);
    let (mut workers, _) = echoing(&world);
    let client = world.client(address(), Script::new().send("hello").pause(MS * 5).reset());
    let active = |workers: &Workers<Echo>| workers.app(0).unwrap().ev.status().active;
    assert!(workers.run_until(MS * 5, |workers| active(workers) == 1));
    assert!(workers.run_until(MS * 20, |workers| client.is_done() && active(workers) == 0));
}

#[test]
fn where_nobody_listens_a_client_is_refused() {
    let world = World::new(7);
    let error = world.connect(address()).unwrap_err();
    assert_eq!(error.kind(), io::ErrorKind::ConnectionRefused);
}

#[test]
fn beyond_the_backlog_clients_knock_again_and_give_up() {
    let world = World::new(7);
    world.set_conditions(Conditions {
        backlog: 2,
        ..Conditions::default()
    });
    let process = world.process();
    let listener = process.listen(address());
    let clients: Vec<_> = (0..4)
        .map(|_| world.client(address(), Script::new().pause(IDLE * 10)))
        .collect();
    world.run_for(MS * 500);
    assert_eq!(world.waiting(address()), 2);

    assert!(matches!(listener.accept(), Ok(Accept::Connection(..))));
    world.run_for(MS * 600);
    assert_eq!(
        world.waiting(address()),
        2,
        "one has knocked again after a second"
    );

    world.run_for(Duration::from_secs(60));
    let refused = |client: &&evcore_sim::Scripted| client.ending() == Some(Ending::Refused);
    assert_eq!(clients.iter().filter(refused).count(), 1);
    assert_eq!(
        world.connect(address()).unwrap_err().kind(),
        io::ErrorKind::TimedOut
    );
}

#[test]
fn a_process_without_descriptors_accepts_nobody_until_it_closes_one() {
    let world = World::new(7);
    world.set_conditions(Conditions {
        descriptors: 2,
        ..Conditions::default()
    });
    let process = world.process();
    let listener = process.listen(address());
    let _clients = [
        world.connect(address()).unwrap(),
        world.connect(address()).unwrap(),
    ];
    let Ok(Accept::Connection(stream, _)) = listener.accept() else {
        panic!("there is a descriptor");
    };
    let none = listener.accept();
    assert!(matches!(none, Ok(Accept::Exhausted(Resource::Process))));
    drop(stream);
    assert!(matches!(listener.accept(), Ok(Accept::Connection(..))));
}

#[test]
fn a_client_that_was_reset_while_it_waited_is_accepted_all_the_same() {
    let world = World::new(7);
    let listener = world.process().listen(address());
    world.connect(address()).unwrap().reset();
    world.run_for(MS);
    let Ok(Accept::Connection(stream, _)) = listener.accept() else {
        panic!("it waits still, as on Linux");
    };
    let error = stream.recv(&mut [0; 8]).unwrap_err();
    assert_eq!(error.kind(), io::ErrorKind::ConnectionReset);
}

/// Sets its alarm twice at every call, and notes when it rings.
#[derive(Debug)]
struct Undecided(Arc<Mutex<Vec<Duration>>>);

impl Client for Undecided {
    fn call(&mut self, news: News, me: &mut Visit<'_>) {
        assert_eq!(news, News::Time);
        let mut rings = self.0.lock().unwrap();
        rings.push(me.now());
        if rings.len() == 3 {
            me.leave();
        }
        me.after(MS * 10);
        me.after(MS * 25);
    }
}

#[test]
fn the_alarm_that_was_set_last_is_the_one_that_rings_and_none_after_leaving() {
    let (world, rings) = (World::new(7), Arc::default());
    world.add_client(Undecided(Arc::clone(&rings)));
    world.run_for(MS * 200);
    assert_eq!(*rings.lock().unwrap(), [Duration::ZERO, MS * 25, MS * 50]);
}
