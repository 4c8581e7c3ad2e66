//! A source of one descriptor, in each mode.

use std::{
    io::{self, Read, Write},
    os::unix::net::UnixStream,
};

use calloop::{EventLoop, Interest, Mode, PostAction, RegistrationToken, generic::Generic};
use evcore_compat::on_each_backend;

use crate::turn;

on_each_backend!(
    level_mode_reports_until_the_data_is_read,
    oneshot_reports_once_and_again_after_an_update,
    edge_reports_once_for_each_arrival_or_is_refused,
    a_source_changes_its_mode,
    a_disabled_source_is_silent_until_it_is_enabled,
    a_source_that_removes_itself_gets_no_more_reports,
    the_end_of_a_stream_is_reported_after_its_data,
);

type Turns = EventLoop<'static, usize>;

/// Returns a loop that counts the readable reports of a source, the token of the source, and the
/// other end of its stream.
fn counting(mode: Mode) -> calloop::Result<(Turns, RegistrationToken, UnixStream)> {
    let event_loop = EventLoop::try_new()?;
    let (near, far) = UnixStream::pair()?;
    let source = Generic::new(far, Interest::READ, mode);
    let inserted =
        event_loop
            .handle()
            .insert_source(source, |readiness, _, reports: &mut usize| {
                assert!(readiness.readable);
                *reports += 1;
                Ok(PostAction::Continue)
            });
    Ok((event_loop, inserted.map_err(|error| error.error)?, near))
}

/// Number of reports that the source gets in `turns` turns.
fn reports(event_loop: &mut Turns, turns: usize) -> usize {
    let mut reports = 0;
    (0..turns).for_each(|_| turn::once(event_loop, &mut reports));
    reports
}

fn level_mode_reports_until_the_data_is_read() {
    let mut event_loop = EventLoop::try_new().expect("a loop");
    let (mut near, far) = UnixStream::pair().expect("a pair");
    let source = Generic::new(far, Interest::READ, Mode::Level);
    event_loop
        .handle()
        .insert_source(source, |_, far, came: &mut Vec<u8>| {
            let mut byte = [0; 1];
            (&**far).read_exact(&mut byte)?;
            came.extend(byte);
            Ok(PostAction::Continue)
        })
        .expect("it is watched");
    near.write_all(b"abc").expect("written");
    let mut came = Vec::new();
    (0..5).for_each(|_| turn::once(&mut event_loop, &mut came));
    assert_eq!(came, *b"abc");
}

fn oneshot_reports_once_and_again_after_an_update() {
    let (mut event_loop, token, mut near) = counting(Mode::OneShot).expect("it is watched");
    assert_eq!(reports(&mut event_loop, 2), 0);
    near.write_all(b"x").expect("written");
    assert_eq!(reports(&mut event_loop, 3), 1);
    near.write_all(b"x").expect("written");
    assert_eq!(reports(&mut event_loop, 3), 0, "it is not armed");
    event_loop.handle().update(&token).expect("it is armed");
    assert_eq!(reports(&mut event_loop, 3), 1);
}

fn edge_reports_once_for_each_arrival_or_is_refused() {
    let probe = polling::Poller::new().expect("a poller");
    if !probe.supports_edge() {
        let error = counting(Mode::Edge).expect_err("no edge here");
        let calloop::Error::IoError(error) = error else {
            panic!("{error}");
        };
        assert_eq!(error.kind(), io::ErrorKind::Unsupported);
        // Level mode still works after the refusal.
        level_mode_reports_until_the_data_is_read();
        return;
    }
    let (mut event_loop, token, mut near) = counting(Mode::Edge).expect("it is watched");
    for _ in 0..3 {
        near.write_all(b"x").expect("written");
        assert_eq!(reports(&mut event_loop, 3), 1);
    }
    event_loop.handle().update(&token).expect("it is updated");
    assert_eq!(
        reports(&mut event_loop, 3),
        1,
        "an update reports present readiness again"
    );
}

fn a_source_changes_its_mode() {
    let mut event_loop = EventLoop::try_new().expect("a loop");
    let (mut near, far) = UnixStream::pair().expect("a pair");
    let source = Generic::new(far, Interest::READ, Mode::OneShot);
    let source = calloop::Dispatcher::new(source, |_, _, reports: &mut usize| {
        *reports += 1;
        Ok(PostAction::Continue)
    });
    let handle = event_loop.handle();
    let token = handle.register_dispatcher(source.clone()).expect("watched");
    near.write_all(b"x").expect("written");
    assert_eq!(reports(&mut event_loop, 3), 1);

    source.as_source_mut().mode = Mode::Level;
    handle.update(&token).expect("it is updated");
    assert_eq!(reports(&mut event_loop, 3), 3);

    source.as_source_mut().interest = Interest::BOTH;
    handle.update(&token).expect("it is updated");
    assert_eq!(reports(&mut event_loop, 3), 3, "one event for both sides");

    source.as_source_mut().interest = Interest::EMPTY;
    handle.update(&token).expect("it is updated");
    assert_eq!(reports(&mut event_loop, 3), 0);
}

fn a_disabled_source_is_silent_until_it_is_enabled() {
    let (mut event_loop, token, mut near) = counting(Mode::Level).expect("it is watched");
    let handle = event_loop.handle();
    near.write_all(b"x").expect("written");
    for _ in 0..3 {
        assert_eq!(reports(&mut event_loop, 2), 2);
        handle.disable(&token).expect("it is disabled");
        assert_eq!(reports(&mut event_loop, 2), 0);
        handle.enable(&token).expect("it is enabled");
    }
    handle.remove(token);
    assert_eq!(reports(&mut event_loop, 2), 0);
}

fn a_source_that_removes_itself_gets_no_more_reports() {
    let mut event_loop = EventLoop::try_new().expect("a loop");
    let mut ends = Vec::new();
    for _ in 0..50 {
        let (mut near, far) = UnixStream::pair().expect("a pair");
        let source = Generic::new(far, Interest::READ, Mode::Level);
        event_loop
            .handle()
            .insert_source(source, |_, _, reports: &mut usize| {
                *reports += 1;
                Ok(PostAction::Remove)
            })
            .expect("it is watched");
        near.write_all(b"x").expect("written");
        ends.push(near);
    }
    assert_eq!(reports(&mut event_loop, 3), 50);
    // The write fails, because the source's end was closed with the source.
    for mut near in ends {
        near.write_all(b"x").expect_err("the source is gone");
    }
}

fn the_end_of_a_stream_is_reported_after_its_data() {
    let mut event_loop = EventLoop::try_new().expect("a loop");
    let (mut near, far) = UnixStream::pair().expect("a pair");
    let source = Generic::new(far, Interest::READ, Mode::Level);
    let read = |_, far: &mut calloop::generic::NoIoDrop<UnixStream>, came: &mut Vec<usize>| {
        let len = (&**far).read(&mut [0; 4])?;
        came.push(len);
        Ok(if len == 0 {
            PostAction::Remove
        } else {
            PostAction::Continue
        })
    };
    event_loop
        .handle()
        .insert_source(source, read)
        .expect("it is watched");
    near.write_all(b"1234567890").expect("written");
    drop(near);
    let mut came = Vec::new();
    turn::until(&mut event_loop, &mut came, |came| came.last() == Some(&0));
    assert_eq!(came, [4, 4, 2, 0]);
}
