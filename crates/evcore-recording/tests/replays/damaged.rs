//! A recording whose contents were changed, with correct checksums.

use evcore::poller::BackendKind;
use evcore_recording::Recording;
use evcore_sim::Rng;

use crate::{
    echo::Bug,
    sockets::{record, replay},
};

/// The lengths of the file's header and of a turn's header.
const HEADER: usize = 32;
const TURN: usize = 8;

fn u32_at(bytes: &[u8], at: usize) -> u32 {
    u32::from_le_bytes(bytes[at..at + 4].try_into().expect("four"))
}

fn turns(bytes: &[u8]) -> Vec<std::ops::Range<usize>> {
    let mut turns = Vec::new();
    let mut at = HEADER;
    while u32_at(bytes, at) != 0 {
        let end = at + TURN + u32_at(bytes, at) as usize;
        turns.push(at + TURN..end);
        at = end;
    }
    turns
}

/// Changes a bit of a turn, and corrects the checksum.
fn damage(bytes: &mut [u8], rng: &mut Rng) {
    let turns = turns(bytes);
    let turn = rng.index(turns.len());
    let calls = turns[turn].clone();
    bytes[calls.start + rng.index(calls.len())] ^= 1 << rng.below(8);
    let turn = (turn as u64).to_le_bytes();
    let checked = [&bytes[16..24], &turn, &bytes[calls.clone()]].concat();
    let checksum = crc32fast::hash(&checked).to_le_bytes();
    bytes[calls.start - 4..calls.start].copy_from_slice(&checksum);
}

#[test]
fn a_replay_of_damaged_calls_ends_without_a_panic() {
    let (_, whole) = record(BackendKind::usable()[0], Bug::None);
    let mut rng = Rng::new(7);
    let (mut read, mut differ) = (0, 0);
    for _ in 0..300 {
        let mut bytes = whole.clone();
        damage(&mut bytes, &mut rng);
        let turns = Recording::read(&bytes)
            .expect("its header is whole")
            .turns()
            .len();
        read += usize::from(turns == self::turns(&whole).len());
        let (_, replay) = replay(&bytes, Bug::None, |_| false);
        differ += usize::from(replay.difference().is_some());
    }
    assert!(
        read > 100 && differ > 100,
        "{read} were read, {differ} differ"
    );
}
