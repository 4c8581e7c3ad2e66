//! `Mode::Level`: reported in every wait for as long as it holds.

use std::{
    io::{Read, Write},
    net::{TcpListener, TcpStream},
};

use evcore_poller::{Error, Interest, Mode, Ready};
use rustix::net::{SendFlags, send};

use crate::{
    socket::{drain, fill},
    stage::{PATIENCE, READABLE, Stage, WRITABLE},
};

crate::scenarios! {
    reading_is_reported_while_there_is_data,
    writing_is_reported_while_there_is_room,
    both_sides_are_reported_in_one_event,
    only_what_is_asked_is_reported,
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

/// Here backends differ: not every kqueue has a filter for it, so it is refused.
fn priority_data_is_told_apart(stage: &mut Stage) {
    let listener = TcpListener::bind("127.0.0.1:0").expect("listen");
    let address = listener.local_addr().expect("an address");
    let near = TcpStream::connect(address).expect("connect");
    let (far, _) = listener.accept().expect("accept");

    if stage.poller.name() == "kqueue" {
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

fn events_carry_all_of_the_key(stage: &mut Stage) {
    let (_near, far) = stage.pair();
    let key = 0xdead_beef_0000_0007;
    stage.add(&far, key, Interest::WRITE, Mode::Level);
    stage.expect(&[(key, WRITABLE)]);
}
