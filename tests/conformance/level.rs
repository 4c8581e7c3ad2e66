//! `Mode::Level`: reported in every wait for as long as it holds.

use std::{
    io::{Read, Write},
    net::{TcpListener, TcpStream},
};

use evcore_poller::{Error, Interest, Mode, Ready};
use rustix::net::{SendFlags, send};

use crate::{
    socket::{Socket, drain, fill},
    stage::{ERROR, PATIENCE, READ_CLOSED, READABLE, Stage, WRITABLE, WRITE_CLOSED},
};

crate::scenarios! {
    reading_is_reported_while_there_is_data,
    writing_is_reported_while_there_is_room,
    both_sides_are_reported_in_one_event,
    only_what_is_asked_is_reported,
    a_hang_up_is_no_priority_data,
    a_refused_change_is_no_priority_data,
    events_carry_all_of_the_key;
    of kernels alone:
    priority_data_is_told_apart,
}

fn reading_is_reported_while_there_is_data(stage: &mut Stage) {
    let (mut near, mut far) = stage.pair();
    stage.add(&far, 1, Interest::READ, Mode::Level);
    stage.expect_nothing();

    near.write_all(b"ab").expect("write");
    stage.expect(&[(1, READABLE)]);
    stage.expect(&[(1, READABLE)]);

    far.read_exact(&mut [0]).expect("read");
    stage.expect(&[(1, READABLE)]);
    far.read_exact(&mut [0]).expect("read");
    stage.expect_nothing();
}

fn writing_is_reported_while_there_is_room(stage: &mut Stage) {
    let (near, far) = stage.pair();
    stage.add(&far, 1, Interest::WRITE, Mode::Level);
    stage.expect(&[(1, WRITABLE)]);
    stage.expect(&[(1, WRITABLE)]);

    let written = fill(&far);
    stage.expect_nothing();
    assert_eq!(drain(&near).0, written);
    stage.expect(&[(1, WRITABLE)]);
}

fn both_sides_are_reported_in_one_event(stage: &mut Stage) {
    let (mut near, far) = stage.pair();
    stage.add(&far, 1, Interest::BOTH, Mode::Level);
    stage.expect(&[(1, WRITABLE)]);
    near.write_all(b"a").expect("write");
    stage.expect(&[(1, READABLE | WRITABLE)]);
    fill(&far);
    stage.expect(&[(1, READABLE)]);
}

fn only_what_is_asked_is_reported(stage: &mut Stage) {
    let (mut near, far) = stage.pair();
    near.write_all(b"a").expect("write");
    stage.add(&far, 1, Interest::WRITE, Mode::Level);
    stage.expect(&[(1, WRITABLE)]);
    stage.modify(1, Interest::READ);
    stage.expect(&[(1, READABLE)]);
    stage.modify(1, Interest::NONE);
    stage.expect_nothing();
}

fn priority_data_is_told_apart(stage: &mut Stage) {
    let listener = TcpListener::bind("127.0.0.1:0").expect("listen");
    let address = listener.local_addr().expect("an address");
    let near = TcpStream::connect(address).expect("connect");
    let (far, _) = listener.accept().expect("accept");

    if !stage.ground.backend().has_priority() {
        let refused = stage.poller.add(&far, 1, Interest::PRIORITY, Mode::Level);
        assert!(
            matches!(refused, Err(Error::NoPriority { .. })),
            "{}",
            stage.name
        );
        return;
    }
    stage.add(&far, 1, Interest::PRIORITY, Mode::Level);
    send(&near, b"!", SendFlags::OOB).expect("send");
    assert_eq!(
        stage.wait(Some(PATIENCE)),
        [(1, Ready::PRIORITY)],
        "{}",
        stage.name
    );
}

/// Here backends differ: select has nothing to say of a hang-up to who asks for neither side.
fn a_hang_up_is_no_priority_data(stage: &mut Stage) {
    let everything = Interest::BOTH | Interest::PRIORITY;
    for mode in [Mode::Level, Mode::Edge, Mode::Oneshot] {
        for (interest, expected) in [
            (Interest::PRIORITY, WRITE_CLOSED),
            (everything, READABLE | READ_CLOSED | WRITABLE | WRITE_CLOSED),
        ] {
            let (near, far) = stage.pair();
            drop(near);
            if !can_watch_for_priority(stage, &far, 1, interest, mode) {
                return;
            }
            let told = stage.ground.backend().told(expected, interest);
            let trace = if told.is_empty() {
                vec![]
            } else {
                vec![(1, told)]
            };
            assert_eq!(stage.now(), trace, "{}: {mode:?}", stage.name);
            let again = if mode == Mode::Level { trace } else { vec![] };
            assert_eq!(stage.now(), again, "{}: {mode:?}", stage.name);
            stage.remove(1);
        }
    }
}

fn a_refused_change_is_no_priority_data(stage: &mut Stage) {
    for (interest, expected) in [
        (Interest::PRIORITY, ERROR),
        (Interest::READ | Interest::PRIORITY, ERROR | READABLE),
    ] {
        stage.add_closed(8, 1..2, Interest::NONE);
        stage.modify(1, interest);
        assert_eq!(stage.wait(None), [(1, expected)], "{}", stage.name);
        stage.remove(1);
    }
}

/// Adds, unless this is a kqueue, which refuses such an interest.
fn can_watch_for_priority(
    stage: &mut Stage,
    fd: &Socket,
    key: u64,
    interest: Interest,
    mode: Mode,
) -> bool {
    match stage.poller.add(fd, key, interest, mode) {
        Err(Error::NoPriority { .. }) => false,
        added => {
            added.unwrap_or_else(|error| panic!("{}: add {key}: {error}", stage.name));
            true
        }
    }
}

fn events_carry_all_of_the_key(stage: &mut Stage) {
    let (_near, far) = stage.pair();
    let key = 0xdead_beef_0000_0007;
    stage.add(&far, key, Interest::WRITE, Mode::Level);
    stage.expect(&[(key, WRITABLE)]);
}
