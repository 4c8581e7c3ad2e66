//! The simulated sockets beside the real ones: one course of events on both, with equal outcomes.
//!
//! Every call's result, by its count or its kind of error, and after every call what a poller says
//! of both ends. On Linux alone: the simulated sockets have its ways, and others differ in places.
#![cfg(target_os = "linux")]

mod course;
mod ends;
mod stage;

use evcore::Mode;
use evcore_sim::Rng;

use crate::{
    course::{Act, Side::*, any_course},
    ends::Family::{Tcp, Unix},
    stage::compare,
};

#[test]
fn data_comes_and_then_the_end() {
    let course = [
        Act::Send(Near, 5),
        Act::Receive(Far, 3),
        Act::FinishWriting(Near),
        Act::Receive(Far, 8),
        Act::Receive(Far, 8),
        Act::Send(Far, 4),
        Act::Receive(Near, 8),
        Act::Close(Far),
        Act::Receive(Near, 8),
    ];
    for family in [Tcp, Unix] {
        compare(family, Mode::Level, &course);
        compare(family, Mode::Edge, &course);
    }
}

#[test]
fn a_reset_comes_behind_the_data_and_once() {
    let course = [
        Act::Send(Near, 5),
        Act::Reset(Near),
        Act::Receive(Far, 8),
        Act::Receive(Far, 8),
        Act::Receive(Far, 8),
        Act::Send(Far, 1),
        Act::FinishWriting(Far),
    ];
    compare(Tcp, Mode::Level, &course);
    compare(Tcp, Mode::Edge, &course);
}

#[test]
fn a_reset_is_an_error_that_can_be_asked_for() {
    let course = [
        Act::Reset(Near),
        Act::TakeError(Far),
        Act::TakeError(Far),
        Act::Receive(Far, 8),
    ];
    compare(Tcp, Mode::Level, &course);
}

#[test]
fn a_close_with_unread_bytes_is_a_reset() {
    let course = [
        Act::Send(Near, 5),
        Act::Close(Far),
        Act::Receive(Near, 8),
        Act::Send(Near, 1),
    ];
    for family in [Tcp, Unix] {
        compare(family, Mode::Level, &course);
    }
}

#[test]
fn sending_to_who_has_closed_works_once() {
    let course = [
        Act::Close(Far),
        Act::Send(Near, 1),
        Act::Send(Near, 1),
        Act::Send(Near, 1),
        Act::Receive(Near, 8),
    ];
    for family in [Tcp, Unix] {
        compare(family, Mode::Level, &course);
        compare(family, Mode::Edge, &course);
    }
}

#[test]
fn a_full_buffer_would_block_until_it_is_read() {
    let course = [
        Act::Fill(Near),
        Act::Send(Near, 1),
        Act::Empty(Far),
        Act::Send(Near, 1),
        Act::Empty(Far),
        Act::Close(Near),
        Act::Receive(Far, 1),
    ];
    for family in [Tcp, Unix] {
        compare(family, Mode::Level, &course);
    }
}

#[test]
fn any_course_of_events_has_the_same_outcomes() {
    for family in [Tcp, Unix] {
        for mode in [Mode::Level, Mode::Edge] {
            for seed in 0..250 {
                let course = any_course(&mut Rng::new(seed), family);
                compare(family, mode, &course);
            }
        }
    }
}
