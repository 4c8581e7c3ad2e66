//! One seed, one trace.

use std::{collections::BTreeMap, io::ErrorKind::WouldBlock, rc::Rc, time::Duration};

use evcore::{
    Acceptor, Interest, Mode,
    accept::Accept,
    poller::{Error, Events, Poller},
};
use evcore_sim::{Faults, Script, Workers, World};

use crate::echo::{Counts, Echo, address};

/// A busy minute of three workers, under every fault. Returns the hash and the record.
fn run(seed: u64, records: bool) -> (u64, Vec<String>) {
    let world = World::new(seed);
    if records {
        world.record();
    }
    world.set_faults(Faults::all());
    let (counts, group) = (Rc::<std::cell::RefCell<Counts>>::default(), world.group(3));
    let mut workers = Workers::new(&world, 3, move |process, index| {
        Echo::with_lock(process, index, &group, &counts)
    });
    let mut rng = world.rng();
    for number in 0..40 {
        let ms = Duration::from_millis;
        let bytes = vec![b'a' + number; 1 + rng.index(20_000)];
        let script = Script::new()
            .pause_between(ms(0)..=ms(40_000))
            .send_slowly(bytes.clone(), 1 + rng.index(5_000), ms(200))
            .hear(bytes.len());
        world.client(address(), script);
    }
    workers.run_for(Duration::from_secs(60));
    (world.trace_hash(), world.lines())
}

#[test]
fn the_same_seed_is_the_same_trace_to_the_last_line() {
    for seed in 0..5 {
        let (one, two) = (run(seed, true), run(seed, true));
        assert!(one.1.len() > 1_000, "{} lines", one.1.len());
        assert_eq!(one.1, two.1);
        assert_eq!(one.0, two.0);
    }
}

#[test]
fn to_record_is_not_to_change() {
    assert_eq!(run(7, true).0, run(7, false).0);
}

#[test]
fn another_seed_is_another_trace() {
    let hashes: std::collections::BTreeSet<_> = (0..20).map(|seed| run(seed, false).0).collect();
    assert_eq!(hashes.len(), 20);
}

/// In debug, in release, and on every machine. Of a bare poller, so that it changes only where the
/// simulator does something else than before; then it is to be written down anew.
#[test]
fn the_trace_of_a_seed_is_known() {
    let world = World::new(1);
    world.set_faults(Faults::all());
    world.set_end(Duration::from_secs(60));
    let process = world.process();
    let mut poller = Poller::from(process.backend());
    poller.return_on_signal(true);
    let listener = process.listen(address());
    poller
        .add(&listener, 0, Interest::READ, Mode::Level)
        .expect("a fresh descriptor");
    for number in 1..=20 {
        let script = Script::new()
            .pause_between(Duration::ZERO..=Duration::from_secs(40))
            .send_slowly(vec![number; 5_000], 700, Duration::from_millis(50))
            .hear_end();
        world.client(address(), script);
    }

    let (mut events, mut streams) = (Events::with_capacity(64), BTreeMap::new());
    let mut keys = 1..;
    // Until the end of the world, which is another error.
    while let Ok(_) | Err(Error::Interrupted) = poller.wait(&mut events, None) {
        for event in &events {
            if event.key == 0 {
                if let Ok(Accept::Connection(stream, _)) = listener.accept() {
                    let key = keys.next().expect("there are few");
                    poller
                        .add(&stream, key, Interest::READ, Mode::Level)
                        .expect("it is open");
                    streams.insert(key, stream);
                }
                continue;
            }
            let received = streams[&event.key].recv(&mut [0; 300]);
            if !received.map_or_else(|error| error.kind() == WouldBlock, |n| n > 0) {
                poller.remove(event.key).expect("it is watched");
                streams.remove(&event.key);
            }
        }
    }
    assert_eq!(world.now(), Duration::from_secs(60));
    assert_eq!(world.trace_hash(), 0x6566_05d9_f3f2_6f86);
}
