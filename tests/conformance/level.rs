//! `Mode::Level`: reported in every wait while it lasts.

use std::{
    io::{Read, Write},
    net::{TcpListener, TcpStream},
};

use evcore_poller::{Error, Interest, Mode, Ready};
use rustix::net::{SendFlags, send};

use crate::{
    fixture::{DEADLINE, ERROR, Fixture, READ_CLOSED, READABLE, WRITABLE, WRITE_CLOSED},
    socket::{Socket, drain, fill},
};

crate::scenarios! {
    reading_is_reported_while_there_is_data,
    writing_is_reported_while_there_is_room,
    both_sides_are_reported_in_one_event,
    only_the_interest_is_reported,
    a_hang_up_is_no_priority_data,
    a_refused_change_is_no_priority_data,
    events_carry_all_of_the_key;
    of kernels alone:
    priority_data_is_distinguished,
}

fn reading_is_reported_while_there_is_data(fixture: &mut Fixture) {
    let (mut near, mut far) = fixture.pair();
    fixture.add(&far, 1, Interest::READ, Mode::Level);
    fixture.expect_nothing();

    near.write_all(b"ab").expect("write");
    fixture.expect(&[(1, READABLE)]);
    fixture.expect(&[(1, READABLE)]);

    far.read_exact(&mut [0]).expect("read");
    fixture.expect(&[(1, READABLE)]);
    far.read_exact(&mut [0]).expect("read");
    fixture.expect_nothing();
}

fn writing_is_reported_while_there_is_room(fixture: &mut Fixture) {
    let (near, far) = fixture.pair();
    fixture.add(&far, 1, Interest::WRITE, Mode::Level);
    fixture.expect(&[(1, WRITABLE)]);
    fixture.expect(&[(1, WRITABLE)]);

    let written = fill(&far);
    fixture.expect_nothing();
    assert_eq!(drain(&near).0, written);
    fixture.expect(&[(1, WRITABLE)]);
}

fn both_sides_are_reported_in_one_event(fixture: &mut Fixture) {
    let (mut near, far) = fixture.pair();
    fixture.add(&far, 1, Interest::BOTH, Mode::Level);
    fixture.expect(&[(1, WRITABLE)]);
    near.write_all(b"a").expect("write");
    fixture.expect(&[(1, READABLE | WRITABLE)]);
    fill(&far);
    fixture.expect(&[(1, READABLE)]);
}

fn only_the_interest_is_reported(fixture: &mut Fixture) {
    let (mut near, far) = fixture.pair();
    near.write_all(b"a").expect("write");
    fixture.add(&far, 1, Interest::WRITE, Mode::Level);
    fixture.expect(&[(1, WRITABLE)]);
    fixture.modify(1, Interest::READ);
    fixture.expect(&[(1, READABLE)]);
    fixture.modify(1, Interest::NONE);
    fixture.expect_nothing();
}

fn priority_data_is_distinguished(fixture: &mut Fixture) {
    let listener = TcpListener::bind("127.0.0.1:0").expect("listen");
    let address = listener.local_addr().expect("an address");
    let near = TcpStream::connect(address).expect("connect");
    let (far, _) = listener.accept().expect("accept");

    if !fixture.platform.backend().has_priority() {
        let refused = fixture.poller.add(&far, 1, Interest::PRIORITY, Mode::Level);
        assert!(
            matches!(refused, Err(Error::NoPriority { .. })),
            "{}",
            fixture.name
        );
        return;
    }
    fixture.add(&far, 1, Interest::PRIORITY, Mode::Level);
    send(&near, b"!", SendFlags::OOB).expect("send");
    assert_eq!(
        fixture.wait(Some(DEADLINE)),
        [(1, Ready::PRIORITY)],
        "{}",
        fixture.name
    );
}

/// Here backends differ: select does not report a hang-up without an interest in a side.
fn a_hang_up_is_no_priority_data(fixture: &mut Fixture) {
    let everything = Interest::BOTH | Interest::PRIORITY;
    for mode in [Mode::Level, Mode::Edge, Mode::Oneshot] {
        for (interest, expected) in [
            (Interest::PRIORITY, WRITE_CLOSED),
            (everything, READABLE | READ_CLOSED | WRITABLE | WRITE_CLOSED),
        ] {
            let (near, far) = fixture.pair();
            drop(near);
            if !can_watch_for_priority(fixture, &far, 1, interest, mode) {
                return;
            }
            let reported = fixture.platform.backend().reported(expected, interest);
            let trace = if reported.is_empty() {
                vec![]
            } else {
                vec![(1, reported)]
            };
            assert_eq!(fixture.now(), trace, "{}: {mode:?}", fixture.name);
            let again = if mode == Mode::Level { trace } else { vec![] };
            assert_eq!(fixture.now(), again, "{}: {mode:?}", fixture.name);
            fixture.remove(1);
        }
    }
}

fn a_refused_change_is_no_priority_data(fixture: &mut Fixture) {
    for (interest, expected) in [
        (Interest::PRIORITY, ERROR),
        (Interest::READ | Interest::PRIORITY, ERROR | READABLE),
    ] {
        fixture.add_closed(8, 1..2, Interest::NONE);
        fixture.modify(1, interest);
        assert_eq!(fixture.wait(None), [(1, expected)], "{}", fixture.name);
        fixture.remove(1);
    }
}

/// Adds, unless this is a kqueue, which refuses such an interest.
fn can_watch_for_priority(
    fixture: &mut Fixture,
    fd: &Socket,
    key: u64,
    interest: Interest,
    mode: Mode,
) -> bool {
    match fixture.poller.add(fd, key, interest, mode) {
        Err(Error::NoPriority { .. }) => false,
        added => {
            added.unwrap_or_else(|error| panic!("{}: add {key}: {error}", fixture.name));
            true
        }
    }
}

fn events_carry_all_of_the_key(fixture: &mut Fixture) {
    let (_near, far) = fixture.pair();
    let key = 0xdead_beef_0000_0007;
    fixture.add(&far, key, Interest::WRITE, Mode::Level);
    fixture.expect(&[(key, WRITABLE)]);
}
