//! Every fault occurs, and what it does is what a real machine could do.

use std::{rc::Rc, time::Duration};

use evcore::{
    Interest, Mode,
    poller::{Events, Poller},
};
use evcore_sim::{Chance, Ending, Fault, Faults, Script, Scripted, Workers, World};

use crate::echo::{Counts, Echo, address};

/// Clients who each want all their bytes back, for so long, under these faults.
fn serve(world: &World, faults: Faults, clients: u32) -> (Vec<(Vec<u8>, Scripted)>, u32) {
    world.set_faults(faults);
    let counts = Rc::<std::cell::RefCell<Counts>>::default();
    let shared = Rc::clone(&counts);
    let mut workers = Workers::new(world, 2, move |process, _| Echo::new(process, &shared));
    let mut rng = world.rng();
    let ms = Duration::from_millis;
    let clients: Vec<_> = (0..clients)
        .map(|number| {
            let letter = b'a' + u8::try_from(number % 26).expect("a letter");
            let bytes: Vec<u8> = (0..1 + rng.index(3_000)).map(|_| letter).collect();
            let script = Script::new()
                .pause_between(ms(0)..=ms(20_000))
                .send_slowly(bytes.clone(), 1 + rng.index(900), ms(50))
                .hear(bytes.len());
            (bytes, world.client(address(), script))
        })
        .collect();
    let all_are_done = |_: &_| clients.iter().all(|(_, client)| client.is_done());
    assert!(
        workers.run_until(Duration::from_secs(600), all_are_done),
        "seed {}: somebody is left waiting, under {faults:?}",
        world.seed()
    );
    let expired = counts.borrow().expired;
    (clients, expired)
}

/// Not one byte is lost, doubled or another's, whatever became of its connection.
fn verify(clients: &[(Vec<u8>, Scripted)]) -> usize {
    for (bytes, client) in clients {
        let heard = client.heard();
        assert!(bytes.starts_with(&heard), "{client:?}");
        if client.ending() == Some(Ending::Done) {
            assert_eq!(&heard, bytes);
        }
    }
    let done = |client: &Scripted| client.ending() == Some(Ending::Done);
    clients.iter().filter(|(_, client)| done(client)).count()
}

#[test]
fn without_faults_there_are_none_and_all_are_served() {
    let world = World::new(7);
    let (clients, _) = serve(&world, Faults::none(), 50);
    assert_eq!(verify(&clients), 50);
    for fault in Fault::ALL {
        assert_eq!(world.count(fault), 0, "{fault:?}");
    }
}

#[test]
fn each_fault_occurs_alone_and_leaves_the_bytes_whole() {
    for fault in Fault::ALL {
        let mut occurred = 0;
        for seed in 0..5 {
            let world = World::new(seed);
            let often = match fault {
                // There is one for each step, and many a client has some.
                Fault::Kill => Chance::one_in(300),
                // It takes two events in one batch.
                Fault::ReorderedEvents => Chance::ALWAYS,
                _ => Chance::one_in(20),
            };
            let (clients, _) = serve(&world, Faults::none().with(fault, often), 30);
            let done = verify(&clients);
            // By the last, a client seems to have been silent for too long.
            let harms = [Fault::Reset, Fault::Abort, Fault::Kill, Fault::ClockJump];
            let harms = harms.contains(&fault);
            assert!(
                harms || done == 30,
                "{fault:?} harmed a client of seed {seed}"
            );
            occurred += world.count(fault);
            for other in Fault::ALL {
                assert!(
                    other == fault || world.count(other) == 0,
                    "{other:?} with {fault:?}"
                );
            }
        }
        assert!(occurred >= 5, "{fault:?} occurred {occurred} times");
    }
}

#[test]
fn all_faults_together_occur_and_leave_the_bytes_whole() {
    let mut occurred = [0; Fault::ALL.len()];
    let mut done = 0;
    for seed in 0..20 {
        let world = World::new(seed);
        let (clients, _) = serve(&world, Faults::all(), 50);
        done += verify(&clients);
        for fault in Fault::ALL {
            occurred[fault as usize] += world.count(fault);
        }
    }
    for fault in Fault::ALL {
        assert!(occurred[fault as usize] > 0, "{fault:?} did not occur");
    }
    assert!(
        done > 500,
        "{done} of 1,000 were served: too few to learn from"
    );
}

/// A short write means a full buffer, and a short read an empty one: so an edge follows.
#[test]
fn whoever_takes_what_was_short_for_all_there_is_hears_of_the_rest() {
    let world = World::new(7);
    let short = Faults::none().with(Fault::ShortRead, Chance::one_in(2));
    world.set_faults(short.with(Fault::ShortWrite, Chance::one_in(2)));
    let process = world.process();
    let mut poller = Poller::from(process.backend());
    let (near, far) = process.tcp_pair();
    poller.add(&near, 0, Interest::WRITE, Mode::Edge).unwrap();
    poller.add(&far, 1, Interest::READ, Mode::Edge).unwrap();

    let (bytes, mut heard) = ([b'x'; 5_000], 0);
    let (mut rest, mut events) = (&bytes[..], Events::with_capacity(4));
    while heard < bytes.len() {
        // An error would say that nothing is left to happen: that an edge was lost.
        poller.wait(&mut events, None).unwrap();
        for event in &events {
            if event.key == 1 {
                heard += far.recv(&mut [0; 5_000]).unwrap_or(0);
            } else if !rest.is_empty() {
                rest = &rest[near.send(rest).unwrap_or(0)..];
            }
        }
    }
    assert!(world.count(Fault::ShortRead) > 0 && world.count(Fault::ShortWrite) > 0);
}
