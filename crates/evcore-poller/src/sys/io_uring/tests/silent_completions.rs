//! Completions that report nothing. They do not end a wait; in particular, they are not taken for a
//! signal.

use std::net::Shutdown;

use super::*;

const TIMEOUT: Duration = Duration::from_millis(20);

/// Waits for [`TIMEOUT`], and expects that it passes without an event. Returns the number of calls.
fn calls_of_wait(backend: &mut IoUring) -> u32 {
    let mut events = Events::bounded(8);
    let (before, start) = (backend.ring.calls, Instant::now());
    let waited = backend.wait((&mut events).into(), Some(TIMEOUT));
    waited.expect("no signal came");
    assert!(events.is_empty() && start.elapsed() >= TIMEOUT);
    assert_eq!(
        backend.cancellations_pending, 0,
        "each cancellation has made a completion"
    );
    backend.ring.calls - before
}

/// Watches one side of a pair for readiness that it does not have. Returns both sides, the peer's
/// first.
fn watch(backend: &mut IoUring, interest: Interest, mode: Mode) -> (UnixStream, UnixStream) {
    let (near, mut far) = pair();
    if interest.bits() & Interest::WRITE.bits() != 0 {
        while far.write(&[0; 4096]).is_ok() {}
    }
    let new = Registration {
        interest,
        ..registration(&far, mode)
    };
    backend.add(&new).expect("add");
    assert_eq!(calls_of_wait(backend), 1);
    (near, far)
}

fn unwatch(backend: &mut IoUring, far: &UnixStream, mode: Mode) {
    backend.remove(&registration(far, mode)).expect("remove");
}

#[test]
fn a_wake_up_for_nothing_before_a_wait_does_not_end_it() {
    let Some(mut backend) = backend(64) else {
        return;
    };
    for mode in [Mode::Level, Mode::Oneshot] {
        let (mut near, mut far) = watch(&mut backend, Interest::READ, mode);
        wake_up(&mut near, &mut far, true);
        assert_eq!(calls_of_wait(&mut backend), 2, "{mode:?}");
        assert_eq!(calls_of_wait(&mut backend), 1, "{mode:?}");
        unwatch(&mut backend, &far, mode);
    }
    for mode in [Mode::Level, Mode::Oneshot, Mode::Edge] {
        // The end of the peer's side does not concern a writer.
        let (near, far) = watch(&mut backend, Interest::WRITE, mode);
        near.shutdown(Shutdown::Write).expect("shutdown");
        // The multishot request that replaces the first request also reports the shutdown, once.
        let calls = if mode == Mode::Edge { 2 } else { 3 };
        assert_eq!(calls_of_wait(&mut backend), calls, "{mode:?}");
        assert_eq!(calls_of_wait(&mut backend), 1, "{mode:?}");
        unwatch(&mut backend, &far, mode);
    }
}

/// A wake-up for data also has the flag of priority data, and a request for priority data has both
/// flags.
#[test]
fn data_ends_no_wait_for_priority_data() {
    let Some(mut backend) = backend(64) else {
        return;
    };
    for mode in [Mode::Level, Mode::Oneshot, Mode::Edge] {
        let (mut near, far) = watch(&mut backend, Interest::PRIORITY, mode);
        // Unread data is left each time.
        for round in 0..3 {
            near.write_all(b"a").expect("write");
            // In the first round a request that is not multishot is replaced.
            let calls = calls_of_wait(&mut backend);
            assert!((2..=4).contains(&calls), "{mode:?}, {round}: {calls}");
            assert_eq!(calls_of_wait(&mut backend), 1, "{mode:?}, {round}");
        }
        unwatch(&mut backend, &far, mode);
    }
}

/// `/dev/null` has no wait queue and is always readable, so each request completes at once.
#[test]
fn a_file_that_nothing_wakes_ends_no_wait_for_priority_data() {
    let Some(mut backend) = backend(64) else {
        return;
    };
    let file = std::fs::File::open("/dev/null").expect("there is one");
    for mode in [Mode::Level, Mode::Oneshot, Mode::Edge] {
        let new = Registration {
            interest: Interest::PRIORITY,
            ..registration(&file, mode)
        };
        backend.add(&new).expect("add");
        let calls = calls_of_wait(&mut backend);
        // At most four calls: for the one-shot request, for the first multishot request, for the
        // second one (submitted by itself), and for the wait.
        assert!(calls <= 4, "{mode:?}: {calls}");
        assert_eq!(calls_of_wait(&mut backend), 1, "{mode:?}");
        backend.remove(&new).expect("remove");
    }
}

#[test]
fn a_wake_up_for_nothing_during_a_wait_does_not_end_it() {
    let Some(mut backend) = backend(64) else {
        return;
    };
    let waiting = rustix::thread::gettid();
    for mode in [Mode::Level, Mode::Oneshot, Mode::Edge] {
        let (near, far) = watch(&mut backend, Interest::WRITE, mode);
        std::thread::scope(|threads| {
            threads.spawn(|| {
                until_blocked(waiting);
                near.shutdown(Shutdown::Write).expect("shutdown");
            });
            calls_of_wait(&mut backend);
        });
        unwatch(&mut backend, &far, mode);
    }
}

/// Waits until `thread` blocks: in its wait, or at the latest when it joins the calling thread.
fn until_blocked(thread: rustix::thread::Pid) {
    let path = format!("/proc/self/task/{}/stat", thread.as_raw_nonzero());
    let is_blocked = || {
        let stat = std::fs::read_to_string(&path).expect("it lives");
        stat.rsplit_once(')')
            .is_some_and(|(_, state)| state.starts_with(" S"))
    };
    evcore_testing::eventually("the wait has begun", is_blocked);
}

#[test]
fn a_change_and_a_wait_are_one_call() {
    let Some(mut backend) = backend(64) else {
        return;
    };
    for mode in [Mode::Level, Mode::Oneshot, Mode::Edge] {
        let (_near, far) = watch(&mut backend, Interest::READ, mode);
        for interest in [Interest::PRIORITY, Interest::READ] {
            let changed = Registration {
                interest,
                ..registration(&far, mode)
            };
            backend.modify(&changed).expect("modify");
            assert_eq!(calls_of_wait(&mut backend), 1, "{mode:?}");
        }
        unwatch(&mut backend, &far, mode);
        assert_eq!(calls_of_wait(&mut backend), 1, "{mode:?}");
    }
}
