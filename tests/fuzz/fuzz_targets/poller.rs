//! Programs of calls on a `Poller`: registrations, changes, events, wakes and waits, on every
//! backend of this system and on the simulator's. Each pair of bytes of an input is a step.
//!
//! Oracle: the model of `tests/conformance`, which predicts each report. `Ready` and `Interest` are
//! compared with sets of their bits.

#![no_main]
#![allow(
    dead_code,
    unused_imports,
    unused_macros,
    reason = "the conformance tests have more users of these modules"
)]

use evcore_poller::{Interest, Mode, Ready};
use libfuzzer_sys::fuzz_target;

#[path = "../../conformance/exclusive_run.rs"]
mod exclusive_run;
#[path = "../../conformance/expectations.rs"]
mod expectations;
#[path = "../../conformance/fixture.rs"]
mod fixture;
#[path = "../../conformance/kernel.rs"]
mod kernel;
#[path = "../../conformance/model.rs"]
mod model;
#[path = "../../conformance/platform.rs"]
mod platform;
#[path = "../../conformance/simulated.rs"]
mod simulated;
#[path = "../../conformance/socket.rs"]
mod socket;

use model::{IDS, Step};

/// Maximum number of steps of a program, which bounds the time of a run.
const STEPS_MAX: usize = 80;

fuzz_target!(|bytes: &[u8]| {
    let steps: Vec<Step> = bytes
        .chunks_exact(2)
        .take(STEPS_MAX)
        .map(|pair| step(pair[0], pair[1]))
        .collect();
    check_sets(bytes);
    model::run(&steps);
});

fn step(kind: u8, operand: u8) -> Step {
    let id = u64::from(operand) % IDS;
    let choice = usize::from(operand / 4);
    let interest = [
        Interest::NONE,
        Interest::READ,
        Interest::WRITE,
        Interest::BOTH,
        Interest::PRIORITY,
        Interest::BOTH | Interest::PRIORITY,
    ][choice % 6];
    let mode = [Mode::Level, Mode::Edge, Mode::Oneshot][choice / 6 % 3];
    match kind % 20 {
        0..3 => Step::Add(id, interest, mode),
        3 | 4 => Step::Modify(id, interest),
        5 => Step::Remove(id),
        6 => Step::Replace(id),
        7 => Step::LeaveBehind(id),
        8 => Step::RearmRead(id),
        9 => Step::RearmWrite(id),
        10 => Step::PeerWrites(id),
        11 => Step::PeerReads(id),
        12 => Step::PeerShutsDown(id),
        13 => Step::ShutsDown(id),
        14 => Step::PeerCloses(id),
        15 => Step::Read(id),
        16 => Step::Wake,
        17 => Step::WakeByHand,
        _ => Step::Wait,
    }
}

fn check_sets(bytes: &[u8]) {
    let &[a, b, c, d, ..] = bytes else {
        return;
    };
    let (x, y) = (
        Interest::from_bits_truncate(a),
        Interest::from_bits_truncate(b),
    );
    assert_eq!(x.bits(), a & 0b111);
    assert_eq!((x | y).bits(), x.bits() | y.bits());
    assert_eq!((x - y).bits(), x.bits() & !y.bits());
    assert_eq!(x.contains(y), x | y == x);
    assert_eq!(x.is_empty(), x == Interest::NONE);
    let (v, w) = (u16::from_le_bytes([a, b]), u16::from_le_bytes([c, d]));
    let (x, y) = (Ready::from_bits_truncate(v), Ready::from_bits_truncate(w));
    assert_eq!(x.bits(), v & 0x201f);
    assert_eq!((x | y).bits(), x.bits() | y.bits());
    assert_eq!((x & y).bits(), x.bits() & y.bits());
    assert_eq!(x.is_readable(), !(x & Ready::READABLE).is_empty());
    assert_eq!(x.is_write_closed(), !(x & Ready::WRITE_CLOSED).is_empty());
    assert_eq!(format!("{x:?}") == format!("{y:?}"), x == y);
}
