//! Tests of the `io_uring` backend alone. The conformance suite tests all backends alike.

use std::{
    io::{Read, Write},
    os::{
        fd::{AsFd, OwnedFd},
        unix::net::UnixStream,
    },
    time::{Duration, Instant},
};

use evcore_testing::unless_refused;

use super::*;
use crate::{Interest, Poller};

mod refusals;
mod silent_completions;
mod storms;
mod unwakeable;

const NOW: Option<Duration> = Some(Duration::ZERO);

const MODES: [Mode; 3] = [Mode::Level, Mode::Edge, Mode::Oneshot];

/// A poller over a ring with room for this many completions; `None` if the kernel does not permit
/// rings.
fn poller(completions: u32) -> Option<Poller> {
    backend(completions).map(Poller::from)
}

fn backend(completions: u32) -> Option<IoUring> {
    let ring = unless_refused(Ring::with_room_for(completions))?;
    Some(IoUring::over(ring).expect("a descriptor is left"))
}

fn pair() -> (UnixStream, UnixStream) {
    let (near, far) = UnixStream::pair().expect("a pair of sockets");
    near.set_nonblocking(true).expect("non-blocking");
    far.set_nonblocking(true).expect("non-blocking");
    (near, far)
}

/// Makes a pair of sockets, of which the poller watches the second one under key 1.
fn watched(poller: &mut Poller, mode: Mode) -> (UnixStream, UnixStream) {
    let (near, far) = pair();
    poller.add(&far, 1, Interest::READ, mode).expect("add");
    assert_eq!(keys(poller, 8), []);
    (near, far)
}

fn registration(source: &impl AsRawFd, mode: Mode) -> Registration {
    Registration {
        fd: source.as_raw_fd(),
        key: 1,
        interest: Interest::READ,
        ends: Ready::NONE,
        mode,
    }
}

fn keys(poller: &mut Poller, room: usize) -> Vec<u64> {
    let mut events = Events::bounded(room);
    poller.wait(&mut events, NOW).expect("a wait");
    events.iter().map(|event| event.key).collect()
}

/// Many more descriptors are ready than the completion queue has room for. Their requests complete
/// by wake-ups, or when they are submitted.
#[test]
fn an_overflow_of_the_completion_queue_loses_nothing() {
    for mode in MODES {
        for room in [7, 3000] {
            let Some(mut poller) = poller(8) else {
                return;
            };
            let (mut near, far) = pair();
            let twins: Vec<_> = (0..500)
                .map(|_| far.try_clone().expect("a duplicate"))
                .collect();
            for (key, twin) in (0..).zip(&twins) {
                poller.add(twin, key, Interest::READ, mode).expect("add");
            }
            assert_eq!(keys(&mut poller, room), [], "nothing is ready");
            for round in 0..2 {
                near.write_all(b"a").expect("write");
                // Waits may report a descriptor again before they have reported all others.
                let mut found: Vec<_> = (0..3 * 500usize.div_ceil(room))
                    .flat_map(|_| keys(&mut poller, room))
                    .collect();
                found.sort_unstable();
                found.dedup();
                assert!(
                    found.iter().copied().eq(0..500),
                    "{mode:?}, {room}, {round}: {} of 500",
                    found.len()
                );
                (&far).read_exact(&mut [0]).expect("read");
                for key in 0..500 {
                    poller.modify(key, Interest::READ).expect("registered");
                }
                // A late edge is allowed, because it is a hint.
                keys(&mut poller, 3000);
                assert_eq!(keys(&mut poller, 3000), [], "{mode:?}");
            }
        }
    }
}

#[test]
fn a_full_submission_queue_is_submitted_early() {
    let Some(mut poller) = poller(4096) else {
        return;
    };
    let (_near, far) = pair();
    let twins: Vec<_> = (0..700)
        .map(|_| far.try_clone().expect("a duplicate"))
        .collect();
    for _ in 0..3 {
        for (key, twin) in (0..).zip(&twins) {
            poller
                .add(twin, key, Interest::WRITE, Mode::Edge)
                .expect("add");
        }
        assert_eq!(keys(&mut poller, 1000).len(), 700);
        for key in 0..700 {
            poller.modify(key, Interest::BOTH).expect("registered");
        }
        assert_eq!(
            keys(&mut poller, 1000).len(),
            700,
            "a changed interest reports anew"
        );
        for key in 0..700 {
            poller.remove(key).expect("registered");
        }
        assert_eq!(keys(&mut poller, 1000), []);
    }
}

#[test]
fn a_poller_goes_on_in_another_thread_and_comes_back() {
    let Some(mut poller) = poller(64) else {
        return;
    };
    let pairs: Vec<_> = (0..3).map(|_| pair()).collect();
    let modes = MODES;
    for ((key, (_, far)), mode) in (0..).zip(&pairs).zip(modes) {
        poller.add(far, key, Interest::READ, mode).expect("add");
    }
    assert_eq!(keys(&mut poller, 8), []);
    for _ in 0..3 {
        // The old thread's ring has a wake-up that it has not reported.
        for (near, _) in &pairs {
            (&mut &*near).write_all(b"a").expect("write");
        }
        poller.waker().wake();
        poller = std::thread::scope(|threads| {
            let moved = threads.spawn(|| {
                let mut events = Events::bounded(8);
                poller.wait(&mut events, NOW).expect("a wait");
                assert!(events.was_woken());
                let mut found: Vec<_> = events.iter().map(|event| event.key).collect();
                found.sort_unstable();
                assert_eq!(found, [0, 1, 2]);
                for (_, far) in &pairs {
                    (&mut &*far).read_exact(&mut [0]).expect("read");
                }
                poller.modify(2, Interest::READ).expect("registered");
                assert_eq!(keys(&mut poller, 8), []);
                poller
            });
            moved.join().expect("the thread")
        });
        let mut events = Events::bounded(8);
        poller.wait(&mut events, NOW).expect("a wait");
        assert!(events.is_empty() && !events.was_woken(), "{events:?}");
    }
}

#[test]
fn a_removal_in_another_thread_closes_the_file() {
    let Some(mut poller) = poller(64) else {
        return;
    };
    let (mut near, far) = watched(&mut poller, Mode::Edge);
    std::thread::scope(|threads| {
        threads.spawn(|| poller.remove(1).expect("registered"));
    });
    drop(far);
    near.set_nonblocking(false).expect("blocking");
    // The old ring releases the file after a while.
    assert_eq!(near.read(&mut [0]).expect("the end"), 0);
}

#[test]
fn a_late_completion_of_a_removed_key_is_dropped() {
    let Some(mut poller) = poller(64) else {
        return;
    };
    for mode in MODES {
        let ((mut near, old), (_other, new)) = (pair(), pair());
        for before_close in [true, false] {
            poller.add(&old, 7, Interest::READ, mode).expect("add");
            assert_eq!(keys(&mut poller, 8), []);
            near.write_all(b"a").expect("write");
            if before_close {
                poller.remove_before_close(7).expect("registered");
            } else {
                poller.remove(7).expect("registered");
            }
            // The new registration has the same key, all 64 bits of it.
            poller.add(&new, 7, Interest::READ, mode).expect("add");
            assert_eq!(keys(&mut poller, 8), [], "{mode:?}");
            poller.modify(7, Interest::BOTH).expect("registered");
            assert_eq!(keys(&mut poller, 8), [7], "{mode:?}");
            poller.remove(7).expect("registered");
            (&old).read_exact(&mut [0]).expect("read");
        }
    }
}

#[test]
fn a_wait_with_changes_never_ends_early() {
    let Some(mut poller) = poller(64) else {
        return;
    };
    for mut events in [Events::bounded(8), Events::raw(8)] {
        for mode in MODES {
            let (_near, far) = pair();
            poller.add(&far, 1, Interest::READ, mode).expect("add");
            for interest in [
                Interest::READ,
                Interest::READ | Interest::PRIORITY,
                Interest::NONE,
                Interest::READ,
            ] {
                poller.modify(1, interest).expect("registered");
                let (start, timeout) = (Instant::now(), Duration::from_millis(3));
                poller.wait(&mut events, Some(timeout)).expect("a wait");
                assert!(events.is_empty() && start.elapsed() >= timeout, "{mode:?}");
            }
            poller.remove(1).expect("registered");
        }
    }
}

#[test]
fn a_removed_and_closed_descriptor_is_closed_at_once() {
    let Some(mut poller) = poller(64) else {
        return;
    };
    for mode in MODES {
        for before_close in [true, false] {
            let (mut near, far) = watched(&mut poller, mode);
            if before_close {
                poller.remove_before_close(1).expect("registered");
            } else {
                poller.remove(1).expect("registered");
            }
            drop(far);
            assert_eq!(near.read(&mut [0]).expect("the end"), 0, "{mode:?}");
        }
    }
}

/// Lets the peer cause a wake-up, which is pending when the registration changes.
fn wake_up(near: &mut UnixStream, far: &mut UnixStream, read: bool) {
    near.write_all(b"a").expect("write");
    if read {
        far.read_exact(&mut [0]).expect("read");
    }
}

/// Asserts that the file is closed: the peer reads the end, or gets a reset if there was unread
/// data.
fn assert_closed(near: &mut UnixStream, case: &dyn std::fmt::Debug) {
    match near.read(&mut [0]) {
        Ok(0) => {}
        Err(error) if error.kind() == std::io::ErrorKind::ConnectionReset => {}
        other => panic!("{case:?}: {other:?}"),
    }
}

#[test]
fn a_removal_with_a_pending_wake_up_closes_the_file() {
    let Some(mut poller) = poller(64) else {
        return;
    };
    for mode in MODES {
        for (before_close, read) in [(true, true), (true, false), (false, true), (false, false)] {
            let (mut near, mut far) = watched(&mut poller, mode);
            wake_up(&mut near, &mut far, read);
            if before_close {
                poller.remove_before_close(1).expect("registered");
            } else {
                poller.remove(1).expect("registered");
            }
            drop(far);
            assert_closed(&mut near, &(mode, before_close, read));
        }
    }
}

/// A call does the work of some twenty wake-ups. The work of a removal comes after that of all
/// earlier wake-ups.
#[test]
fn a_removal_behind_many_wake_ups_closes_the_file() {
    let Some(mut poller) = poller(64) else {
        return;
    };
    for mode in MODES {
        let mut pairs: Vec<_> = (0..300).map(|_| pair()).collect();
        for (key, (_, far)) in (0..).zip(&pairs) {
            poller.add(far, key, Interest::READ, mode).expect("add");
        }
        assert_eq!(keys(&mut poller, 8), []);
        for (near, far) in &mut pairs {
            wake_up(near, far, false);
        }
        let (mut near, far) = pairs.pop().expect("the last");
        poller.remove(299).expect("registered");
        drop(far);
        assert_closed(&mut near, &mode);
        for key in 0..299 {
            poller.remove(key).expect("registered");
        }
    }
}

#[test]
fn a_change_with_a_pending_wake_up_leaves_no_request() {
    let Some(mut poller) = poller(64) else {
        return;
    };
    for mode in MODES {
        for (anew, read) in [(true, true), (true, false), (false, true), (false, false)] {
            let (mut near, mut far) = watched(&mut poller, mode);
            wake_up(&mut near, &mut far, read);
            if anew {
                poller.reregister(1).expect("registered");
            } else {
                poller
                    .modify(1, Interest::READ | Interest::PRIORITY)
                    .expect("registered");
            }
            assert_eq!(keys(&mut poller, 8), if read { vec![] } else { vec![1] });
            poller.remove(1).expect("registered");
            drop(far);
            assert_closed(&mut near, &(mode, anew, read));
        }
    }
}

#[test]
fn a_registration_for_nothing_holds_no_file_after_the_wait() {
    let Some(mut poller) = poller(64) else {
        return;
    };
    for mode in MODES {
        let (mut near, far) = watched(&mut poller, mode);
        poller.modify(1, Interest::NONE).expect("registered");
        assert_eq!(keys(&mut poller, 8), []);
        drop(far);
        assert_closed(&mut near, &mode);
        poller.remove(1).expect("registered");
    }
}

/// A wait requires one completion more than there are pending cancellations. The cancellations of
/// the old ring never complete, so they must not be counted.
#[test]
fn a_cancellation_of_the_old_ring_is_not_waited_for() {
    let Some(mut backend) = backend(64) else {
        return;
    };
    let mut events = Events::bounded(8);
    let (_near, far) = pair();
    let read = registration(&far, Mode::Edge);
    backend.add(&read).expect("add");
    backend.wait((&mut events).into(), NOW).expect("a wait");
    let both = Registration {
        interest: Interest::BOTH,
        ..read
    };
    backend.modify(&both).expect("modify");
    backend.queue_changes().expect("room");
    backend.ring.submit().expect("submitted");
    assert_eq!(
        backend.cancellations_pending, 1,
        "the cancellation's completion was not taken"
    );
    std::thread::scope(|threads| {
        threads.spawn(|| {
            backend.wait((&mut events).into(), NOW).expect("a wait");
            assert_eq!((events.len(), backend.cancellations_pending), (1, 0));
        });
    });
}

#[test]
fn a_cancelled_request_ends_no_later_wait() {
    let Some(mut poller) = poller(64) else {
        return;
    };
    let mut events = Events::raw(8);
    for mode in MODES {
        let (mut near, mut far) = watched(&mut poller, mode);
        wake_up(&mut near, &mut far, true);
        poller.modify(1, Interest::NONE).expect("registered");
        assert_eq!(keys(&mut poller, 8), []);
        for _ in 0..2 {
            wake_up(&mut near, &mut far, true);
            let (start, timeout) = (Instant::now(), Duration::from_millis(3));
            poller.wait(&mut events, Some(timeout)).expect("a wait");
            assert!(events.is_empty() && start.elapsed() >= timeout, "{mode:?}");
        }
        poller.remove(1).expect("registered");
    }
}

/// The `poll` that checks readiness may be refused, because it has more entries than the limit of
/// descriptors, or because there is too little memory.
#[test]
fn a_failed_check_reports_what_the_wake_ups_claimed() {
    let Some(mut backend) = backend(8) else {
        return;
    };
    let (_near, far) = pair();
    for (poll_succeeded, expected) in [(false, vec![(1, Ready::READABLE)]), (true, vec![])] {
        let new = registration(&far, Mode::Level);
        backend.add(&new).expect("add");
        backend.unchecked.push((1, Ready::READABLE));
        backend.poll_entries.push(libc::pollfd {
            fd: new.fd,
            events: libc::POLLIN,
            revents: 0,
        });
        let mut events = Events::bounded(8);
        backend.report_checked(poll_succeeded, &mut events);
        let found: Vec<_> = events
            .iter()
            .map(|event| (event.key, event.ready))
            .collect();
        assert_eq!(found, expected);
        assert!(backend.unchecked.is_empty() && backend.poll_entries.is_empty());
    }
}

#[test]
fn a_dropped_poller_holds_no_file() {
    let Some(mut poller) = poller(64) else {
        return;
    };
    let (mut near, far) = watched(&mut poller, Mode::Edge);
    drop(poller);
    drop(far);
    assert_eq!(near.read(&mut [0]).expect("the end"), 0);
}

#[test]
fn a_poller_dropped_in_another_thread_holds_no_file_for_long() {
    let Some(mut poller) = poller(64) else {
        return;
    };
    let (mut near, far) = watched(&mut poller, Mode::Edge);
    let dropped = std::thread::spawn(|| drop(poller));
    dropped.join().expect("it does not panic");
    drop(far);
    near.set_nonblocking(false).expect("blocking");
    assert_eq!(near.read(&mut [0]).expect("the end"), 0);
}

#[test]
fn a_drop_in_a_forked_child_touches_no_queue() {
    let Some(mut backend) = backend(8) else {
        return;
    };
    let (_near, far) = pair();
    backend.add(&registration(&far, Mode::Edge)).expect("add");
    let mut events = Events::bounded(8);
    backend.wait((&mut events).into(), NOW).expect("a wait");
    let (here, calls) = (backend.fork_guard, backend.ring.calls);
    backend.fork_guard = ForkGuard::of_a_parent();
    backend.cancel_all().expect("nothing to do");
    assert_eq!((backend.ring.queued(), backend.ring.calls), (0, calls));
    backend.fork_guard = here;
    backend.cancel_all().expect("submitted");
    assert!(backend.ring.calls > calls);
}

/// The kernel completes each request at once with `EPOLLRDHUP`, which does not concern a writer.
#[test]
fn a_half_close_that_is_not_watched_ends_no_wait() {
    let Some(mut poller) = poller(64) else {
        return;
    };
    let mut events = Events::bounded(8);
    for mode in [Mode::Level, Mode::Oneshot, Mode::Edge] {
        let (mut near, mut far) = pair();
        let mut written = 0;
        while let Ok(n) = far.write(&[0; 4096]) {
            written += n;
        }
        near.shutdown(std::net::Shutdown::Write).expect("shutdown");
        poller.add(&far, 1, Interest::WRITE, mode).expect("add");
        for _ in 0..2 {
            let (start, timeout) = (Instant::now(), Duration::from_millis(5));
            poller.wait(&mut events, Some(timeout)).expect("a wait");
            assert!(events.is_empty() && start.elapsed() >= timeout, "{mode:?}");
        }
        near.read_exact(&mut vec![0; written]).expect("read");
        assert_eq!(keys(&mut poller, 8), [1], "{mode:?}");
        let again = if mode == Mode::Level { vec![1] } else { vec![] };
        assert_eq!(keys(&mut poller, 8), again, "{mode:?}");
        poller.remove(1).expect("registered");
    }
}

/// The kernel ends a multishot request when another ring wakes it, so here its first completion is
/// its last.
#[test]
fn an_edge_that_another_ring_wakes_goes_on() {
    for is_read in [true, false] {
        another_ring_wakes(is_read);
    }
}

fn another_ring_wakes(is_read: bool) {
    let Some(mut backend) = backend(8) else {
        return;
    };
    let mut other = Ring::with_room_for(8).expect("a second ring");
    let eventfd = rustix::event::eventfd(0, rustix::event::EventfdFlags::NONBLOCK);
    let eventfd = eventfd.expect("a descriptor is left");
    other.notify(&eventfd).expect("registered");

    let before = Before {
        had_completions: false,
    };
    backend.table.begin_wait();
    let new = registration(&eventfd, Mode::Edge);
    backend.add(&new).expect("add");
    backend.queue_changes().expect("room");
    backend.ring.enter(0, None).expect("submitted");
    assert!(backend.ring.first().is_none(), "nothing is ready");

    // There is no such request, so the cancellation itself completes.
    let (name, target) = (CANCEL, 1);
    other.push(Request::Cancel { name, target });
    other.enter(0, None).expect("submitted");
    assert!(other.first().is_some(), "a completion, which wakes");
    backend
        .ring
        .enter(0, None)
        .expect("the work of the wake-up");
    assert!(backend.ring.first().is_some_and(|first| !first.more));
    let mut events = Events::bounded(8);
    backend.gather(&mut events, before);
    assert_eq!(events.len(), 1);

    if is_read {
        rustix::io::read(&eventfd, &mut [0; 8]).expect("read");
    }
    // The new request completes with the present readiness, which is a spurious hint.
    for expected in [usize::from(!is_read), 0] {
        events.clear();
        backend.wait((&mut events).into(), NOW).expect("a wait");
        assert_eq!(events.len(), expected);
    }
    rustix::io::write(&eventfd, &1_u64.to_ne_bytes()).expect("write");
    backend.wait((&mut events).into(), NOW).expect("a wait");
    assert_eq!(events.len(), 1, "a new edge");
}
