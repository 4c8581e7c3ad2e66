//! Recordings that are made on sockets, with real clients.

use std::{
    io::{Read, Write},
    net::{SocketAddr, TcpStream},
    panic::{AssertUnwindSafe, catch_unwind},
    thread,
};

use evcore::{Builder, Listener, clock::SystemTimeSource, poller::BackendKind};
use evcore_recording::{End, Recorder, Recording, Replay};

use crate::echo::{Bug, Log, serve};

/// Number of requests of each client.
const REQUESTS: u32 = 40;

/// Starts several clients. Each sends a letter again and again.
pub(crate) fn clients(server: SocketAddr) -> Vec<thread::JoinHandle<()>> {
    let client = move |letter: u8| {
        let mut stream = TcpStream::connect(server).expect("it listens");
        for _ in 0..REQUESTS {
            let mut answer = [0];
            // The server may panic.
            if stream.write_all(&[letter]).is_err() || stream.read_exact(&mut answer).is_err() {
                return;
            }
            assert_eq!(answer[0].to_ascii_lowercase(), letter);
        }
    };
    (b'a'..=b'e')
        .map(|letter| thread::spawn(move || client(letter)))
        .collect()
}

/// Runs a server with clients, and returns its log and its recording.
pub(crate) fn record(kind: BackendKind, bug: Bug) -> (Log, Vec<u8>) {
    let recorder = Recorder::in_memory(1 << 20);
    let log = record_into(&recorder, kind, bug, all_answered);
    assert!(!recorder.is_full());
    (log, recorder.to_bytes())
}

/// Runs a server with clients, and returns its log.
fn record_into(
    recorder: &Recorder,
    kind: BackendKind,
    bug: Bug,
    is_done: impl FnMut(&Log) -> bool,
) -> Log {
    let listener = Listener::bind("127.0.0.1:0").expect("a port is free");
    let address = listener.local_addr().tcp().expect("it is TCP");
    let mut ev = Builder::default()
        .clock(recorder.clock(SystemTimeSource::new()))
        .backend(recorder.backend(kind.open().expect("it is usable")))
        .listener(recorder.listener(listener))
        .build()
        .expect("a loop");
    let clients = clients(address);
    let mut log = Log::default();
    // A planted panic ends the run, as it would end a program.
    let run = AssertUnwindSafe(|| {
        serve(&mut ev, &mut log, bug, is_done).expect("no wait fails");
    });
    let result = catch_unwind(run);
    assert_eq!(result.is_err(), matches!(bug, Bug::PanicsAt(_)));
    drop(ev);
    for client in clients {
        let _ = client.join();
    }
    log
}

fn all_answered(log: &Log) -> bool {
    log.sent.len() == 5 * REQUESTS as usize
}

/// Runs the server on a recording, until the recording ends or `is_done` holds.
pub(crate) fn replay(bytes: &[u8], bug: Bug, is_done: impl FnMut(&Log) -> bool) -> (Log, Replay) {
    let recording = Recording::read(bytes).expect("it is one");
    let replay = Replay::new(recording);
    let mut ev = Builder::default()
        .clock(replay.clock())
        .backend(replay.backend())
        .listener(replay.listener())
        .build()
        .expect("a loop");
    let mut log = Log::default();
    let _ = serve(&mut ev, &mut log, bug, is_done);
    drop(ev);
    (log, replay)
}

#[test]
fn a_replay_takes_the_same_steps_and_sends_the_same() {
    for kind in BackendKind::usable() {
        let (recorded, bytes) = record(kind, Bug::None);
        assert_eq!(recorded.requests, 5 * REQUESTS);
        let (replayed, replay) = replay(&bytes, Bug::None, all_answered);
        assert_eq!(replay.difference(), None, "{kind}");
        assert!(replay.is_at_end(), "{kind}");
        assert_eq!(replayed, recorded, "{kind}");
        assert_eq!(Recording::read(&bytes).unwrap().end(), End::Whole);
    }
}

#[test]
fn a_panic_at_a_request_comes_back_in_ten_of_ten_replays() {
    let bug = Bug::PanicsAt(123);
    let (recorded, bytes) = record(BackendKind::usable()[0], bug);
    assert_eq!(recorded.requests, 123);
    for _ in 0..10 {
        let panicked = catch_unwind(|| replay(&bytes, bug, all_answered));
        let panic = panicked.expect_err("the panic comes back");
        let message = panic.downcast_ref::<String>().expect("a message");
        assert!(message.contains("planted"), "{message}");
        // The steps up to the panic are the same.
        let (log, _) = replay(&bytes, Bug::None, all_answered);
        assert_eq!(log.steps[..recorded.steps.len()], recorded.steps);
    }
}

#[test]
fn a_lost_rearm_comes_back_in_ten_of_ten_replays() {
    // At this request, no client has all its answers.
    let bug = Bug::LosesRearmAt(REQUESTS / 2);
    let are_others_served = |log: &Log| log.closed == 4;
    let recorder = Recorder::in_memory(1 << 20);
    // `poll` is not edge-triggered. So the poller stops watching a direction (reading or writing)
    // that it has reported, until the server rearms that direction.
    let recorded = record_into(&recorder, BackendKind::Poll, bug, are_others_served);
    assert!(recorded.lost_rearm);
    let bytes = recorder.to_bytes();
    for _ in 0..10 {
        let (replayed, replay) = replay(&bytes, bug, are_others_served);
        assert_eq!(replay.difference(), None);
        assert_eq!(replayed, recorded);
    }
    assert!(
        recorded.sent.len() < 5 * REQUESTS as usize,
        "one client waits"
    );
    let (_, replay) = replay(&bytes, Bug::None, are_others_served);
    assert!(replay.difference().is_some(), "without the bug it receives");
}

#[test]
fn a_restarted_recording_is_replayed_from_the_restart() {
    let recorder = Recorder::in_memory(1 << 16);
    let kind = BackendKind::usable()[0];
    let before = record_into(&recorder, kind, Bug::None, all_answered);
    recorder.restart();
    let recorded = record_into(&recorder, kind, Bug::None, all_answered);
    assert_ne!(before.steps, recorded.steps);
    let (replayed, replay) = replay(&recorder.to_bytes(), Bug::None, all_answered);
    assert_eq!(replay.difference(), None);
    assert_eq!(replayed, recorded);
}

#[test]
fn a_full_recording_is_replayed_to_its_last_whole_turn() {
    let recorder = Recorder::in_memory(4_000);
    let recorded = record_into(&recorder, BackendKind::usable()[0], Bug::None, all_answered);
    assert!(recorder.is_full());
    let bytes = recorder.to_bytes();
    assert_eq!(Recording::read(&bytes).unwrap().end(), End::Full);
    let (replayed, replay) = replay(&bytes, Bug::None, all_answered);
    assert_eq!(replay.difference(), None);
    assert!(replayed.requests > 20 && replayed.requests < recorded.requests);
    // The replay has no step of the turn that did not fit.
    assert!(recorded.steps.starts_with(&replayed.steps));
    assert_eq!(replay.turn() + 1, Recording::read(&bytes).unwrap().len());
}
