//! Pollers that share a listener so that one of them is woken, where the kernel can do it; and the
//! refusal where it cannot.

use std::io::Write;

use evcore_poller::{Error, Interest, Mode};

use crate::{
    socket::drain,
    stage::{READABLE, Stage, WRITABLE},
};

crate::scenarios! {
    the_interest_of_an_exclusive_registration_changes,
    an_exclusive_edge_is_reported_once,
    what_the_kernel_does_not_keep_exclusive_is_refused;
    of kernels alone:
    one_of_two_is_woken_or_it_is_refused,
}

/// Here backends differ: epoll alone has exclusive wake-ups.
fn can(stage: &mut Stage) -> bool {
    let can = stage.poller.backend().capabilities().exclusive;
    assert_eq!(can, stage.ground.has_exclusive(), "{}", stage.name);
    if !can {
        let (_near, far) = stage.pair();
        let (interest, mode) = (Interest::READ, Mode::Level);
        let refused = stage.poller.add_exclusive(&far, 1, interest, mode);
        let refused = refused.expect_err("it cannot");
        assert!(
            matches!(&refused, Error::NoExclusive { backend } if *backend == stage.poller.backend().name()),
            "{}: {refused:?}",
            stage.name
        );
        assert!(refused.to_string().contains("accept lock"), "{refused}");
        stage.add(&far, 1, interest, mode);
    }
    can
}

fn one_of_two_is_woken_or_it_is_refused(stage: &mut Stage) {
    if can(stage) {
        one_of_two_is_woken();
    }
}

/// Only who sleeps in its wait can be passed over: the kernel is asked whether both do.
#[cfg(any(target_os = "linux", target_os = "android"))]
fn one_of_two_is_woken() {
    use std::{
        net::{TcpListener, TcpStream},
        sync::mpsc::channel,
    };

    let listener = TcpListener::bind("127.0.0.1:0").expect("listen");
    let (sleeping, sleepers) = channel();
    let (reporting, reports) = channel();
    let mut wakers = Vec::new();
    std::thread::scope(|threads| {
        for worker in 0..2 {
            let mut stage =
                Stage::of_kernel(evcore_poller::BackendKind::Epoll, "one of two is woken");
            stage.add_exclusive(&listener, 1, Interest::READ, Mode::Level);
            wakers.push(stage.poller.waker());
            let (sleeping, reporting) = (sleeping.clone(), reporting.clone());
            threads.spawn(move || {
                sleeping.send(rustix::thread::gettid()).expect("a listener");
                let trace = stage.wait(None);
                // As long as nobody has accepted, it holds.
                assert_eq!(stage.now(), trace, "{}", stage.name);
                reporting.send((worker, trace)).expect("a listener");
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
    });
}

#[cfg(any(target_os = "linux", target_os = "android"))]
fn until_asleep(thread: rustix::thread::Pid) {
    let path = format!("/proc/self/task/{}/stat", thread.as_raw_nonzero());
    loop {
        let stat = std::fs::read_to_string(&path).expect("the thread lives");
        // After the name, which is in parentheses.
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
fn one_of_two_is_woken() {
    unreachable!(
        "a poller here has learned something new: say how to see that a thread sleeps here"
    );
}

fn the_interest_of_an_exclusive_registration_changes(stage: &mut Stage) {
    if !can(stage) {
        return;
    }
    let (mut near, far) = stage.pair();
    near.write_all(b"a").expect("write");
    stage.add_exclusive(&far, 2, Interest::READ, Mode::Level);
    stage.expect(&[(2, READABLE)]);
    stage.modify(2, Interest::BOTH);
    stage.expect(&[(2, READABLE | WRITABLE)]);
    stage.modify(2, Interest::NONE);
    stage.expect_nothing();
    stage.modify(2, Interest::WRITE);
    stage.expect(&[(2, WRITABLE)]);
    stage.remove(2);
    stage.expect_nothing();
}

fn an_exclusive_edge_is_reported_once(stage: &mut Stage) {
    if !can(stage) {
        return;
    }
    let (mut near, far) = stage.pair();
    stage.add_exclusive(&far, 2, Interest::READ, Mode::Edge);
    for _ in 0..2 {
        near.write_all(b"a").expect("write");
        stage.expect(&[(2, READABLE)]);
        stage.expect_nothing();
        drain(&far);
        stage.rearm(2, Interest::READ);
    }
}

fn what_the_kernel_does_not_keep_exclusive_is_refused(stage: &mut Stage) {
    if !can(stage) {
        return;
    }
    let (_near, far) = stage.pair();
    for (interest, mode) in [
        (Interest::READ, Mode::Oneshot),
        (Interest::PRIORITY, Mode::Level),
    ] {
        let refused = stage.poller.add_exclusive(&far, 2, interest, mode);
        assert!(
            matches!(refused, Err(Error::NotExclusive { .. })),
            "{}: {refused:?}",
            stage.name
        );
    }
    stage.add(&far, 2, Interest::WRITE, Mode::Oneshot);
    stage.expect(&[(2, WRITABLE)]);
}
