//! `Interest::PRIORITY`: urgent data is reported, and nothing that resembles it.

use std::{
    io::Write,
    net::{TcpListener, TcpStream},
};

use evcore_poller::{Error, Interest, Mode, Ready, Source};
use rustix::net::{RecvFlags, SendFlags, recv, send};

use crate::{
    fixture::{DEADLINE, ERROR, Fixture, READ_CLOSED, READABLE, WRITABLE, WRITE_CLOSED},
    socket::{drain, fill},
};

crate::scenarios! {
    a_hang_up_is_not_priority_data,
    a_refused_change_is_not_priority_data;
    of kernels alone:
    priority_data_before_the_first_wait_is_reported,
    priority_data_after_a_wait_is_reported,
    priority_data_behind_unread_data_is_reported,
    priority_data_is_reported_to_a_writer_without_room,
    data_is_not_priority_data,
}

const MODES: [Mode; 3] = [Mode::Level, Mode::Edge, Mode::Oneshot];

/// Two connected non-blocking TCP sockets, because Unix sockets have urgent data only on some
/// systems.
fn tcp_pair() -> (TcpStream, TcpStream) {
    let listener = TcpListener::bind("127.0.0.1:0").expect("listen");
    let address = listener.local_addr().expect("an address");
    let near = TcpStream::connect(address).expect("connect");
    let (far, _) = listener.accept().expect("accept");
    for end in [&near, &far] {
        end.set_nonblocking(true).expect("non-blocking");
    }
    (near, far)
}

fn send_urgent(near: &TcpStream) {
    send(near, b"!", SendFlags::OOB).expect("send");
}

/// Takes the urgent byte. The data before it stays.
fn take_urgent(far: &TcpStream) {
    let mut byte = [0];
    recv(far, &mut byte, RecvFlags::OOB).expect("the urgent byte");
    assert_eq!(&byte, b"!");
}

/// Registers `source` under key 1. Returns whether the backend takes the interest.
fn can_watch(fixture: &mut Fixture, source: &impl Source, interest: Interest, mode: Mode) -> bool {
    match fixture.poller.add(source, 1, interest, mode) {
        Err(Error::NoPriority { .. }) => {
            let is_expected = !fixture.platform.backend().has_priority();
            assert!(is_expected, "{}", fixture.name);
            false
        }
        added => {
            added.unwrap_or_else(|error| panic!("{}: add: {error}", fixture.name));
            true
        }
    }
}

/// Expects the urgent byte to be reported until it is taken: in every wait with `Mode::Level`, and
/// otherwise once.
fn expect_urgent(fixture: &mut Fixture, far: &TcpStream, mode: Mode) {
    let expected = [(1, Ready::PRIORITY)];
    let first = fixture.wait(Some(DEADLINE));
    assert_eq!(first, expected, "{}: {mode:?}", fixture.name);
    let again = if mode == Mode::Level {
        &expected[..]
    } else {
        &[]
    };
    assert_eq!(fixture.now(), again, "{}: {mode:?}", fixture.name);
    take_urgent(far);
    fixture.expect_silence();
}

fn answer(fixture: &mut Fixture, interest: Interest, mode: Mode) {
    match mode {
        Mode::Level | Mode::Exclusive => {}
        Mode::Edge | Mode::ExclusiveEdge => fixture.rearm(1, interest),
        Mode::Oneshot => fixture.modify(1, interest),
    }
}

fn priority_data_before_the_first_wait_is_reported(fixture: &mut Fixture) {
    for mode in MODES {
        let (near, far) = tcp_pair();
        if !can_watch(fixture, &far, Interest::PRIORITY, mode) {
            return;
        }
        send_urgent(&near);
        expect_urgent(fixture, &far, mode);
        fixture.remove(1);
    }
}

fn priority_data_after_a_wait_is_reported(fixture: &mut Fixture) {
    for mode in MODES {
        let (near, far) = tcp_pair();
        if !can_watch(fixture, &far, Interest::PRIORITY, mode) {
            return;
        }
        for _ in 0..3 {
            fixture.expect_silence();
            send_urgent(&near);
            expect_urgent(fixture, &far, mode);
            answer(fixture, Interest::PRIORITY, mode);
        }
        fixture.remove(1);
    }
}

/// Other data is not reported, does not end a wait, and does not hide priority data.
fn priority_data_behind_unread_data_is_reported(fixture: &mut Fixture) {
    for mode in MODES {
        let (mut near, far) = tcp_pair();
        if !can_watch(fixture, &far, Interest::PRIORITY, mode) {
            return;
        }
        near.write_all(b"a").expect("write");
        for _ in 0..3 {
            fixture.expect_silence();
            near.write_all(b"b").expect("write");
            fixture.expect_silence();
            send_urgent(&near);
            expect_urgent(fixture, &far, mode);
            answer(fixture, Interest::PRIORITY, mode);
        }
        fixture.remove(1);
    }
}

fn priority_data_is_reported_to_a_writer_without_room(fixture: &mut Fixture) {
    let interest = Interest::WRITE | Interest::PRIORITY;
    for mode in MODES {
        let (mut near, far) = tcp_pair();
        fill(&far);
        if !can_watch(fixture, &far, interest, mode) {
            return;
        }
        fixture.expect_silence();
        send_urgent(&near);
        expect_urgent(fixture, &far, mode);
        answer(fixture, interest, mode);
        near.write_all(b"a").expect("write");
        fixture.expect_silence();
        drain(&near);
        let trace = fixture.wait(Some(DEADLINE));
        assert_eq!(trace, [(1, WRITABLE)], "{}: {mode:?}", fixture.name);
        fixture.remove(1);
    }
}

fn data_is_not_priority_data(fixture: &mut Fixture) {
    let interest = Interest::READ | Interest::PRIORITY;
    for mode in MODES {
        let (mut near, far) = tcp_pair();
        if !can_watch(fixture, &far, interest, mode) {
            return;
        }
        fixture.expect_silence();
        near.write_all(b"a").expect("write");
        let trace = fixture.wait(Some(DEADLINE));
        assert_eq!(trace, [(1, READABLE)], "{}: {mode:?}", fixture.name);
        fixture.remove(1);
    }
}

/// Backends differ: select does not report a hang-up if the interest includes neither reading nor
/// writing.
fn a_hang_up_is_not_priority_data(fixture: &mut Fixture) {
    let everything = Interest::BOTH | Interest::PRIORITY;
    for mode in MODES {
        for (interest, expected) in [
            (Interest::PRIORITY, WRITE_CLOSED),
            (everything, READABLE | READ_CLOSED | WRITABLE | WRITE_CLOSED),
        ] {
            let (near, far) = fixture.pair();
            drop(near);
            if !can_watch(fixture, &far, interest, mode) {
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

fn a_refused_change_is_not_priority_data(fixture: &mut Fixture) {
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
