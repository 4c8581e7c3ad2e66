//! Replays of requests from threads, results of pools, values, and connections to a server.

use std::{
    collections::hash_map::RandomState,
    hash::BuildHasher,
    io::{Read, Write},
    net::TcpListener,
    os::unix::net::UnixStream,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering::Relaxed},
    },
    thread,
    time::Duration,
};

use evcore::{
    Acceptor, Address, Builder, Connections, Connector, EventLoop, Listener, Ready, Step, Token,
    clock::SystemTimeSource,
    net::ConnectOptions,
    poller::{Backend, BackendKind, Events, Interest, Mode, Poller, Source},
};
use evcore_recording::{Outside, Recorder, Recording, Replay, ReplayedListener, What};

const JOBS: u32 = 60;

fn recorded(recorder: &Recorder) -> EventLoop {
    let backend = BackendKind::usable()[0].open().expect("it is usable");
    let builder = Builder::default().clock(recorder.clock(SystemTimeSource::new()));
    let builder = builder.backend(recorder.backend(backend));
    builder.build().expect("a loop")
}

fn replayed(replay: &Replay) -> EventLoop<ReplayedListener> {
    let builder = Builder::default().clock(replay.clock());
    builder.backend(replay.backend()).build().expect("a loop")
}

fn replay_of(recorder: &Recorder) -> Replay {
    recorder.end_turn();
    Replay::new(Recording::read(&recorder.to_bytes()).expect("it is one"))
}

/// Runs jobs while threads post and wake, until the threads have ended and all results have come,
/// or until a wait fails. Returns a log of the steps and results.
fn run<L: Acceptor>(mut ev: EventLoop<L>, outside: &Outside) -> Vec<String> {
    let handle = outside.handle(ev.handle());
    let tokens: Vec<Token> = (0..3)
        .map(|_| ev.add_unwatched().expect("there is room"))
        .collect();
    let mut pool = outside
        .pool::<u32, String>(2, JOBS as usize, handle.clone())
        .expect("threads");
    for job in 0..JOBS {
        let work = move || format!("{:?}", thread::current().id());
        assert!(pool.submit(job, work).is_ok());
    }
    assert!(pool.submit(JOBS, String::new).is_err(), "it is full");
    let threads = tokens.iter().copied().map(|token| {
        let handle = handle.clone();
        thread::spawn(move || {
            for _ in 0..200 {
                handle.post(token, Ready::READABLE);
                handle.wake();
                thread::yield_now();
            }
        })
    });
    let threads: Vec<_> = threads.collect();
    let is_finished = Arc::new(AtomicBool::new(false));
    let (last, finished) = (handle.clone(), Arc::clone(&is_finished));
    let end = thread::spawn(move || {
        threads
            .into_iter()
            .for_each(|thread| thread.join().expect("it ends"));
        finished.store(true, Relaxed);
        last.wake();
    });
    let (mut log, mut results) = (Vec::new(), 0);
    let mut is_over = false;
    while !is_over || results < JOBS {
        if ev.wait().is_err() {
            break;
        }
        let now = ev.clock().monotonic_ns();
        while let Some(step) = ev.next_step() {
            log.push(match &step {
                Step::Ready(token, ready) => format!("{now} {token} {ready:?}"),
                Step::Woken => format!("{now} woken"),
                _ => unreachable!("the loop has no other source"),
            });
            while let Some((job, result)) = pool.next_result() {
                log.push(format!("{job}: {}", result.expect("no job panics")));
                results += 1;
            }
        }
        let end = || is_finished.load(Relaxed).then_some(());
        is_over |= outside.news("over", end).is_some();
    }
    end.join().expect("it ends");
    log.push(format!("{} jobs left", pool.len()));
    log
}

#[test]
fn requests_of_threads_and_results_of_a_pool_are_replayed() {
    for _ in 0..5 {
        let recorder = Recorder::in_memory(1 << 20);
        let log = run(recorded(&recorder), &Outside::Recorded(recorder.clone()));
        assert!(log.len() > JOBS as usize + 3);
        let replay = replay_of(&recorder);
        let again = run(replayed(&replay), &Outside::Replayed(replay.clone()));
        assert_eq!(replay.difference(), None);
        assert!(replay.is_at_end());
        assert_eq!(again, log);
    }
}

#[test]
fn a_shutdown_by_another_thread_is_replayed() {
    fn run<L: Acceptor>(mut ev: EventLoop<L>, outside: &Outside) -> u32 {
        let handle = outside.handle(ev.handle());
        let thread = thread::spawn(move || handle.shutdown(Duration::ZERO));
        let mut turns = 0;
        while ev.wait().expect("the recording goes on") {
            turns += 1;
            while ev.next_step().is_some() {}
        }
        thread.join().expect("it ends");
        turns
    }
    let recorder = Recorder::in_memory(1 << 16);
    let turns = run(recorded(&recorder), &Outside::Recorded(recorder.clone()));
    let replay = replay_of(&recorder);
    let again = run(replayed(&replay), &Outside::Replayed(replay.clone()));
    assert_eq!((again, replay.difference()), (turns, None));
}

#[test]
fn a_panic_of_a_job_is_replayed_with_its_text() {
    fn panic_of<L: Acceptor>(mut ev: EventLoop<L>, outside: &Outside) -> String {
        let handle = outside.handle(ev.handle());
        let mut pool = outside.pool::<u32, u32>(1, 1, handle).expect("a thread");
        assert!(pool.submit(7, || panic!("out of luck")).is_ok());
        loop {
            ev.wait().expect("the recording goes on");
            while ev.next_step().is_some() {}
            if let Some((job, result)) = pool.next_result() {
                assert_eq!(job, 7);
                let panic = result.expect_err("it panicked");
                let text = panic.downcast_ref::<String>().cloned();
                let text = text.or(panic.downcast_ref::<&str>().map(|text| (*text).to_owned()));
                return text.expect("a text");
            }
        }
    }
    let recorder = Recorder::in_memory(1 << 16);
    let text = panic_of(recorded(&recorder), &Outside::Recorded(recorder.clone()));
    let replay = replay_of(&recorder);
    let again = panic_of(replayed(&replay), &Outside::Replayed(replay.clone()));
    assert_eq!(
        (text.as_str(), again.as_str()),
        ("out of luck", "out of luck")
    );
}

/// Connects, sends a request, and returns the answer.
fn ask<L, C>(mut ev: EventLoop<L>, connector: &C, server: &Address, request: &[u8]) -> Vec<u8>
where
    L: Acceptor<Stream = C::Stream>,
    C: Connector,
    C::Stream: Source,
{
    let stream = connector.connect(server).expect("it listens");
    let mut conns = Connections::new();
    let token = conns.add(&mut ev, stream, ()).expect("there is room");
    let (mut answer, mut sent) = (Vec::new(), 0);
    while ev.wait().is_ok() {
        while let Some(step) = ev.next_step() {
            let Step::Ready(_, ready) = step else {
                continue;
            };
            let (stream, ()) = conns.ready(token, ready).expect("it is open");
            if let Ok(count) = stream.send(&mut ev, &request[sent..]) {
                sent += count;
            }
            let mut buffer = [0; 100];
            while let Ok(count) = stream.recv(&mut ev, &mut buffer) {
                if count == 0 {
                    return answer;
                }
                answer.extend(&buffer[..count]);
            }
        }
    }
    answer
}

fn server() -> (Address, thread::JoinHandle<()>) {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port is free");
    let address = listener.local_addr().expect("it has one").into();
    let server = thread::spawn(move || {
        let (mut client, _) = listener.accept().expect("a client");
        let mut request = [0; 5];
        client.read_exact(&mut request).expect("it sends");
        client.write_all(b"hello to you").expect("it reads");
    });
    (address, server)
}

#[test]
fn a_connection_to_a_server_is_replayed_without_the_server() {
    let (address, server) = server();
    let recorder = Recorder::in_memory(1 << 16);
    let connector = recorder.connector(ConnectOptions::new());
    let backend = BackendKind::usable()[0].open().expect("it is usable");
    let listener = Listener::bind("127.0.0.1:0").expect("a port is free");
    let builder = Builder::default().clock(recorder.clock(SystemTimeSource::new()));
    let builder = builder.backend(recorder.backend(backend));
    let ev = builder.listener(recorder.listener(listener)).build();
    let answer = ask(ev.expect("a loop"), &connector, &address, b"hello");
    assert_eq!(answer, b"hello to you");
    server.join().expect("it has answered");
    for (request, differs) in [(b"hello", false), (b"jello", true)] {
        let replay = replay_of(&recorder);
        let builder = Builder::default().clock(replay.clock());
        let builder = builder
            .backend(replay.backend())
            .listener(replay.listener());
        let ev = builder.build().expect("a loop");
        let again = ask(ev, &replay.connector(), &address, request);
        assert_eq!(again == answer, !differs);
        assert_eq!(replay.difference().is_some(), differs);
    }
    let replay = replay_of(&recorder);
    let other = "unix:/nowhere".parse().expect("an address");
    assert!(replay.connector().connect(&other).is_err());
}

/// Passes a random number to [`Outside::check`]. If the number does not come from the recorder, a
/// replay gets another number.
fn roll(outside: &Outside, by_recorder: bool) {
    let random = || RandomState::new().hash_one(0);
    let number = match by_recorder {
        true => outside.value("random", random),
        false => random(),
    };
    outside.check(&number.to_le_bytes());
}

#[test]
fn a_random_number_makes_a_difference_unless_it_is_a_recorded_value() {
    for by_recorder in [false, true] {
        let recorder = Recorder::in_memory(1 << 16);
        let outside = Outside::Recorded(recorder.clone());
        outside.value("begin", || 1);
        roll(&outside, by_recorder);
        let replay = replay_of(&recorder);
        let outside = Outside::Replayed(replay.clone());
        assert_eq!(outside.value("begin", || 2), 1);
        roll(&outside, by_recorder);
        let Some(difference) = replay.difference() else {
            assert!(by_recorder);
            continue;
        };
        assert!(!by_recorder);
        assert_eq!((difference.turn, difference.call), (0, 1));
        assert_eq!(
            difference.after.as_ref().map(|call| call.what),
            Some(What::Value)
        );
        let advice = difference.advice();
        assert!(advice.contains("a random number") && advice.contains("`Outside::value`"));
    }
}

#[test]
fn the_advice_has_the_turn_in_which_a_thread_bypassed_the_recorder() {
    /// Runs two turns, and checks in each whether a post came. With `posts`, a thread posts by the
    /// loop's own handle after each turn. Returns false if a wait fails.
    fn run<L: Acceptor>(mut ev: EventLoop<L>, outside: &Outside, posts: bool) -> bool {
        let token = ev.add_unwatched().expect("there is room");
        ev.handle().wake();
        for _ in 0..2 {
            if ev.wait().is_err() {
                return false;
            }
            let mut is_posted = false;
            while let Some(step) = ev.next_step() {
                is_posted |= matches!(step, Step::Ready(posted, _) if posted == token);
            }
            outside.check(&[u8::from(is_posted)]);
            let handle = ev.handle();
            if posts {
                let post = move || handle.post(token, Ready::READABLE);
                thread::spawn(post).join().expect("it posts");
            }
        }
        true
    }
    let recorder = Recorder::in_memory(1 << 16);
    assert!(run(
        recorded(&recorder),
        &Outside::Recorded(recorder.clone()),
        true
    ));
    let replay = replay_of(&recorder);
    run(replayed(&replay), &Outside::Replayed(replay.clone()), false);
    let difference = replay.difference().expect("the post is missing");
    assert_eq!(difference.foreign_wake, Some(2));
    assert!(difference.advice().contains("handle of the loop in turn 2"));
}

#[test]
#[cfg(debug_assertions)]
#[should_panic(expected = "outer uses what is recorded")]
fn a_value_that_uses_another_recorded_value_is_refused() {
    let outside = Outside::Recorded(Recorder::in_memory(1 << 16));
    outside.value("outer", || outside.value("inner", || 1));
}

#[test]
fn a_handle_does_not_reach_a_later_loop() {
    let recorder = Recorder::in_memory(1 << 16);
    let outside = Outside::Recorded(recorder.clone());
    let mut first = recorded(&recorder);
    let old = outside.handle(first.handle());
    let token = first.add_unwatched().expect("there is room");
    drop(first);
    recorder.restart();

    let mut second = recorded(&recorder);
    let handle = outside.handle(second.handle());
    assert_eq!(second.add_unwatched().expect("there is room"), token);
    old.post(token, Ready::READABLE);
    handle.wake();
    second.wait().expect("it is woken");
    while let Some(step) = second.next_step() {
        assert!(matches!(step, Step::Woken), "{step:?}");
    }
    assert!(old.with_descriptor(|_| ()).is_none());
}

#[test]
fn a_handle_from_before_a_restart_of_the_recording_still_wakes_its_loop() {
    let recorder = Recorder::in_memory(1 << 16);
    let mut ev = recorded(&recorder);
    let handle = Outside::Recorded(recorder.clone()).handle(ev.handle());
    recorder.restart();
    handle.wake();
    ev.wait().expect("it is woken");
    assert!(matches!(ev.next_step(), Some(Step::Woken)));
}

#[test]
fn a_value_does_not_answer_an_earlier_query_for_news() {
    fn run(outside: &Outside) -> (Option<u32>, u32, Option<u32>) {
        let before = outside.news("number", || None);
        let value = outside.value("number", || 7);
        (before, value, outside.news("number", || Some(8)))
    }
    let recorder = Recorder::in_memory(1 << 16);
    let recorded = run(&Outside::Recorded(recorder.clone()));
    assert_eq!(recorded, (None, 7, Some(8)));
    let replay = replay_of(&recorder);
    assert_eq!(run(&Outside::Replayed(replay.clone())), recorded);
    assert!(replay.is_at_end());
}

#[test]
fn a_number_with_a_fraction_is_replayed_exactly() {
    // Without exact parsing, some of JSON's numbers come back with another last bit.
    let numbers = |outside: &Outside| {
        (0..200_u32)
            .map(|at| {
                outside
                    .value("number", || 1.0 / f64::from(at + 3))
                    .to_bits()
            })
            .collect::<Vec<_>>()
    };
    let recorder = Recorder::in_memory(1 << 16);
    let recorded = numbers(&Outside::Recorded(recorder.clone()));
    let replayed = numbers(&Outside::Replayed(replay_of(&recorder)));
    assert_eq!(recorded, replayed);
}

#[test]
fn a_refused_change_takes_one_place_and_the_recorded_wait_fills_the_others() {
    let recorder = Recorder::in_memory(1 << 16);
    let backend = BackendKind::usable()[0].open().expect("it is usable");
    let mut poller = Poller::from(Box::new(recorder.backend(backend)) as Box<dyn Backend>);
    let pairs: Vec<_> = (0..3)
        .map(|_| UnixStream::pair().expect("sockets"))
        .collect();
    for (key, (near, far)) in pairs.iter().enumerate() {
        poller
            .add(near, key as u64, Interest::READ, Mode::Level)
            .expect("it is open");
        (&*far).write_all(b"x").expect("there is room");
    }
    let mut events = Events::bounded(2);
    poller.wait(&mut events, None).expect("two are ready");
    // The first descriptor is closed while it is registered, so that the kernel refuses the change.
    let mut pairs = pairs.into_iter();
    drop(pairs.next());
    poller
        .modify(0, Interest::READ | Interest::WRITE)
        .expect("it is registered");
    poller
        .wait(&mut events, None)
        .expect("two are ready, and one change is refused");
    assert_eq!(events.len(), 2);
}
