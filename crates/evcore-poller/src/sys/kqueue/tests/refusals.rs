//! Changes that the kernel refuses.

use super::*;

#[test]
fn an_addition_refused_for_one_filter_removes_the_other() {
    for filter in Filter::ALL {
        let mut fixture = Fixture::new();
        fixture.kernel().refuses.push(refusal(A, filter));
        let refused = fixture.add(A, 7, Interest::BOTH, Mode::Level);
        let message = refused.expect_err("refused").to_string();
        assert!(message.starts_with("kevent(EV_ADD) failed"), "{message}");
        assert_eq!(fixture.kernel().knotes(), []);
        fixture.kernel().refuses.clear();
        fixture.add(A, 7, Interest::BOTH, Mode::Level).expect("add");
    }
}

/// macOS was seen to do this for a pipe without a reader.
#[test]
fn a_knote_that_exists_despite_a_refusal_is_taken_over() {
    let broken_pipe = Refusal {
        errno: Errno::PIPE,
        made: true,
        ..refusal(A, Filter::Write)
    };
    let closed = Ready::WRITABLE | Ready::WRITE_CLOSED;
    for is_late in [false, true] {
        let mut fixture = Fixture::new();
        fixture.kernel().refuses.push(broken_pipe);
        fixture.kernel().hang_up(A, 0);
        let first = if is_late {
            Interest::NONE
        } else {
            Interest::WRITE
        };
        fixture.add(A, 7, first, Mode::Level).expect("add");
        fixture.modify(7, Interest::WRITE);
        for _ in 0..3 {
            assert_eq!(fixture.wait(), [(7, closed)]);
        }
        fixture.poller.remove(7).expect("remove");
        assert_eq!(fixture.kernel().knotes(), []);
    }
}

#[test]
fn a_bad_change_hides_neither_changes_nor_events() {
    let mut fixture = Fixture::new();
    for (fd, key) in [(A, 1), (B, 2), (C, 3)] {
        fixture
            .add(fd, key, Interest::READ, Mode::Level)
            .expect("add");
        fixture.modify(key, Interest::BOTH);
        fixture.kernel().make_room(fd, 1);
    }
    fixture.kernel().refuses.push(refusal(B, Filter::Write));
    fixture.kernel().waited = Duration::ZERO;
    let mut events = Events::bounded(16);
    fixture
        .poller
        .wait(&mut events, Some(SECOND))
        .expect("a wait");
    let mut found: Vec<_> = events
        .iter()
        .map(|event| (event.key, event.ready))
        .collect();
    found.sort_unstable_by_key(|event| event.0);
    let refused = Ready::ERROR | Ready::READABLE | Ready::WRITABLE;
    assert_eq!(
        found,
        [(1, Ready::WRITABLE), (2, refused), (3, Ready::WRITABLE)]
    );
    assert_eq!(fixture.kernel().waited, Duration::ZERO, "there was news");
}

#[test]
fn a_refused_registration_is_silent_until_modified() {
    // The next interest is the one before, the refused one, and a third one.
    for next in [Interest::READ, Interest::BOTH, Interest::WRITE] {
        let mut fixture = Fixture::new();
        fixture.add(A, 7, Interest::READ, Mode::Level).expect("add");
        fixture.modify(7, Interest::BOTH);
        fixture.kernel().refuses.push(refusal(A, Filter::Write));
        assert_eq!(fixture.wait().len(), 1);
        fixture.kernel().arrive(A, 1);
        fixture.kernel().make_room(A, 1);
        assert_eq!(fixture.wait(), []);
        assert_eq!(fixture.kernel().knotes(), []);

        fixture.kernel().refuses.clear();
        fixture.modify(7, next);
        assert_eq!(fixture.wait(), [(7, Ready::answering(next))]);
        fixture.poller.remove(7).expect("remove");
    }
}

#[test]
fn refusals_that_do_not_fit_come_with_later_waits() {
    let mut fixture = Fixture::new();
    for (fd, key) in [(A, 1), (B, 2), (C, 3)] {
        fixture
            .add(fd, key, Interest::READ, Mode::Level)
            .expect("add");
        fixture.modify(key, Interest::WRITE);
        fixture.kernel().refuses.push(refusal(fd, Filter::Write));
    }
    let mut reported = Vec::new();
    for _ in 0..3 {
        let event = fixture.wait_with(1)[0];
        assert!(event.ready.is_error());
        reported.push(event.key);
    }
    reported.sort_unstable();
    assert_eq!(reported, [1, 2, 3]);
    assert_eq!(fixture.wait(), []);
}

/// In each turn as many changes are refused as the buffer has room for.
#[test]
fn refused_changes_do_not_starve_ready_descriptors() {
    for capacity in [1, 2] {
        let mut fixture = Fixture::new();
        let refused = &[(A, 1), (B, 2)][..capacity];
        for (fd, key) in refused {
            fixture
                .add(*fd, *key, Interest::READ, Mode::Level)
                .expect("add");
            fixture.kernel().refuses.push(refusal(*fd, Filter::Write));
        }
        fixture.add(C, 3, Interest::READ, Mode::Level).expect("add");
        fixture.kernel().arrive(C, 1);
        for _ in 0..10 {
            let waits = [(); 2].map(|()| {
                for (_, key) in refused {
                    fixture.modify(*key, Interest::WRITE);
                }
                let events = fixture.wait_with(capacity);
                assert_eq!(events.len(), capacity);
                events.iter().filter(|event| event.key == 3).count()
            });
            assert_eq!(waits, [0, 1]);
        }
    }
}

#[test]
fn an_unreported_refusal_ends_with_its_registration() {
    let mut fixture = Fixture::new();
    for (fd, key) in [(A, 1), (B, 2)] {
        fixture
            .add(fd, key, Interest::READ, Mode::Level)
            .expect("add");
        fixture.modify(key, Interest::WRITE);
        fixture.kernel().refuses.push(refusal(fd, Filter::Write));
    }
    let reported = fixture.wait_with(1)[0].key;
    let untold = 3 - reported;
    fixture.poller.remove(untold).expect("remove");
    assert_eq!(fixture.wait(), []);
}

#[test]
fn dropping_a_missing_knote_reports_nothing() {
    let mut fixture = Fixture::new();
    fixture.add(A, 1, Interest::BOTH, Mode::Level).expect("add");
    fixture.add(B, 2, Interest::BOTH, Mode::Level).expect("add");
    fixture.modify(1, Interest::READ);
    fixture.modify(2, Interest::READ);
    // One descriptor is closed. The other one is closed, and another file gets its number.
    fixture.kernel().close(A);
    fixture.kernel().close(B);
    fixture.kernel().open(B);
    let mut events = Events::bounded(16);
    fixture
        .poller
        .wait(&mut events, Some(SECOND))
        .expect("a wait");
    assert!(events.is_empty());
    assert_eq!(fixture.kernel().waited, SECOND, "and the wait goes on");
}

#[test]
fn a_wait_with_a_refusal_returns_at_once() {
    let mut fixture = Fixture::new();
    fixture.add(A, 1, Interest::READ, Mode::Level).expect("add");
    fixture.modify(1, Interest::WRITE);
    fixture.kernel().refuses.push(refusal(A, Filter::Write));
    let mut events = Events::bounded(16);
    fixture
        .poller
        .wait(&mut events, Some(SECOND))
        .expect("a wait");
    assert_eq!(events.len(), 1);
    assert_eq!(fixture.kernel().waited, Duration::ZERO);
}

#[test]
fn a_refusal_comes_before_an_error_of_the_next_call() {
    let mut fixture = Fixture::new();
    fixture.add(A, 1, Interest::READ, Mode::Level).expect("add");
    fixture.modify(1, Interest::WRITE);
    fixture.kernel().refuses.push(refusal(A, Filter::Write));
    fixture.kernel().failures = [None, Some(Errno::NOMEM)].into();
    assert_eq!(fixture.wait().len(), 1);
}

#[test]
fn events_that_do_not_fit_stay_in_the_kernel() {
    let mut fixture = Fixture::new();
    for (fd, key) in [(A, 1), (B, 2), (C, 3)] {
        fixture
            .add(fd, key, Interest::READ, Mode::Level)
            .expect("add");
    }
    fixture.modify(1, Interest::WRITE);
    fixture.kernel().refuses.push(refusal(A, Filter::Write));
    for fd in [B, C] {
        fixture.kernel().arrive(fd, 1);
    }
    assert_eq!(fixture.wait_with(2).len(), 2);
    for fd in [B, C] {
        fixture.kernel().drain(fd);
    }
    assert_eq!(fixture.wait(), [], "nothing that has ceased to hold");
}

#[test]
fn priority_data_is_refused() {
    let mut fixture = Fixture::new();
    let refused = fixture.add(A, 7, Interest::PRIORITY, Mode::Level);
    assert!(matches!(refused, Err(Error::NoPriority { .. })));

    fixture.add(A, 7, Interest::READ, Mode::Level).expect("add");
    fixture.modify(7, Interest::READ | Interest::PRIORITY);
    let events = fixture.wait();
    assert_eq!(events.len(), 1);
    assert!(events[0].1.is_error());
    assert_eq!(fixture.kernel().knotes(), [], "the registration is gone");
}
