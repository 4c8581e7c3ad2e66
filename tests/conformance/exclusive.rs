//! Exclusive wake-ups: a client wakes one of several pollers that share a listener. A backend
//! without exclusive wake-ups refuses the registration.

use std::io::Write;

use evcore_poller::{Error, Interest, Mode};

use crate::{
    fixture::{Fixture, READABLE, WRITABLE},
    socket::drain,
};

crate::scenarios! {
    the_interest_of_an_exclusive_registration_changes,
    an_exclusive_edge_is_reported_once,
    an_interest_that_cannot_be_exclusive_is_refused;
    of kernels alone:
    one_of_two_pollers_is_woken_or_exclusive_is_refused,
    a_reregistered_poller_is_woken_last_or_exclusive_is_refused,
}

/// Returns whether the backend has exclusive wake-ups. If not, checks that the error recommends the
/// accept lock.
fn can(fixture: &mut Fixture) -> bool {
    let can = fixture.poller.backend().capabilities().exclusive;
    assert_eq!(can, fixture.platform.has_exclusive(), "{}", fixture.name);
    if !can {
        let (_near, far) = fixture.pair();
        let (interest, mode) = (Interest::READ, Mode::Exclusive);
        let refused = fixture.poller.add(&far, 1, interest, mode);
        let refused = refused.expect_err("it cannot");
        assert!(
            matches!(&refused, Error::NoExclusive { backend } if *backend == fixture.poller.backend().name()),
            "{}: {refused:?}",
            fixture.name
        );
        assert!(refused.to_string().contains("accept lock"), "{refused}");
        fixture.add(&far, 1, interest, Mode::Level);
    }
    can
}

fn one_of_two_pollers_is_woken_or_exclusive_is_refused(fixture: &mut Fixture) {
    if can(fixture) {
        first_woken_of_two(false);
    }
}

fn a_reregistered_poller_is_woken_last_or_exclusive_is_refused(fixture: &mut Fixture) {
    if can(fixture) {
        assert_eq!(first_woken_of_two(true), 1, "{}", fixture.name);
    }
}

/// Returns the one of two workers that a client wakes. If `reregistered`, worker 0 has registered
/// the listener again.
///
/// Both threads must sleep before the client connects, because a thread that does not sleep finds
/// the client without a wake-up.
#[cfg(any(target_os = "linux", target_os = "android"))]
fn first_woken_of_two(reregistered: bool) -> usize {
    use std::{
        net::{TcpListener, TcpStream},
        sync::mpsc::channel,
    };

    let listener = TcpListener::bind("127.0.0.1:0").expect("listen");
    let (sleeping, sleepers) = channel();
    let (reporting, reports) = channel();
    let mut workers = [0, 1].map(|_| {
        let kind = evcore_poller::BackendKind::Epoll;
        let mut fixture = Fixture::of_kernel(kind, "one of two is woken");
        fixture.add(&listener, 1, Interest::READ, Mode::Exclusive);
        fixture
    });
    if reregistered {
        workers[0].reregister(1);
    }
    let mut wakers = Vec::new();
    std::thread::scope(|threads| {
        for (worker, mut fixture) in workers.into_iter().enumerate() {
            wakers.push(fixture.poller.waker());
            let (sleeping, reporting) = (sleeping.clone(), reporting.clone());
            threads.spawn(move || {
                sleeping.send(rustix::thread::gettid()).expect("a receiver");
                let trace = fixture.wait(None);
                // The listener stays ready until the client is accepted.
                assert_eq!(fixture.now(), trace, "{}", fixture.name);
                reporting.send((worker, trace)).expect("a receiver");
            });
        }
        for thread in sleepers.iter().take(2) {
            until_asleep(thread);
        }
        let _client = TcpStream::connect(listener.local_addr().expect("an address"));
        let (first, trace) = reports.recv().expect("one is woken");
        assert_eq!(trace, [(1, READABLE)]);
        let other: usize = 1 - first;
        wakers[other].wake();
        let (second, trace) = reports.recv().expect("the other is woken by hand");
        assert_eq!((second, trace), (other, vec![]), "one client, one worker");
        first
    })
}

#[cfg(any(target_os = "linux", target_os = "android"))]
fn until_asleep(thread: rustix::thread::Pid) {
    let path = format!("/proc/self/task/{}/stat", thread.as_raw_nonzero());
    loop {
        let stat = std::fs::read_to_string(&path).expect("the thread lives");
        // The state follows the name, which is in parentheses.
        if stat
            .rsplit(") ")
            .next()
            .is_some_and(|rest| rest.starts_with('S'))
        {
            return;
        }
        std::thread::yield_now();
    }
}

#[cfg(not(any(target_os = "linux", target_os = "android")))]
fn first_woken_of_two(_: bool) -> usize {
    unreachable!(
        "this system has exclusive wake-ups now: add here how to find out that a thread sleeps"
    );
}

fn the_interest_of_an_exclusive_registration_changes(fixture: &mut Fixture) {
    if !can(fixture) {
        return;
    }
    let (mut near, far) = fixture.pair();
    near.write_all(b"a").expect("write");
    fixture.add(&far, 2, Interest::READ, Mode::Exclusive);
    fixture.expect(&[(2, READABLE)]);
    fixture.modify(2, Interest::BOTH);
    fixture.expect(&[(2, READABLE | WRITABLE)]);
    fixture.modify(2, Interest::NONE);
    fixture.expect_nothing();
    fixture.modify(2, Interest::WRITE);
    fixture.expect(&[(2, WRITABLE)]);
    fixture.remove(2);
    fixture.expect_nothing();
}

fn an_exclusive_edge_is_reported_once(fixture: &mut Fixture) {
    if !can(fixture) {
        return;
    }
    let (mut near, far) = fixture.pair();
    fixture.add(&far, 2, Interest::READ, Mode::ExclusiveEdge);
    for _ in 0..2 {
        near.write_all(b"a").expect("write");
        fixture.expect(&[(2, READABLE)]);
        fixture.expect_nothing();
        drain(&far);
        fixture.rearm(2, Interest::READ);
    }
}

fn an_interest_that_cannot_be_exclusive_is_refused(fixture: &mut Fixture) {
    if !can(fixture) {
        return;
    }
    let (_near, far) = fixture.pair();
    for mode in [Mode::Exclusive, Mode::ExclusiveEdge] {
        let refused = fixture.poller.add(&far, 2, Interest::PRIORITY, mode);
        assert!(
            matches!(refused, Err(Error::NotExclusive { .. })),
            "{}: {refused:?}",
            fixture.name
        );
    }
    fixture.add(&far, 2, Interest::WRITE, Mode::Oneshot);
    fixture.expect(&[(2, WRITABLE)]);
}
