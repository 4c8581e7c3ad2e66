//! Each fault that an echo server can meet occurs, and damages no byte.

use std::{rc::Rc, time::Duration};

use evcore::{
    Interest, Mode,
    poller::{Events, Poller},
};
use evcore_sim::{ClientOutcome, Fault, Faults, Probability, Script, ScriptHandle, Sim, Workers};

use crate::{
    echo_server::{Counts, Echo, address},
    native,
};

/// The faults that the echo server cannot meet, because it has no outgoing connections, jobs,
/// datagrams or channels. Other tests cover them.
const ELSEWHERE: [Fault; 10] = [
    Fault::ImmediateConnect,
    Fault::ConnectRefused,
    Fault::ConnectTimeout,
    Fault::NoLocalPort,
    Fault::SlowJob,
    Fault::JobPanic,
    Fault::DatagramLoss,
    Fault::DatagramDuplicate,
    Fault::DatagramDelay,
    Fault::ChannelKill,
];

fn faults() -> impl Iterator<Item = Fault> {
    Fault::ALL
        .into_iter()
        .filter(|fault| !ELSEWHERE.contains(fault))
}

/// Runs clients that each send bytes and wait until all of them have come back. Returns the clients
/// with the bytes that they send, and the number of idle timeouts.
fn serve(sim: &Sim, faults: Faults, clients: u32) -> (Vec<(Vec<u8>, ScriptHandle)>, u32) {
    sim.set_faults(faults);
    let counts = Rc::<std::cell::RefCell<Counts>>::default();
    let shared = Rc::clone(&counts);
    let mut workers = Workers::new(sim, 2, move |process, _| Echo::new(process, &shared));
    let mut rng = sim.rng();
    let ms = Duration::from_millis;
    let clients: Vec<_> = (0..clients)
        .map(|number| {
            let letter = b'a' + u8::try_from(number % 26).expect("a letter");
            let bytes: Vec<u8> = (0..1 + rng.index(3_000)).map(|_| letter).collect();
            let script = Script::new()
                .pause_between(ms(0)..=ms(20_000))
                .send_slowly(bytes.clone(), 1 + rng.index(900), ms(50))
                .recv(bytes.len());
            (bytes, sim.client(address(), script))
        })
        .collect();
    let all_done = |_: &_| clients.iter().all(|(_, client)| client.is_done());
    assert!(
        workers.run_until(Duration::from_secs(600), all_done),
        "seed {}: a client is left waiting under {faults:?}",
        sim.seed()
    );
    let expired = counts.borrow().expired;
    (clients, expired)
}

/// Checks that each client received a prefix of its bytes, and all of them if it completed. Returns
/// the number of clients that completed.
fn verify(clients: &[(Vec<u8>, ScriptHandle)]) -> usize {
    for (bytes, client) in clients {
        let received = client.received();
        assert!(bytes.starts_with(&received), "{client:?}");
        if client.outcome() == Some(ClientOutcome::Completed) {
            assert_eq!(&received, bytes);
        }
    }
    let is_complete = |client: &ScriptHandle| client.outcome() == Some(ClientOutcome::Completed);
    clients
        .iter()
        .filter(|(_, client)| is_complete(client))
        .count()
}

#[test]
fn without_faults_every_client_completes() {
    let sim = Sim::new(7);
    let (clients, _) = serve(&sim, Faults::none(), 50);
    assert_eq!(verify(&clients), 50);
    for fault in Fault::ALL {
        assert_eq!(sim.fault_count(fault), 0, "{fault:?}");
    }
}

#[test]
fn each_fault_alone_occurs_and_damages_no_byte() {
    for fault in faults() {
        let mut occurred = 0;
        for seed in 0..5 {
            let sim = Sim::new(seed);
            let often = match fault {
                // This fault is drawn at every step and ends all connections of a worker, so it
                // gets a low probability.
                Fault::Kill => Probability::one_in(300),
                // This fault needs two events in one batch.
                Fault::ReorderedEvents => Probability::ALWAYS,
                _ => Probability::one_in(20),
            };
            let (clients, _) = serve(&sim, Faults::none().with(fault, often), 30);
            let done = verify(&clients);
            let is_lossless = !Faults::lossless().probability(fault).is_never();
            assert!(
                done == 30 || !is_lossless,
                "{fault:?} lost a client of seed {seed}"
            );
            occurred += sim.fault_count(fault);
            for other in Fault::ALL {
                assert!(
                    other == fault || sim.fault_count(other) == 0,
                    "{other:?} with {fault:?}"
                );
            }
        }
        assert!(occurred >= 5, "{fault:?} occurred {occurred} times");
    }
}

#[test]
fn all_faults_together_occur_and_damage_no_byte() {
    let mut occurred = [0; Fault::ALL.len()];
    let mut done = 0;
    for seed in 0..20 {
        let sim = Sim::new(seed);
        let (clients, _) = serve(&sim, Faults::all(), 50);
        done += verify(&clients);
        for fault in Fault::ALL {
            occurred[fault as usize] += sim.fault_count(fault);
        }
    }
    for fault in faults() {
        assert!(occurred[fault as usize] > 0, "{fault:?} did not occur");
    }
    assert!(
        done > 500,
        "only {done} of 1,000 clients completed: too few to show anything"
    );
}

/// A server takes a short write for a full buffer, and a short read for an empty one, and waits for
/// an edge. So an edge must follow.
#[test]
fn an_edge_follows_a_short_read_and_a_short_write() {
    let sim = Sim::new(7);
    let short = Faults::none().with(Fault::ShortRead, Probability::one_in(2));
    sim.set_faults(short.with(Fault::ShortWrite, Probability::one_in(2)));
    let process = sim.process();
    let mut poller = Poller::from(process.backend_with(native()));
    let (near, far) = process.tcp_pair();
    poller.add(&near, 0, Interest::WRITE, Mode::Edge).unwrap();
    poller.add(&far, 1, Interest::READ, Mode::Edge).unwrap();

    let (bytes, mut received) = ([b'x'; 5_000], 0);
    let (mut rest, mut events) = (&bytes[..], Events::bounded(4));
    while received < bytes.len() {
        // The wait fails if no event can come any more, that is, if an edge was lost.
        poller.wait(&mut events, None).unwrap();
        for event in &events {
            if event.key == 1 {
                received += far.recv(&mut [0; 5_000]).unwrap_or(0);
            } else if !rest.is_empty() {
                rest = &rest[near.send(rest).unwrap_or(0)..];
            }
        }
    }
    assert!(sim.fault_count(Fault::ShortRead) > 0 && sim.fault_count(Fault::ShortWrite) > 0);
}
