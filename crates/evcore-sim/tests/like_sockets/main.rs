//! Simulated sockets compared with real ones: each scenario runs on both, with equal outcomes.
//!
//! The tests compare the result of each call (a count or a kind of error), and the readiness of
//! both endpoints after it.
#![cfg(target_os = "linux")]

mod endpoints;
mod fixture;
mod scenario;

use evcore::Mode;
use evcore_sim::Rng;

use crate::{
    endpoints::Family::{Tcp, Unix},
    fixture::compare,
    scenario::{Op, Side::*, random_scenario},
};

#[test]
fn data_arrives_before_the_end_of_the_stream() {
    let scenario = [
        Op::Send(Near, 5),
        Op::Recv(Far, 3),
        Op::ShutdownWrite(Near),
        Op::Recv(Far, 8),
        Op::Recv(Far, 8),
        Op::Send(Far, 4),
        Op::Recv(Near, 8),
        Op::Close(Far),
        Op::Recv(Near, 8),
    ];
    for family in [Tcp, Unix] {
        compare(family, Mode::Level, &scenario);
        compare(family, Mode::Edge, &scenario);
    }
}

#[test]
fn a_reset_comes_after_the_data_and_once() {
    let scenario = [
        Op::Send(Near, 5),
        Op::Reset(Near),
        Op::Recv(Far, 8),
        Op::Recv(Far, 8),
        Op::Recv(Far, 8),
        Op::Send(Far, 1),
        Op::ShutdownWrite(Far),
    ];
    compare(Tcp, Mode::Level, &scenario);
    compare(Tcp, Mode::Edge, &scenario);
}

#[test]
fn take_error_returns_a_reset_once() {
    let scenario = [
        Op::Reset(Near),
        Op::TakeError(Far),
        Op::TakeError(Far),
        Op::Recv(Far, 8),
    ];
    compare(Tcp, Mode::Level, &scenario);
}

#[test]
fn a_close_with_unread_bytes_is_a_reset() {
    let scenario = [
        Op::Send(Near, 5),
        Op::Close(Far),
        Op::Recv(Near, 8),
        Op::Send(Near, 1),
    ];
    for family in [Tcp, Unix] {
        compare(family, Mode::Level, &scenario);
    }
}

#[test]
fn sending_to_a_closed_peer_works_at_most_once() {
    let scenario = [
        Op::Close(Far),
        Op::Send(Near, 1),
        Op::Send(Near, 1),
        Op::Send(Near, 1),
        Op::Recv(Near, 8),
    ];
    for family in [Tcp, Unix] {
        compare(family, Mode::Level, &scenario);
        compare(family, Mode::Edge, &scenario);
    }
}

#[test]
fn a_full_buffer_blocks_until_it_is_read() {
    let scenario = [
        Op::Fill(Near),
        Op::Send(Near, 1),
        Op::Drain(Far),
        Op::Send(Near, 1),
        Op::Drain(Far),
        Op::Close(Near),
        Op::Recv(Far, 1),
    ];
    for family in [Tcp, Unix] {
        compare(family, Mode::Level, &scenario);
    }
}

#[test]
fn random_scenarios_have_equal_outcomes() {
    for family in [Tcp, Unix] {
        for mode in [Mode::Level, Mode::Edge] {
            for seed in 0..250 {
                let scenario = random_scenario(&mut Rng::new(seed), family);
                compare(family, mode, &scenario);
            }
        }
    }
}
