//! Streams that end: half-closed, closed and broken, with unread data and without.

use std::{
    io::{Read, Write},
    os::fd::OwnedFd,
};

use evcore_poller::{Interest, Mode, Ready};
use rustix::{io::ioctl_fionbio, pipe::pipe};

use crate::{
    fixture::{Fixture, READ_CLOSED, READABLE, WRITABLE, WRITE_CLOSED},
    socket::{Drained, Socket, drain, fill},
};

crate::scenarios! {
    level_reports_data_and_the_half_close_behind_it,
    edge_reports_data_and_the_half_close_behind_it,
    oneshot_reports_data_and_the_half_close_behind_it,
    edge_reports_a_half_close_after_the_drain,
    a_half_close_leaves_the_other_side_writable,
    a_closed_peer_is_reported_to_an_interest_in_reading,
    a_closed_peer_is_reported_to_an_interest_in_writing,
    exactly_one_buffer_and_then_the_end,
    everything_that_fits_and_then_the_end,
    an_empty_interest_reports_no_end,
    the_users_own_shutdown_is_not_a_hang_up,
    edge_reports_a_half_close_behind_an_unanswered_report_once,
    edge_reports_a_hang_up_behind_an_unanswered_report_once,
    edge_reports_a_hang_up_behind_a_half_close;
    of kernels alone:
    edge_reports_an_error_behind_an_unanswered_report_once,
    a_hang_up_sets_the_side_of_a_reader,
    an_error_sets_the_side_of_a_writer,
    edge_reports_an_error_once,
}

/// Registers a socket for reading after its peer has written a byte and shut its side.
fn half_close(fixture: &mut Fixture, mode: Mode) -> [Socket; 2] {
    let (mut near, far) = fixture.pair();
    near.write_all(b"a").expect("write");
    near.shutdown_write().expect("shutdown");
    fixture.add(&far, 1, Interest::READ, mode);
    fixture.expect(&[(1, READABLE | READ_CLOSED)]);
    [near, far]
}

fn level_reports_data_and_the_half_close_behind_it(fixture: &mut Fixture) {
    let [_near, far] = half_close(fixture, Mode::Level);
    (&far).read_exact(&mut [0]).expect("the data first");
    fixture.expect(&[(1, READABLE | READ_CLOSED)]);
    assert_eq!(drain(&far), (0, Drained::AtEnd));
    fixture.expect(&[(1, READABLE | READ_CLOSED)]);
}

fn edge_reports_data_and_the_half_close_behind_it(fixture: &mut Fixture) {
    let [_near, far] = half_close(fixture, Mode::Edge);
    fixture.expect_nothing();
    assert_eq!(drain(&far), (1, Drained::AtEnd));
    fixture.expect_nothing();
}

fn oneshot_reports_data_and_the_half_close_behind_it(fixture: &mut Fixture) {
    let [_near, far] = half_close(fixture, Mode::Oneshot);
    fixture.expect_nothing();
    (&far).read_exact(&mut [0]).expect("the data first");
    fixture.modify(1, Interest::READ);
    fixture.expect(&[(1, READABLE | READ_CLOSED)]);
    assert_eq!(drain(&far), (0, Drained::AtEnd));
    fixture.expect_nothing();
}

fn edge_reports_a_half_close_after_the_drain(fixture: &mut Fixture) {
    let (mut near, far) = fixture.pair();
    fixture.add(&far, 1, Interest::READ, Mode::Edge);
    near.write_all(b"a").expect("write");
    fixture.expect(&[(1, READABLE)]);
    assert_eq!(drain(&far), (1, Drained::Empty));
    fixture.rearm(1, Interest::READ);
    near.shutdown_write().expect("shutdown");
    fixture.expect(&[(1, READABLE | READ_CLOSED)]);
    fixture.expect_nothing();
}

fn a_half_close_leaves_the_other_side_writable(fixture: &mut Fixture) {
    let (near, far) = fixture.pair();
    fixture.add(&far, 1, Interest::BOTH, Mode::Level);
    near.shutdown_write().expect("shutdown");
    fixture.expect(&[(1, READABLE | READ_CLOSED | WRITABLE)]);
    (&far).write_all(b"a").expect("the peer still reads");
    fill(&far);
    fixture.expect(&[(1, READABLE | READ_CLOSED)]);
}

fn a_closed_peer_is_reported_to_an_interest_in_reading(fixture: &mut Fixture) {
    for (key, mode) in [(1, Mode::Level), (2, Mode::Edge), (3, Mode::Oneshot)] {
        let (near, far) = fixture.pair();
        fixture.add(&far, key, Interest::READ, mode);
        drop(near);
        fixture.expect(&[(key, READABLE | READ_CLOSED | WRITE_CLOSED)]);
        assert_eq!(drain(&far), (0, Drained::AtEnd));
        fixture.remove(key);
    }
}

fn a_closed_peer_is_reported_to_an_interest_in_writing(fixture: &mut Fixture) {
    for (key, mode) in [(1, Mode::Level), (2, Mode::Edge), (3, Mode::Oneshot)] {
        let (near, far) = fixture.pair();
        fixture.add(&far, key, Interest::WRITE, mode);
        drop(near);
        fixture.expect(&[(key, WRITABLE | WRITE_CLOSED)]);
        assert!((&far).write(b"a").is_err());
        fixture.remove(key);
    }
}

fn exactly_one_buffer_and_then_the_end(fixture: &mut Fixture) {
    const BUFFER: usize = 4096;
    for (key, mode) in [(1, Mode::Level), (2, Mode::Edge)] {
        let (mut near, mut far) = fixture.pair();
        near.write_all(&[b'x'; BUFFER]).expect("write");
        drop(near);
        fixture.add(&far, key, Interest::READ, mode);
        fixture.expect(&[(key, READABLE | READ_CLOSED | WRITE_CLOSED)]);
        // A read that fills the buffer does not show the end, so a second read follows.
        let mut buffer = [0; BUFFER];
        assert_eq!(far.read(&mut buffer).expect("the data"), BUFFER);
        assert_eq!(far.read(&mut buffer).expect("the end"), 0);
        fixture.remove(key);
    }
}

fn everything_that_fits_and_then_the_end(fixture: &mut Fixture) {
    let (near, mut far) = fixture.pair();
    let written = fill(&near);
    drop(near);
    fixture.add(&far, 1, Interest::READ, Mode::Level);
    let mut read = 0;
    loop {
        fixture.expect(&[(1, READABLE | READ_CLOSED | WRITE_CLOSED)]);
        match far.read(&mut [0; 4096]).expect("read") {
            0 => break,
            n => read += n,
        }
    }
    assert_eq!(read, written, "{}: data before the end", fixture.name);
}

fn a_hang_up_sets_the_side_of_a_reader(fixture: &mut Fixture) {
    let (reader, writer) = pipe().expect("a pipe");
    drop(writer);
    fixture.add(&reader, 1, Interest::READ, Mode::Level);
    let reported = fixture.platform.backend().pipe_without_a_writer();
    assert_eq!(fixture.now(), [(1, reported)], "{}", fixture.name);
}

/// A pipe whose writing end is full.
fn full_pipe() -> (OwnedFd, OwnedFd) {
    let (reader, writer) = pipe().expect("a pipe");
    ioctl_fionbio(&writer, true).expect("a flag");
    while rustix::io::write(&writer, &[0; 4096]).is_ok() {}
    (reader, writer)
}

fn an_error_sets_the_side_of_a_writer(fixture: &mut Fixture) {
    let (reader, writer) = full_pipe();
    drop(reader);
    let backend = fixture.platform.backend();
    if !backend.takes_a_pipe_without_a_reader() {
        let refused = fixture.poller.add(&writer, 1, Interest::WRITE, Mode::Level);
        assert!(refused.is_err(), "{}", fixture.name);
        return;
    }
    fixture.add(&writer, 1, Interest::WRITE, Mode::Level);
    for _ in 0..2 {
        let reported = backend.pipe_without_a_reader();
        assert_eq!(fixture.now(), [(1, reported)], "{}", fixture.name);
    }
}

fn edge_reports_an_error_once(fixture: &mut Fixture) {
    let (reader, writer) = full_pipe();
    fixture.add(&writer, 1, Interest::WRITE, Mode::Edge);
    fixture.expect_nothing();
    drop(reader);
    let reported = fixture.platform.backend().pipe_without_a_reader();
    assert_eq!(fixture.now(), [(1, reported)], "{}", fixture.name);
    fixture.expect_nothing();
}

fn an_empty_interest_reports_no_end(fixture: &mut Fixture) {
    let (near, far) = fixture.pair();
    fixture.add(&far, 1, Interest::NONE, Mode::Level);
    drop(near);
    fixture.expect_nothing();
    fixture.modify(1, Interest::READ);
    fixture.expect(&[(1, READABLE | READ_CLOSED | WRITE_CLOSED)]);
    fixture.modify(1, Interest::NONE);
    fixture.expect_nothing();
}

fn the_users_own_shutdown_is_not_a_hang_up(fixture: &mut Fixture) {
    for (key, mode) in [(1, Mode::Level), (2, Mode::Edge), (3, Mode::Oneshot)] {
        for interest in [Interest::WRITE, Interest::BOTH] {
            let (near, far) = fixture.pair();
            fixture.add(&far, key, interest, mode);
            far.shutdown_write().expect("shutdown");
            fixture.expect(&[(key, WRITABLE)]);
            assert_eq!(drain(&near), (0, Drained::AtEnd));
            fixture.remove(key);
        }
    }
}

/// A socket that is registered for reading and writing. Both have been reported, and neither was
/// rearmed.
fn unanswered(fixture: &mut Fixture) -> (Socket, Socket) {
    let (mut near, far) = fixture.pair();
    near.write_all(b"a").expect("write");
    fixture.add(&far, 1, Interest::BOTH, Mode::Edge);
    fixture.expect(&[(1, READABLE | WRITABLE)]);
    fixture.expect_silence();
    (near, far)
}

fn edge_reports_a_half_close_behind_an_unanswered_report_once(fixture: &mut Fixture) {
    let (near, far) = unanswered(fixture);
    near.shutdown_write().expect("shutdown");
    fixture.expect_end(1, READABLE | READ_CLOSED, WRITABLE);
    fixture.expect_silence();
    assert_eq!(drain(&far), (1, Drained::AtEnd));
}

fn edge_reports_a_hang_up_behind_an_unanswered_report_once(fixture: &mut Fixture) {
    let (near, far) = unanswered(fixture);
    drop(near);
    let end = READABLE | WRITABLE | READ_CLOSED | WRITE_CLOSED;
    fixture.expect_end(1, end, Ready::NONE);
    fixture.expect_silence();
    assert_eq!(drain(&far), (1, Drained::AtEnd));
}

fn edge_reports_a_hang_up_behind_a_half_close(fixture: &mut Fixture) {
    let (near, _far) = unanswered(fixture);
    near.shutdown_write().expect("shutdown");
    fixture.expect_end(1, READABLE | READ_CLOSED, WRITABLE);
    drop(near);
    fixture.expect_end(1, READABLE | WRITABLE | WRITE_CLOSED, READ_CLOSED);
    fixture.expect_silence();
}

fn edge_reports_an_error_behind_an_unanswered_report_once(fixture: &mut Fixture) {
    let (reader, writer) = pipe().expect("a pipe");
    fixture.add(&writer, 1, Interest::WRITE, Mode::Edge);
    fixture.expect(&[(1, WRITABLE)]);
    fixture.expect_silence();
    drop(reader);
    let end = fixture.platform.backend().pipe_without_a_reader();
    fixture.expect_end(1, end, Ready::NONE);
    fixture.expect_silence();
}
