//! `Interest::PRIORITY`: urgent data, and nothing that only resembles it.

use std::net::{TcpListener, TcpStream};

use evcore_poller::{Error, Interest, Mode, Ready};
use rustix::net::{SendFlags, send};

use crate::{
    fixture::{DEADLINE, ERROR, Fixture, READ_CLOSED, READABLE, WRITABLE, WRITE_CLOSED},
    socket::Socket,
};

crate::scenarios! {
    a_hang_up_is_no_priority_data,
    a_refused_change_is_no_priority_data;
    of kernels alone:
    priority_data_is_distinguished,
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
