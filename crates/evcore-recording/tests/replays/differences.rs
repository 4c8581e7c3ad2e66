//! Replays by a program that differs from the recorded one.

use evcore::poller::BackendKind;
use evcore_recording::What;

use crate::{
    echo::Bug,
    sockets::{record, replay},
};

#[test]
fn a_send_of_other_bytes_is_a_difference_that_shows_old_and_new_bytes() {
    let (recorded, bytes) = record(BackendKind::usable()[0], Bug::None);
    let (replayed, replay) = replay(&bytes, Bug::ShoutsAt(50), |_| false);
    let difference = replay.difference().expect("other bytes are sent");
    assert!(!replay.is_at_end());
    let letter = char::from(recorded.sent[49]);
    let shown = |letter: char| {
        format!(
            "of 1 bytes (checksum {:08x}): \"{letter}\"",
            checksum(letter)
        )
    };
    let message = difference.to_string();
    let (old, new) = (shown(letter), shown(letter.to_ascii_uppercase()));
    assert!(
        message.contains(&old) && message.contains(&new),
        "{message}"
    );
    assert!(message.starts_with("in turn "), "{message}");
    assert_eq!(replayed.sent, recorded.sent[..49]);
}

/// CRC-32, bit by bit.
fn checksum(letter: char) -> u32 {
    let mut remainder = !0 ^ u32::from(letter);
    for _ in 0..8 {
        let is_odd = remainder & 1 == 1;
        remainder = remainder >> 1 ^ if is_odd { 0xedb8_8320 } else { 0 };
    }
    !remainder
}

#[test]
fn another_call_is_a_difference_too() {
    let (_, bytes) = record(BackendKind::usable()[0], Bug::None);
    let (_, replay) = replay(&bytes, Bug::HangsUpAt(50), |_| false);
    let difference = replay.difference().expect("a connection is closed");
    assert_eq!(difference.replayed.what, What::Close);
    assert_eq!(difference.recorded.what, What::Send);
}
