//! Calls that the kernel refuses for now.

use super::*;

/// Number of attempts of a call before its refusal is returned.
const TRIES: usize = 12;

#[test]
fn a_call_that_is_refused_for_now_is_made_again() {
    let Some(mut backend) = backend(8) else {
        return;
    };
    let mut events = Events::bounded(8);
    for refusal in [Errno::AGAIN, Errno::BUSY] {
        for mode in [Mode::Level, Mode::Edge, Mode::Oneshot] {
            let (mut near, far) = pair();
            backend.add(&registration(&far, mode)).expect("add");
            for is_written in [false, true] {
                if is_written {
                    near.write_all(b"a").expect("write");
                }
                events.clear();
                backend.ring.refusals = vec![refusal; 3];
                backend.wait((&mut events).into(), NOW).expect("a wait");
                assert_eq!(events.len(), usize::from(is_written), "{refusal}, {mode:?}");
                assert!(backend.ring.refusals.is_empty());
            }
            backend.ring.refusals = vec![refusal; 3];
            backend.remove(&registration(&far, mode)).expect("remove");
            drop(far);
            assert_closed(&mut near, &mode);
        }
    }
}

#[test]
fn a_call_that_is_always_refused_fails_with_its_reason() {
    let Some(mut backend) = backend(8) else {
        return;
    };
    let mut events = Events::bounded(8);
    let refusals = vec![Errno::AGAIN; TRIES];
    backend.ring.refusals.clone_from(&refusals);
    let error = backend
        .wait((&mut events).into(), NOW)
        .expect_err("refused");
    assert!(
        backend.ring.refusals.is_empty(),
        "{:?}",
        backend.ring.refusals
    );
    let message = error.to_string();
    assert!(message.contains("tried again for a second"), "{message}");
    assert_eq!(
        std::io::Error::from(error).raw_os_error(),
        Some(libc::EAGAIN)
    );
    // The next wait submits the requests that are left, even if it has no limit.
    backend.waker().wake();
    backend
        .wait((&mut events).into(), None)
        .expect("it is woken");
    assert!(events.was_woken());
    events.clear();
    let (mut near, far) = pair();
    backend.add(&registration(&far, Mode::Level)).expect("add");
    near.write_all(b"a").expect("write");
    backend.wait((&mut events).into(), NOW).expect("a wait");
    assert_eq!(events.len(), 1);
}

/// A call that fails with `EBUSY` cannot succeed before completions were taken, so it is not
/// repeated.
#[test]
fn completions_are_taken_before_a_busy_call_is_made_again() {
    let Some(mut backend) = backend(8) else {
        return;
    };
    let ((mut near, far), (mut late, other)) = (pair(), pair());
    backend.add(&registration(&far, Mode::Edge)).expect("add");
    let mut events = Events::bounded(8);
    backend.wait((&mut events).into(), NOW).expect("a wait");
    near.write_all(b"a").expect("write");
    backend.ring.enter(0, None).expect("it takes the wake-up");
    assert!(backend.ring.first().is_some());
    for id in 2..20 {
        let twin = Registration {
            key: id,
            ..registration(&other, Mode::Edge)
        };
        backend.add(&twin).expect("add");
    }
    backend.ring.refusals = vec![Errno::BUSY; TRIES];
    backend.wait((&mut events).into(), NOW).expect("a wait");
    assert_eq!(events.len(), 1, "the completion that was there is reported");
    assert!(
        !backend.ring.refusals.is_empty(),
        "the busy call is not repeated"
    );
    backend.ring.refusals.clear();
    late.write_all(b"a").expect("write");
    let mut found = std::collections::BTreeSet::new();
    for _ in 0..4 {
        events.clear();
        backend.wait((&mut events).into(), NOW).expect("a wait");
        found.extend(events.iter().map(|event| event.key));
    }
    // The next calls submitted the requests.
    assert!(found.iter().copied().eq(2..20), "{found:?}");
}

/// Makes a backend with an edge, and loses the edge's completion. Returns also the two ends of the
/// watched connection.
fn backend_that_loses_an_edge() -> Option<(IoUring, UnixStream, UnixStream)> {
    let mut backend = backend(8)?;
    let (mut near, far) = pair();
    backend.add(&registration(&far, Mode::Edge)).expect("add");
    let mut events = Events::bounded(8);
    backend.wait((&mut events).into(), NOW).expect("a wait");
    near.write_all(b"a").expect("write");
    backend
        .ring
        .enter(0, None)
        .expect("the work of the wake-up");
    assert!(backend.ring.first().is_some());
    while backend.ring.first().is_some() {
        backend.ring.drop_first();
    }
    backend.ring.refusals = vec![Errno::BADR];
    Some((backend, near, far))
}

/// The kernel reports lost completions once, also to a wait that has nothing to submit.
#[test]
fn a_wait_without_limit_reports_what_was_lost() {
    let Some((mut backend, _near, _far)) = backend_that_loses_an_edge() else {
        return;
    };
    let mut events = Events::bounded(8);
    // Without this, a wait that loses the edge would never end.
    backend.waker().wake();
    backend.wait((&mut events).into(), None).expect("a wait");
    assert_eq!(events.len(), 1);
}

#[test]
fn what_was_lost_is_reported_once_a_new_ring_can_be_opened() {
    for timeout in [None, NOW] {
        let Some((mut backend, _near, _far)) = backend_that_loses_an_edge() else {
            return;
        };
        backend.ring.next_refusals = 2;
        let mut events = Events::bounded(8);
        backend.waker().wake();
        for _ in 0..2 {
            let refused = backend.wait((&mut events).into(), timeout);
            assert!(refused.is_err(), "{timeout:?}");
        }
        backend.wait((&mut events).into(), timeout).expect("a wait");
        assert_eq!(events.len(), 1, "{timeout:?}");
    }
}
