//! Recordings, and a program that runs on them. If the first byte of an input is 0, the rest is a
//! whole file. Otherwise the first byte is a length, and the rest is divided into turns (iterations
//! of the event loop), each with this many bytes of recorded calls. The target computes the
//! checksums of the turns, because random bytes would not have valid ones.
//!
//! Oracles: the turns that are read from a cut file are the first turns of the whole file. A replay
//! ends.

#![no_main]

use evcore::{Builder, Connections, Step, balancer::Policy};
use evcore_recording::{Outside, Recording, Replay, ReplayedListener, ReplayedStream};
use libfuzzer_sys::fuzz_target;

/// Maximum number of turns of a program, which bounds the time of a run.
const TURNS: usize = 200;

fuzz_target!(|input: &[u8]| {
    let Some((first, rest)) = input.split_first() else {
        return;
    };
    let bytes = match first {
        0 => rest.to_vec(),
        length => sealed(rest, usize::from(*length)),
    };
    let Ok(recording) = Recording::read(&bytes) else {
        assert_eq!(*first, 0, "the header is whole");
        return;
    };
    for cut in [bytes.len() / 2, bytes.len() - 1] {
        if let Ok(cut) = Recording::read(&bytes[..cut]) {
            assert!(cut.len() <= recording.len());
            assert!(cut.turns().zip(recording.turns()).all(|(one, two)| one == two));
        }
    }
    run(&Replay::new(recording));
});

/// Makes a recording of turns with `length` bytes of calls each.
fn sealed(calls: &[u8], length: usize) -> Vec<u8> {
    let mut bytes = b"evcorec\n\x01\0\0\0\x07\0\0\0\x01\0\0\0\0\0\0\0".to_vec();
    bytes.extend(crc32fast::hash(&bytes).to_le_bytes());
    bytes.extend([0; 4]);
    for (turn, calls) in (0_u64..).zip(calls.chunks(length)) {
        let checked = [&1_u64.to_le_bytes()[..], &turn.to_le_bytes(), calls].concat();
        bytes.extend((calls.len() as u32).to_le_bytes());
        bytes.extend(crc32fast::hash(&checked).to_le_bytes());
        bytes.extend(calls);
    }
    bytes
}

/// Runs a program on a replay. The program sends back what its clients send.
fn run(replay: &Replay) {
    let builder = Builder::<ReplayedListener>::default().clock(replay.clock());
    let builder = builder.backend(replay.backend()).listener(replay.listener());
    let builder = builder.group(replay.member()).policy(Policy::least_loaded());
    let Ok(mut ev) = builder.build() else {
        return;
    };
    let outside = Outside::Replayed(replay.clone());
    let handle = outside.handle(ev.handle());
    let mut pool = outside.pool::<u32, Vec<u8>>(1, 4, handle).ok();
    let mut conns: Connections<(), ReplayedStream> = Connections::new();
    for turn in 0..TURNS {
        outside.check(&outside.value("turn", || turn).to_le_bytes());
        if let Some(pool) = &mut pool {
            let _ = pool.submit(0, Vec::new);
            while pool.next_result().is_some() {}
        }
        if ev.wait().is_err() {
            return;
        }
        while let Some(step) = ev.next_step() {
            match step {
                Step::Accepted(new) => {
                    let _ = conns.add(&mut ev, new.stream, ());
                }
                Step::Ready(token, ready) => {
                    let Some((stream, ())) = conns.ready(token, ready) else {
                        continue;
                    };
                    let mut buffer = [0; 64];
                    match stream.recv(&mut ev, &mut buffer) {
                        Ok(0) => drop(conns.close(&mut ev, token)),
                        Ok(count) => drop(stream.send(&mut ev, &buffer[..count])),
                        Err(_) => {}
                    }
                }
                _ => {}
            }
        }
    }
}
