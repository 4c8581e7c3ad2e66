//! The ends of streams: half-closed, closed, broken; with data still to be read and without.

use std::{
    io::{Read, Write},
    os::fd::OwnedFd,
};

use evcore_poller::{Interest, Mode, Ready};
use rustix::{io::ioctl_fionbio, pipe::pipe};

use crate::{
    socket::{Drained, Socket, drain, fill},
    stage::{READ_CLOSED, READABLE, Stage, WRITABLE, WRITE_CLOSED},
};

crate::scenarios! {
    level_tells_of_data_and_of_the_half_close_behind_it,
    edge_tells_of_data_and_of_the_half_close_behind_it,
    oneshot_tells_of_data_and_of_the_half_close_behind_it,
    edge_tells_of_a_half_close_after_the_drain,
    a_half_close_leaves_the_other_side_writable,
    a_closed_peer_is_told_to_whoever_reads,
    a_closed_peer_is_told_to_whoever_writes,
    exactly_a_buffer_full_and_then_the_end,
    all_that_fits_and_then_the_end,
    nothing_asked_is_nothing_told_of_the_end,
    ones_own_shutdown_is_no_hang_up,
    edge_reports_a_half_close_behind_an_unanswered_report_once,
    edge_reports_a_hang_up_behind_an_unanswered_report_once,
    edge_reports_a_hang_up_behind_a_half_close;
    of kernels alone:
    edge_reports_an_error_behind_an_unanswered_report_once,
    a_hang_up_alone_is_told_to_the_reader,
    an_error_alone_is_told_to_the_writer,
    edge_tells_of_an_error_once,
}

/// The peer has written a byte and shut its side before the other end is registered for reading.
fn half_close(stage: &mut Stage, mode: Mode) -> [Socket; 2] {
    let (mut near, far) = stage.pair();
    near.write_all(b"a").expect("write");
    near.shutdown_write().expect("shutdown");
    stage.add(&far, 1, Interest::READ, mode);
    stage.expect(&[(1, READABLE | READ_CLOSED)]);
    [near, far]
}

fn level_tells_of_data_and_of_the_half_close_behind_it(stage: &mut Stage) {
    let [_near, far] = half_close(stage, Mode::Level);
    (&far).read_exact(&mut [0]).expect("the data first");
    stage.expect(&[(1, READABLE | READ_CLOSED)]);
    assert_eq!(drain(&far), (0, Drained::AtEnd));
    stage.expect(&[(1, READABLE | READ_CLOSED)]);
}

fn edge_tells_of_data_and_of_the_half_close_behind_it(stage: &mut Stage) {
    let [_near, far] = half_close(stage, Mode::Edge);
    stage.expect_nothing();
    assert_eq!(drain(&far), (1, Drained::AtEnd));
    stage.expect_nothing();
}

fn oneshot_tells_of_data_and_of_the_half_close_behind_it(stage: &mut Stage) {
    let [_near, far] = half_close(stage, Mode::Oneshot);
    stage.expect_nothing();
    (&far).read_exact(&mut [0]).expect("the data first");
    stage.modify(1, Interest::READ);
    stage.expect(&[(1, READABLE | READ_CLOSED)]);
    assert_eq!(drain(&far), (0, Drained::AtEnd));
    stage.expect_nothing();
}

fn edge_tells_of_a_half_close_after_the_drain(stage: &mut Stage) {
    let (mut near, far) = stage.pair();
    stage.add(&far, 1, Interest::READ, Mode::Edge);
    near.write_all(b"a").expect("write");
    stage.expect(&[(1, READABLE)]);
    assert_eq!(drain(&far), (1, Drained::Empty));
    stage.rearm(1, Interest::READ);
    near.shutdown_write().expect("shutdown");
    stage.expect(&[(1, READABLE | READ_CLOSED)]);
    stage.expect_nothing();
}

fn a_half_close_leaves_the_other_side_writable(stage: &mut Stage) {
    let (near, far) = stage.pair();
    stage.add(&far, 1, Interest::BOTH, Mode::Level);
    near.shutdown_write().expect("shutdown");
    stage.expect(&[(1, READABLE | READ_CLOSED | WRITABLE)]);
    (&far).write_all(b"a").expect("the peer still reads");
    fill(&far);
    stage.expect(&[(1, READABLE | READ_CLOSED)]);
}

fn a_closed_peer_is_told_to_whoever_reads(stage: &mut Stage) {
    for (key, mode) in [(1, Mode::Level), (2, Mode::Edge), (3, Mode::Oneshot)] {
        let (near, far) = stage.pair();
        stage.add(&far, key, Interest::READ, mode);
        drop(near);
        stage.expect(&[(key, READABLE | READ_CLOSED | WRITE_CLOSED)]);
        assert_eq!(drain(&far), (0, Drained::AtEnd));
        stage.remove(key);
    }
}

fn a_closed_peer_is_told_to_whoever_writes(stage: &mut Stage) {
    for (key, mode) in [(1, Mode::Level), (2, Mode::Edge), (3, Mode::Oneshot)] {
        let (near, far) = stage.pair();
        stage.add(&far, key, Interest::WRITE, mode);
        drop(near);
        stage.expect(&[(key, WRITABLE | WRITE_CLOSED)]);
        assert!((&far).write(b"a").is_err());
        stage.remove(key);
    }
}

fn exactly_a_buffer_full_and_then_the_end(stage: &mut Stage) {
    const BUFFER: usize = 4096;
    for (key, mode) in [(1, Mode::Level), (2, Mode::Edge)] {
        let (mut near, mut far) = stage.pair();
        near.write_all(&[b'x'; BUFFER]).expect("write");
        drop(near);
        stage.add(&far, key, Interest::READ, mode);
        stage.expect(&[(key, READABLE | READ_CLOSED | WRITE_CLOSED)]);
        // A read that fills the buffer says nothing of what comes after: it is to be asked again.
        let mut buffer = [0; BUFFER];
        assert_eq!(far.read(&mut buffer).expect("the data"), BUFFER);
        assert_eq!(far.read(&mut buffer).expect("the end"), 0);
        stage.remove(key);
    }
}

fn all_that_fits_and_then_the_end(stage: &mut Stage) {
    let (near, mut far) = stage.pair();
    let written = fill(&near);
    drop(near);
    stage.add(&far, 1, Interest::READ, Mode::Level);
    let mut read = 0;
    loop {
        stage.expect(&[(1, READABLE | READ_CLOSED | WRITE_CLOSED)]);
        match far.read(&mut [0; 4096]).expect("read") {
            0 => break,
            n => read += n,
        }
    }
    assert_eq!(read, written, "{}: data before the end", stage.name);
}

fn a_hang_up_alone_is_told_to_the_reader(stage: &mut Stage) {
    let (reader, writer) = pipe().expect("a pipe");
    drop(writer);
    stage.add(&reader, 1, Interest::READ, Mode::Level);
    let said = stage.ground.backend().pipe_without_a_writer();
    assert_eq!(stage.now(), [(1, said)], "{}", stage.name);
}

/// A pipe whose writing end is full.
fn full_pipe() -> (OwnedFd, OwnedFd) {
    let (reader, writer) = pipe().expect("a pipe");
    ioctl_fionbio(&writer, true).expect("a flag");
    while rustix::io::write(&writer, &[0; 4096]).is_ok() {}
    (reader, writer)
}

fn an_error_alone_is_told_to_the_writer(stage: &mut Stage) {
    let (reader, writer) = full_pipe();
    drop(reader);
    let backend = stage.ground.backend();
    if !backend.takes_a_pipe_without_a_reader() {
        let refused = stage.poller.add(&writer, 1, Interest::WRITE, Mode::Level);
        assert!(refused.is_err(), "{}", stage.name);
        return;
    }
    stage.add(&writer, 1, Interest::WRITE, Mode::Level);
    for _ in 0..2 {
        let said = backend.pipe_without_a_reader();
        assert_eq!(stage.now(), [(1, said)], "{}", stage.name);
    }
}

fn edge_tells_of_an_error_once(stage: &mut Stage) {
    let (reader, writer) = full_pipe();
    stage.add(&writer, 1, Interest::WRITE, Mode::Edge);
    stage.expect_nothing();
    drop(reader);
    let said = stage.ground.backend().pipe_without_a_reader();
    assert_eq!(stage.now(), [(1, said)], "{}", stage.name);
    stage.expect_nothing();
}

fn nothing_asked_is_nothing_told_of_the_end(stage: &mut Stage) {
    let (near, far) = stage.pair();
    stage.add(&far, 1, Interest::NONE, Mode::Level);
    drop(near);
    stage.expect_nothing();
    stage.modify(1, Interest::READ);
    stage.expect(&[(1, READABLE | READ_CLOSED | WRITE_CLOSED)]);
    stage.modify(1, Interest::NONE);
    stage.expect_nothing();
}

fn ones_own_shutdown_is_no_hang_up(stage: &mut Stage) {
    for (key, mode) in [(1, Mode::Level), (2, Mode::Edge), (3, Mode::Oneshot)] {
        for interest in [Interest::WRITE, Interest::BOTH] {
            let (near, far) = stage.pair();
            stage.add(&far, key, interest, mode);
            far.shutdown_write().expect("shutdown");
            stage.expect(&[(key, WRITABLE)]);
            assert_eq!(drain(&near), (0, Drained::AtEnd));
            stage.remove(key);
        }
    }
}

/// A registration for both sides, both of which have reported, and neither of which was rearmed.
fn unanswered(stage: &mut Stage) -> (Socket, Socket) {
    let (mut near, far) = stage.pair();
    near.write_all(b"a").expect("write");
    stage.add(&far, 1, Interest::BOTH, Mode::Edge);
    stage.expect(&[(1, READABLE | WRITABLE)]);
    stage.expect_silence();
    (near, far)
}

fn edge_reports_a_half_close_behind_an_unanswered_report_once(stage: &mut Stage) {
    let (near, far) = unanswered(stage);
    near.shutdown_write().expect("shutdown");
    stage.expect_end(1, READABLE | READ_CLOSED, WRITABLE);
    stage.expect_silence();
    assert_eq!(drain(&far), (1, Drained::AtEnd));
}

fn edge_reports_a_hang_up_behind_an_unanswered_report_once(stage: &mut Stage) {
    let (near, far) = unanswered(stage);
    drop(near);
    let end = READABLE | WRITABLE | READ_CLOSED | WRITE_CLOSED;
    stage.expect_end(1, end, Ready::NONE);
    stage.expect_silence();
    assert_eq!(drain(&far), (1, Drained::AtEnd));
}

fn edge_reports_a_hang_up_behind_a_half_close(stage: &mut Stage) {
    let (near, _far) = unanswered(stage);
    near.shutdown_write().expect("shutdown");
    stage.expect_end(1, READABLE | READ_CLOSED, WRITABLE);
    drop(near);
    stage.expect_end(1, READABLE | WRITABLE | WRITE_CLOSED, READ_CLOSED);
    stage.expect_silence();
}

fn edge_reports_an_error_behind_an_unanswered_report_once(stage: &mut Stage) {
    let (reader, writer) = pipe().expect("a pipe");
    stage.add(&writer, 1, Interest::WRITE, Mode::Edge);
    stage.expect(&[(1, WRITABLE)]);
    stage.expect_silence();
    drop(reader);
    let end = stage.ground.backend().pipe_without_a_reader();
    stage.expect_end(1, end, Ready::NONE);
    stage.expect_silence();
}
