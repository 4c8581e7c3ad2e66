//! Records `httpd` on sockets, and runs it again on the recording. The replay must have the same
//! flight records (the loop's actions, as its flight recorder keeps them), and send the same bytes
//! to every client.

use std::{
    io::{Read, Write},
    net::{Shutdown, SocketAddr, TcpStream},
    panic::{AssertUnwindSafe, catch_unwind},
    thread,
    time::Duration,
};

use evcore::{
    Acceptor, Builder, EventLoop, InstrumentOptions, Listener, Record, Transport,
    balancer::WorkerId,
    clock::SystemTimeSource,
    poller::{BackendKind, Source},
};
use evcore_httpd::{counts::Counts, options::Options, scoreboard::WorkerStats, server::Server};
use evcore_recording::{Recorder, Recording, Replay};
use evcore_tests::PATIENCE;

use crate::corpus::CASES;

const REQUESTS: usize = 11_000;

/// Capacity of the flight recorder in records: more than a run makes.
const RECORDS: usize = 1 << 18;

/// Serves all clients, and returns the loop's records. `at_step` is called after each step, with
/// the number of requests so far.
fn serve<L>(mut ev: EventLoop<L>, mut at_step: impl FnMut(u64)) -> Vec<Record>
where
    L: Acceptor<Stream: Transport + Source>,
{
    let scoreboard = WorkerStats::scoreboard(1).expect("a page");
    let counts = Counts::new(scoreboard.clone(), WorkerId::from_slot(0));
    let requests = Counts::new(scoreboard, WorkerId::from_slot(0));
    let mut server = Server::new(ev.clock(), 0, counts, Options::default());
    // The loop ends when it has served this many clients, because a replay cannot repeat a wake
    // through the loop's own handle.
    let all = 1 + 2 * CASES.iter().copied().flatten().count() as u64;
    let are_all_served = |ev: &EventLoop<L>| ev.stats().accepted == all && ev.stats().active == 0;
    while !are_all_served(&ev) && ev.wait().is_ok() {
        while let Some(step) = ev.next_step() {
            server.handle(&mut ev, step);
            at_step(requests_of(&requests.status_text()));
        }
        server.publish(&mut ev);
    }
    let records = ev.instruments().flight_records();
    records.map(without_descriptor).collect()
}

fn requests_of(status: &str) -> u64 {
    let numbers = status.lines().nth(2).expect("three numbers");
    let requests = numbers.split_whitespace().nth(2);
    requests.expect("a third").parse().expect("a number")
}

/// Removes the descriptor from a record, because a replay has no descriptors.
fn without_descriptor(record: Record) -> Record {
    match record {
        Record::Registered { token, watched, .. } => Record::Registered {
            token,
            watched,
            descriptor: None,
        },
        record => record,
    }
}

fn built<L: Acceptor>(builder: Builder<L>) -> EventLoop<L> {
    let instruments = InstrumentOptions::new().flight_recorder(RECORDS);
    builder.instruments(instruments).build().expect("a loop")
}

fn record(kind: BackendKind, at_step: impl FnMut(u64)) -> (Vec<Record>, Vec<u8>) {
    let recorder = Recorder::in_memory(64 << 20);
    let listener = Listener::bind("127.0.0.1:0").expect("a port is free");
    let address = listener.local_addr().tcp().expect("it is TCP");
    let builder = Builder::default()
        .clock(recorder.clock(SystemTimeSource::new()))
        .backend(recorder.backend(kind.open().expect("it is usable")))
        .listener(recorder.listener(listener));
    let ev = built(builder);
    let clients = clients(address);
    let records = catch_unwind(AssertUnwindSafe(|| serve(ev, at_step)));
    clients.join().expect("the clients end");
    assert!(!recorder.is_full());
    (records.unwrap_or_default(), recorder.to_bytes())
}

fn replay(bytes: &[u8], at_step: impl FnMut(u64)) -> (Vec<Record>, Replay) {
    let replay = Replay::new(Recording::read(bytes).expect("it is one"));
    let builder = Builder::default()
        .clock(replay.clock())
        .backend(replay.backend());
    let ev = built(builder.listener(replay.listener()));
    (serve(ev, at_step), replay)
}

fn clients(server: SocketAddr) -> thread::JoinHandle<()> {
    thread::spawn(move || {
        let polite = thread::spawn(move || {
            let mut stream = connect(server);
            for number in 0..REQUESTS {
                let paths = ["/", "/bytes/70000", "/sleep/1", "/worker"];
                let path = paths[if number < 200 { number % 4 } else { 0 }];
                let request = format!("GET {path} HTTP/1.1\r\nHost: t\r\n\r\n");
                // The write fails if the server has panicked.
                if stream.write_all(request.as_bytes()).is_err() || read_some(&mut stream) == 0 {
                    return;
                }
            }
        });
        for case in CASES.iter().copied().flatten() {
            for length in [usize::MAX, 7] {
                let request = [case.start.as_bytes(), case.rest].concat();
                let Ok(mut stream) = TcpStream::connect(server) else {
                    break;
                };
                stream.set_read_timeout(Some(PATIENCE)).expect("a time");
                let pieces = request.chunks(length.min(request.len()));
                let sent = pieces
                    .map(|piece| stream.write_all(piece))
                    .all(|result| result.is_ok());
                let _ = stream.shutdown(Shutdown::Write);
                if sent {
                    let _ = std::io::copy(&mut stream, &mut std::io::sink());
                }
            }
        }
        polite.join().expect("it ends");
    })
}

fn connect(server: SocketAddr) -> TcpStream {
    let stream = TcpStream::connect(server).expect("it listens");
    stream
        .set_read_timeout(Some(Duration::from_secs(5)))
        .expect("a time");
    stream
}

/// Reads a response, or a part of it. The next call reads what is left.
fn read_some(stream: &mut TcpStream) -> usize {
    stream.read(&mut [0; 1 << 17]).unwrap_or(0)
}

#[test]
fn a_replay_has_the_same_flight_records_and_bytes() {
    // Other tests of this process have more descriptors open than the sets of select hold.
    let kinds = BackendKind::usable().into_iter();
    for kind in kinds.filter(|kind| *kind != BackendKind::Select) {
        let (recorded, bytes) = record(kind, |_| {});
        assert!(recorded.len() > 2_000, "{} records", recorded.len());
        assert!(recorded.len() < RECORDS, "none is lost");
        let (replayed, replay) = replay(&bytes, |_| {});
        assert_eq!(replay.difference(), None, "{kind}");
        assert!(replay.is_at_end(), "{kind}");
        let differ = recorded.iter().zip(&replayed).find(|(one, two)| one != two);
        assert_eq!(differ, None, "{kind}");
        assert_eq!(replayed.len(), recorded.len(), "{kind}");
    }
}

#[test]
fn a_panic_at_the_10_000th_request_comes_back_in_ten_of_ten_replays() {
    let panic = |requests: u64| assert!(requests < 10_000, "planted");
    let (_, bytes) = record(BackendKind::usable()[0], panic);
    for _ in 0..10 {
        let mut last = 0;
        let replayed = catch_unwind(AssertUnwindSafe(|| {
            replay(&bytes, |requests| {
                last = requests;
                panic(requests);
            })
        }));
        assert!(replayed.is_err());
        assert_eq!(last, 10_000);
    }
}
