//! The loop over each backend of this system, with real clients.

use std::{
    io::{ErrorKind, Read, Write},
    net::{Shutdown, SocketAddr, TcpStream},
    os::{fd::AsFd, unix::net::UnixStream},
    sync::{
        atomic::{AtomicUsize, Ordering},
        mpsc,
    },
    thread,
    time::{Duration, Instant},
};

use evcore::{
    Budgets, Builder, EventLoop, Handle, Interest, Listener, Mode, Ready, Step, Stream, Timer,
    Token, TokenMap,
    balancer::{AcceptMutex, Policy, WorkerId},
    clock::Ticker,
    poller::BackendKind,
};

/// A time limit, far longer than a test takes.
const DEADLINE: Duration = Duration::from_secs(30);

fn listener() -> (Listener, SocketAddr) {
    let listener = Listener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().tcp().unwrap();
    (listener, address)
}

/// A loop with a timer that expires if a test hangs. No test expects that step, so the test panics.
fn guarded(builder: Builder) -> EventLoop {
    let mut ev = builder.build().unwrap();
    let guard = ev.add_unwatched().unwrap();
    ev.arm(guard, Timer::READ, DEADLINE);
    ev
}

/// An echo server that counts the clients that have ended.
struct Echo {
    ev: EventLoop,
    conns: TokenMap<Stream>,
    mode: Mode,
    ended: usize,
}

impl Echo {
    fn turn(&mut self) {
        self.ev.wait().unwrap();
        while let Some(step) = self.ev.next_step() {
            match step {
                Step::Accepted(new) => {
                    let (ev, mode) = (&mut self.ev, self.mode);
                    let added = self.conns.add(ev, new.stream, Interest::READ, mode);
                    added.unwrap();
                }
                Step::Ready(token, _) if self.echo(token) => {}
                Step::Ready(token, _) => {
                    assert!(self.conns.close(&mut self.ev, token));
                    self.ended += 1;
                }
                Step::Expired(..) | Step::Evict(_) => panic!("not within {DEADLINE:?}"),
                Step::Woken | Step::ShuttingDown => {}
            }
        }
    }

    /// Sends back the bytes that have arrived. Returns whether there may be more.
    fn echo(&mut self, token: Token) -> bool {
        let stream = self.conns.get(token).unwrap();
        let mut bytes = [0; 64];
        loop {
            match stream.recv(&mut bytes) {
                Ok(0) => return false,
                Ok(n) => assert_eq!(stream.send(&bytes[..n]).unwrap(), n),
                Err(error) => {
                    assert_eq!(error.kind(), ErrorKind::WouldBlock);
                    assert!(self.ev.rearm(token, Interest::READ));
                    return true;
                }
            }
        }
    }
}

#[test]
fn every_backend_and_mode_serves_clients() {
    for kind in &BackendKind::usable() {
        for mode in [Mode::Level, Mode::Edge] {
            let (listener, address) = listener();
            let mut server = Echo {
                ev: guarded(EventLoop::builder().listener(listener).poller(*kind)),
                conns: TokenMap::new(),
                mode,
                ended: 0,
            };
            let mut clients: Vec<_> = (0..20)
                .map(|_| TcpStream::connect(address).unwrap())
                .collect();
            for (client, n) in clients.iter_mut().zip(0..) {
                write!(client, "I am {n}").unwrap();
                client.shutdown(Shutdown::Write).unwrap();
            }
            while server.ended < clients.len() {
                server.turn();
            }
            for (client, n) in clients.iter_mut().zip(0..) {
                let mut received = String::new();
                client.read_to_string(&mut received).unwrap();
                assert_eq!(received, format!("I am {n}"), "{kind} {mode:?}");
            }
            assert_eq!(server.ev.stats().accepted, 20);
            assert_eq!(server.ev.stats().active, 0);
        }
    }
}

#[test]
fn no_wake_from_another_thread_is_lost() {
    const EACH: usize = 500;
    for kind in &BackendKind::usable() {
        let mut ev = guarded(EventLoop::builder().poller(*kind));
        let (sender, inbox) = mpsc::channel();
        thread::scope(|scope| {
            for _ in 0..2 {
                let (handle, sender): (Handle, _) = (ev.handle(), sender.clone());
                scope.spawn(move || {
                    for n in 0..EACH {
                        sender.send(n).unwrap();
                        handle.wake();
                    }
                });
            }
            let mut received = 0;
            while received < 2 * EACH {
                ev.wait().unwrap();
                while let Some(step) = ev.next_step() {
                    assert!(matches!(step, Step::Woken), "{step:?}");
                    received += inbox.try_iter().count();
                }
            }
        });
    }
}

#[test]
fn a_remote_post_makes_earlier_work_visible() {
    const THREADS: usize = 3;
    const EACH: usize = 400;
    for kind in &BackendKind::usable() {
        let budgets = Budgets {
            posted: 5, // so that some are carried over to the next turn
            ..Budgets::default()
        };
        let mut ev = guarded(EventLoop::builder().poller(*kind).budgets(budgets));
        let mut jobs = TokenMap::new();
        // Each thread has its own token. Its posts merge, but the last one is never lost.
        let done = [const { AtomicUsize::new(0) }; THREADS];
        thread::scope(|scope| {
            for done in &done {
                let token = ev.add_unwatched().unwrap();
                let number = jobs.len();
                jobs.insert(token, (number, done));
                let handle = ev.handle();
                scope.spawn(move || {
                    for _ in 0..EACH {
                        done.fetch_add(1, Ordering::Relaxed);
                        handle.post(token, Ready::READABLE);
                    }
                });
            }
            let mut seen = [0; THREADS];
            while seen != [EACH; THREADS] {
                ev.wait().unwrap();
                while let Some(step) = ev.next_step() {
                    let Step::Ready(token, Ready::READABLE) = step else {
                        panic!("{step:?}");
                    };
                    let (job, done) = jobs.get(token).unwrap();
                    seen[*job] = done.load(Ordering::Relaxed);
                }
            }
        });
        let stats = ev.stats();
        let all = (THREADS * EACH) as u64;
        assert!((1..=all).contains(&stats.received), "{kind}");
        assert!(stats.stale == 0 && stats.posted <= stats.received);
    }
}

#[test]
fn tokens_that_are_posted_once_each_are_delivered_once_each() {
    const THREADS: usize = 4;
    const EACH: usize = 200;
    for kind in &BackendKind::usable() {
        let mut ev = guarded(EventLoop::builder().poller(*kind));
        let mut jobs = TokenMap::new();
        let tokens: Vec<_> = (0..THREADS * EACH)
            .map(|_| ev.add_unwatched().unwrap())
            .collect();
        for token in &tokens {
            jobs.insert(*token, ());
        }
        thread::scope(|scope| {
            for tokens in tokens.chunks(EACH) {
                let handle = ev.handle();
                scope.spawn(move || {
                    for token in tokens {
                        handle.post(*token, Ready::READABLE);
                    }
                });
            }
            while !jobs.is_empty() {
                ev.wait().unwrap();
                while let Some(step) = ev.next_step() {
                    let Step::Ready(token, _) = step else {
                        panic!("{step:?}");
                    };
                    jobs.remove(&mut ev, token).expect("it comes once");
                }
            }
        });
        let stats = ev.stats();
        assert_eq!(stats.received, (THREADS * EACH) as u64, "{kind}");
        assert_eq!((stats.posted, stats.stale), (stats.received, 0));
    }
}

#[test]
fn posts_after_the_loop_is_dropped_are_refused() {
    for kind in &BackendKind::usable() {
        let mut ev = guarded(EventLoop::builder().poller(*kind));
        let token = ev.add_unwatched().unwrap();
        let handle = ev.handle();
        let poster = thread::spawn(move || while handle.post(token, Ready::READABLE) {});
        let steps = std::iter::repeat_with(|| {
            ev.wait().unwrap();
            ev.next_step()
        });
        let step = steps.flatten().next();
        assert!(matches!(step, Some(Step::Ready(..))), "{step:?}");
        drop(ev);
        poster.join().unwrap();
    }
}

#[test]
fn a_turn_accepts_no_more_than_its_budget_and_the_next_goes_on() {
    for kind in &BackendKind::usable() {
        let (listener, address) = listener();
        let budgets = Budgets {
            accepts: 2,
            ..Budgets::default()
        };
        let builder = EventLoop::builder().listener(listener).poller(*kind);
        let mut ev = guarded(builder.budgets(budgets));
        let _clients = [(); 5].map(|()| TcpStream::connect(address).unwrap());
        let mut accepted = Vec::new();
        while accepted.iter().sum::<usize>() < 5 {
            ev.wait().unwrap();
            accepted.push(std::iter::from_fn(|| ev.next_step()).count());
        }
        assert_eq!(accepted, [2, 2, 1], "{kind}");
    }
}

#[test]
fn a_reported_event_of_a_closed_connection_is_dropped() {
    for kind in &BackendKind::usable() {
        let mut ev = guarded(EventLoop::builder().poller(*kind));
        let mut conns = TokenMap::new();
        let mut peers = Vec::new();
        let mut join = |ev: &mut EventLoop, conns: &mut TokenMap<UnixStream>| {
            let (mut near, far) = UnixStream::pair().unwrap();
            near.write_all(b"x").unwrap();
            peers.push(near);
            conns.add(ev, far, Interest::READ, Mode::Level).unwrap()
        };
        let tokens = [join(&mut ev, &mut conns), join(&mut ev, &mut conns)];
        ev.wait().unwrap();
        let Some(Step::Ready(first, _)) = ev.next_step() else {
            panic!("both are readable");
        };
        let other = tokens.into_iter().find(|token| *token != first).unwrap();
        // The index is reused at once, twice, by connections that are readable too.
        let mut token = other;
        for _ in 0..2 {
            assert!(conns.close(&mut ev, token));
            token = join(&mut ev, &mut conns);
            assert_eq!(token.index(), other.index());
        }
        assert!(ev.next_step().is_none(), "{kind}");
        assert_eq!(ev.stats().stale, 1);

        ev.wait().unwrap();
        let next: Vec<_> = std::iter::from_fn(|| ev.next_step()).collect();
        let ready = |step: &Step| match step {
            Step::Ready(token, ready) => (*token, ready.is_readable()),
            step => panic!("{step:?}"),
        };
        let mut next: Vec<_> = next.iter().map(ready).collect();
        next.sort();
        let mut expected = [(first, true), (token, true)];
        expected.sort();
        assert_eq!(next, expected, "{kind}: the new one has its own event");
    }
}

#[test]
fn two_loops_with_a_lock_serve_every_client_once() {
    const CLIENTS: usize = 60;
    let (listener, address) = listener();
    let mutex = AcceptMutex::new().unwrap();
    let served = AtomicUsize::new(0);
    let (handles, others) = mpsc::channel::<Handle>();
    thread::scope(|scope| {
        for slot in [0, 1] {
            let listener = listener.as_fd().try_clone_to_owned().unwrap();
            let (mutex, served, handles) = (&mutex, &served, handles.clone());
            scope.spawn(move || {
                let me = WorkerId::from_slot(slot);
                let delay = Duration::from_millis(2);
                let builder = EventLoop::builder()
                    .listener(Listener::from_fd(listener).unwrap())
                    .policy(Policy::Mutex { delay })
                    .group(mutex.lock_handle(me));
                let mut ev = guarded(builder);
                handles.send(ev.handle()).unwrap();
                while served.load(Ordering::Acquire) < CLIENTS {
                    ev.wait().unwrap();
                    while let Some(step) = ev.next_step() {
                        match step {
                            // The worker mostly has the lock. Sometimes it probes: it listens for
                            // one turn without the lock.
                            Step::Accepted(new) => {
                                assert_eq!(new.stream.send(b"served").unwrap(), 6);
                                served.fetch_add(1, Ordering::AcqRel);
                            }
                            Step::Woken => {
                                assert_ne!(mutex.owner(), Some(me), "the loop kept the lock");
                            }
                            step => panic!("{step:?}"),
                        }
                    }
                }
            });
        }
        let handles = [others.recv().unwrap(), others.recv().unwrap()];
        for _ in 0..CLIENTS {
            let mut received = String::new();
            let mut client = TcpStream::connect(address).unwrap();
            client.read_to_string(&mut received).unwrap();
            assert_eq!(received, "served");
        }
        handles.iter().for_each(Handle::wake);
    });
    assert_eq!(served.into_inner(), CLIENTS);
    assert_eq!(mutex.owner(), None, "both have let it go");
}

#[test]
fn a_timer_ends_a_wait_and_is_never_early() {
    for kind in &BackendKind::usable() {
        let mut ev = guarded(EventLoop::builder().poller(*kind));
        let token = ev.add_unwatched().unwrap();
        for after in [1, 999, 1_000, 1_001, 2_500].map(Duration::from_micros) {
            let armed_ns = ev.clock().monotonic_ns();
            assert!(ev.arm(token, Timer::WRITE, after));
            let expired = std::iter::repeat_with(|| {
                ev.wait().unwrap();
                ev.next_step()
            });
            let step = expired.flatten().next();
            assert!(
                matches!(step, Some(Step::Expired(_, Timer::WRITE))),
                "{step:?}"
            );
            let passed = Duration::from_nanos(ev.clock().monotonic_ns() - armed_ns);
            assert!(passed >= after, "{kind}: {passed:?} for {after:?}");
        }
    }
}

#[test]
fn with_a_resolution_wakes_do_not_move_the_clock() {
    for kind in &BackendKind::usable() {
        let builder = EventLoop::builder().poller(*kind);
        let mut ev = builder
            .timer_resolution(Ticker::PERIOD_MAX)
            .build()
            .unwrap();
        let shown_ns = ev.clock().monotonic_ns();
        let handle = ev.handle();
        for _ in 0..100 {
            handle.wake();
            ev.wait().unwrap();
            assert!(matches!(ev.next_step(), Some(Step::Woken)));
            assert!(ev.next_step().is_none());
        }
        assert_eq!(ev.clock().monotonic_ns(), shown_ns, "{kind}");
        assert_eq!(ev.stats().ticks, 0);
    }
}

#[test]
fn with_a_resolution_the_loop_sleeps_from_tick_to_tick() {
    const TICKS: u64 = 20;
    for kind in &BackendKind::usable() {
        let resolution = Duration::from_millis(10);
        let builder = EventLoop::builder().poller(*kind);
        let mut ev = builder.timer_resolution(resolution).build().unwrap();
        let mut shown_ns = ev.clock().monotonic_ns();
        let token = ev.add_unwatched().unwrap();
        while ev.stats().ticks < TICKS {
            let ticks = ev.stats().ticks;
            // The timer is due between two ticks. The loop need not wake there, because timers
            // expire at ticks.
            ev.arm(token, Timer::READ, resolution / 2);
            ev.wait().unwrap();
            while let Some(step) = ev.next_step() {
                assert!(
                    matches!(step, Step::Expired(..)),
                    "a tick is not a step: {step:?}"
                );
            }
            let moved = ev.clock().monotonic_ns() > shown_ns;
            assert_eq!(moved, ev.stats().ticks > ticks, "{kind}");
            shown_ns = ev.clock().monotonic_ns();
        }
        // A queue may need one more turn to sort its timers again, but not one for each tick.
        let turns = ev.stats().turns;
        assert!(turns < TICKS * 3 / 2, "{kind}: {turns} turns");
        assert_eq!(ev.stats().stale, 0);
    }
}

#[test]
fn with_a_resolution_no_timer_is_early_by_the_systems_clock() {
    let resolution = Duration::from_millis(20);
    for kind in &BackendKind::usable() {
        let builder = EventLoop::builder().poller(*kind);
        let mut ev = builder.timer_resolution(resolution).build().unwrap();
        let handle = ev.handle();
        let token = ev.add_unwatched().unwrap();
        for after in [1, 5_000, 10_000, 19_999, 25_000].map(Duration::from_micros) {
            // The turn that arms the timer comes near the end of a period between two ticks, when
            // the clock is far behind.
            ev.wait().unwrap();
            let ticked = Instant::now();
            while ticked.elapsed() < resolution * 3 / 4 {}
            handle.wake();
            let before = Instant::now();
            ev.wait().unwrap();
            assert!(ev.arm(token, Timer::WRITE, after));
            let steps = std::iter::repeat_with(|| {
                ev.wait().unwrap();
                ev.next_step()
            });
            steps
                .flatten()
                .find(|step| matches!(step, Step::Expired(..)))
                .expect("it does expire");
            let passed = before.elapsed();
            assert!(passed >= after, "{kind}: {passed:?} for {after:?}");
        }
    }
}

#[test]
fn with_a_resolution_full_batches_do_not_keep_the_tick_out() {
    let resolution = Duration::from_millis(2);
    for kind in &BackendKind::usable() {
        let budgets = Budgets {
            batch: 2,
            ..Budgets::default()
        };
        let mut ev = EventLoop::builder()
            .poller(*kind)
            .budgets(budgets)
            .timer_resolution(resolution)
            .build()
            .unwrap();
        let (mut near, far) = UnixStream::pair().unwrap();
        near.write_all(b"never read").unwrap();
        let copies: Vec<_> = (0..100).map(|_| far.try_clone().unwrap()).collect();
        for copy in &copies {
            ev.add(copy, Interest::READ, Mode::Level).unwrap();
        }
        for ticks in 1..=10 {
            let begun = Instant::now();
            while begun.elapsed() < 2 * resolution {}
            ev.wait().unwrap();
            assert_eq!(ev.stats().ticks, ticks, "{kind}");
            while ev.next_step().is_some() {}
        }
    }
}

#[test]
fn with_a_resolution_clients_are_served_between_ticks() {
    for kind in &BackendKind::usable() {
        let (listener, address) = listener();
        let builder = EventLoop::builder().listener(listener).poller(*kind);
        let builder = builder
            .policy(Policy::mutex())
            .group(
                AcceptMutex::new()
                    .unwrap()
                    .lock_handle(WorkerId::from_slot(0)),
            )
            .timer_resolution(Duration::from_millis(1));
        let mut server = Echo {
            ev: guarded(builder),
            conns: TokenMap::new(),
            mode: Mode::Edge,
            ended: 0,
        };
        let mut client = TcpStream::connect(address).unwrap();
        client.write_all(b"hello").unwrap();
        client.shutdown(Shutdown::Write).unwrap();
        while server.ended == 0 || server.ev.stats().ticks == 0 {
            server.turn();
        }
        let mut received = String::new();
        client.read_to_string(&mut received).unwrap();
        assert_eq!(received, "hello", "{kind}");
        assert_eq!(server.ev.stats().stale, 0);
    }
}
