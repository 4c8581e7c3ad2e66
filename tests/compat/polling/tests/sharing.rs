//! The promises of `polling` to threads that share one poller, on every backend.

#![allow(unsafe_code, reason = "`add` is unsafe in the interface of `polling`")]

use std::{
    io::{ErrorKind, Write},
    os::unix::net::UnixStream,
    sync::{
        Barrier,
        atomic::{AtomicBool, Ordering},
        mpsc,
    },
    thread,
    time::{Duration, Instant},
};

use evcore_poller::BackendKind;
use polling::{Event, Events, PollMode, Poller};

const PATIENCE: Duration = Duration::from_secs(60);

fn pollers() -> impl Iterator<Item = Poller> {
    let kinds = BackendKind::usable().into_iter();
    kinds.map(|kind| Poller::on(kind).expect("the backend opens"))
}

fn pair() -> (UnixStream, UnixStream) {
    UnixStream::pair().expect("a pair of sockets")
}

fn add(poller: &Poller, stream: &UnixStream, interest: Event) {
    // SAFETY: these tests delete a stream from the poller before they drop it.
    unsafe { poller.add(stream, interest) }.expect("it is watched");
}

fn wait(poller: &Poller, timeout: Duration) -> Vec<Event> {
    let mut events = Events::new();
    let count = poller.wait(&mut events, Some(timeout)).expect("it waits");
    assert_eq!(count, events.len());
    events.iter().collect()
}

/// Runs `work`, which must end the wait of another thread. Returns the events of that wait. In some
/// rounds, `work` may run before the other thread sleeps.
fn while_another_waits(poller: &Poller, work: impl Fn()) -> Vec<Event> {
    let start = Barrier::new(2);
    thread::scope(|scope| {
        let waiting = scope.spawn(|| {
            start.wait();
            wait(poller, PATIENCE)
        });
        start.wait();
        work();
        waiting.join().expect("it waits")
    })
}

#[test]
fn notifications_before_a_wait_end_only_that_wait() {
    for poller in pollers() {
        poller.notify().expect("notified");
        poller.notify().expect("notified");
        assert_eq!(wait(&poller, PATIENCE), []);
        let start = Instant::now();
        assert_eq!(wait(&poller, Duration::from_millis(5)), []);
        assert!(start.elapsed() >= Duration::from_millis(5));
    }
}

#[test]
fn a_notification_ends_the_wait_of_another_thread() {
    for poller in pollers() {
        for _ in 0..200 {
            let notify = || poller.notify().expect("notified");
            assert_eq!(while_another_waits(&poller, notify), []);
        }
    }
}

#[test]
fn a_source_added_during_a_wait_ends_it_when_ready() {
    for poller in pollers() {
        for round in 0..200 {
            let (mut near, far) = pair();
            near.write_all(b"x").expect("written");
            let came = while_another_waits(&poller, || {
                add(&poller, &far, Event::none(round));
                poller.modify(&far, Event::readable(round)).expect("asked");
            });
            assert_eq!(came, [Event::readable(round)]);
            poller.delete(&far).expect("deleted");
        }
    }
}

#[test]
fn a_source_deleted_during_a_wait_may_be_closed_at_once() {
    for poller in pollers() {
        for round in 0..200 {
            let came = while_another_waits(&poller, || {
                let (mut near, far) = pair();
                add(&poller, &far, Event::readable(round));
                poller.delete(&far).expect("deleted");
                near.write_all(b"x").expect("written");
                drop(far);
                // Another socket may get the same number, and has nothing to report.
                let (_near, far) = pair();
                add(&poller, &far, Event::readable(round));
                poller.delete(&far).expect("deleted");
                poller.notify().expect("notified");
            });
            assert_eq!(came, [], "round {round}");
        }
    }
}

#[test]
fn errors_are_returned_while_another_thread_waits() {
    for poller in pollers() {
        let (_near, far) = pair();
        let (_, stranger) = pair();
        add(&poller, &far, Event::none(1));
        let came = while_another_waits(&poller, || {
            // SAFETY: the call is refused.
            let twice = unsafe { poller.add(&far, Event::none(2)) };
            assert_eq!(kind(twice), ErrorKind::AlreadyExists);
            let unknown = poller.modify(&stranger, Event::none(3));
            assert_eq!(kind(unknown), ErrorKind::NotFound);
            assert_eq!(kind(poller.delete(&stranger)), ErrorKind::NotFound);
            poller.notify().expect("notified");
        });
        assert_eq!(came, []);
        poller.delete(&far).expect("deleted");
    }
}

fn kind(result: std::io::Result<()>) -> ErrorKind {
    result.expect_err("it is refused").kind()
}

#[test]
fn the_reserved_key_is_refused() {
    for poller in pollers() {
        let (_near, far) = pair();
        // SAFETY: the call is refused.
        let added = unsafe { poller.add(&far, Event::none(usize::MAX)) };
        assert_eq!(kind(added), ErrorKind::InvalidInput);
        add(&poller, &far, Event::none(usize::MAX - 1));
        let modified = poller.modify(&far, Event::none(usize::MAX));
        assert_eq!(kind(modified), ErrorKind::InvalidInput);
        poller.delete(&far).expect("deleted");
    }
}

#[test]
fn a_second_waiting_thread_does_not_wait() {
    for poller in pollers() {
        let (back, returned) = mpsc::channel();
        thread::scope(|scope| {
            for _ in 0..2 {
                scope.spawn(|| {
                    back.send(wait(&poller, PATIENCE))
                        .expect("the receiver lives")
                });
            }
            assert_eq!(returned.recv(), Ok(Vec::new()), "the second");
            poller.notify().expect("notified");
            assert_eq!(returned.recv(), Ok(Vec::new()), "the first");
        });
    }
}

#[test]
fn changes_of_others_do_not_cut_a_wait_short() {
    const TIMEOUT: Duration = Duration::from_millis(50);
    for poller in pollers() {
        let is_over = AtomicBool::new(false);
        let (_near, far) = pair();
        thread::scope(|scope| {
            scope.spawn(|| {
                while !is_over.load(Ordering::SeqCst) {
                    add(&poller, &far, Event::readable(1));
                    poller.delete(&far).expect("deleted");
                }
            });
            let start = Instant::now();
            assert_eq!(wait(&poller, TIMEOUT), []);
            assert!(start.elapsed() >= TIMEOUT);
            is_over.store(true, Ordering::SeqCst);
        });
    }
}

#[test]
fn each_wait_appends() {
    for poller in pollers() {
        let (_near, far) = pair();
        add(&poller, &far, Event::writable(1));
        let mut events = Events::new();
        assert_eq!(poller.wait(&mut events, None).expect("it waits"), 1);
        poller.modify(&far, Event::writable(2)).expect("asked");
        let deadline = Instant::now() + PATIENCE;
        assert_eq!(
            poller
                .wait_deadline(&mut events, deadline)
                .expect("it waits"),
            2
        );
        let keys: Vec<_> = events.iter().map(|event| event.key).collect();
        assert_eq!(keys, [1, 2]);
        poller.delete(&far).expect("deleted");
    }
}

#[test]
fn two_descriptors_may_have_one_key() {
    for poller in pollers() {
        let (near, far) = pair();
        add(&poller, &near, Event::writable(1));
        add(&poller, &far, Event::writable(1));
        assert_eq!(wait(&poller, PATIENCE), [Event::writable(1); 2]);
        poller.delete(&near).expect("deleted");
        poller.delete(&far).expect("deleted");
    }
}

#[test]
fn a_change_of_interest_can_change_the_mode() {
    for poller in pollers() {
        let (mut near, far) = pair();
        near.write_all(b"x").expect("written");
        add(&poller, &far, Event::readable(1));
        assert_eq!(wait(&poller, PATIENCE), [Event::readable(1)]);
        assert_eq!(wait(&poller, Duration::ZERO), [], "once");
        let level = poller.modify_with_mode(&far, Event::readable(2), PollMode::Level);
        level.expect("every backend has it");
        for _ in 0..3 {
            assert_eq!(wait(&poller, PATIENCE), [Event::readable(2)]);
        }
        poller.modify(&far, Event::all(3)).expect("asked");
        assert_eq!(wait(&poller, PATIENCE), [Event::all(3)]);
        assert_eq!(wait(&poller, Duration::ZERO), [], "once");
        poller.delete(&far).expect("deleted");
    }
}

#[test]
fn edge_mode_works_exactly_if_supports_edge_returns_true() {
    for poller in pollers() {
        let (mut near, far) = pair();
        // SAFETY: the source is deleted below.
        let added = unsafe { poller.add_with_mode(&far, Event::readable(1), PollMode::Edge) };
        assert_eq!(added.is_ok(), poller.supports_edge());
        if added.is_err() {
            continue;
        }
        for _ in 0..3 {
            near.write_all(b"x").expect("written");
            assert_eq!(wait(&poller, PATIENCE), [Event::readable(1)]);
            assert_eq!(wait(&poller, Duration::ZERO), []);
        }
        let again = poller.modify_with_mode(&far, Event::readable(1), PollMode::Edge);
        again.expect("it is there");
        assert_eq!(wait(&poller, PATIENCE), [Event::readable(1)]);
        poller.delete(&far).expect("deleted");
    }
}
