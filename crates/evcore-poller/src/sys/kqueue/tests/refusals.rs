//! Changes that the kernel refuses.

use super::*;

#[test]
fn an_addition_refused_for_one_filter_removes_the_other() {
    for filter in Filter::ALL {
        let mut fixture = fixture();
        refuse(&mut fixture, A, filter);
        let refused = fixture.try_add(A, 7, Interest::BOTH, Mode::Level);
        let message = refused.expect_err("refused").to_string();
        assert!(message.starts_with("kevent(EV_ADD) failed"), "{message}");
        assert_eq!(fixture.kernel().queue.knotes(), []);
        fixture.kernel().queue.refuses.clear();
        fixture.add(A, 7, Interest::BOTH, Mode::Level);
    }
}

/// macOS was seen to make a knote despite its refusal, for a pipe without a reader.
#[test]
fn a_knote_that_exists_despite_a_refusal_is_taken_over() {
    let broken_pipe = Refusal {
        errno: Errno::PIPE,
        made: true,
        ..refusal(A, Filter::Write)
    };
    let closed = Ready::WRITABLE | Ready::WRITE_CLOSED;
    for is_late in [false, true] {
        let mut fixture = fixture();
        fixture.kernel().queue.refuses.push(broken_pipe);
        fixture.kernel().hang_up(A, false);
        let first = if is_late {
            Interest::NONE
        } else {
            Interest::WRITE
        };
        fixture.add(A, 7, first, Mode::Level);
        fixture.modify(7, Interest::WRITE);
        for _ in 0..3 {
            assert_eq!(fixture.wait(), [(7, closed)]);
        }
        fixture.remove(7);
        assert_eq!(fixture.kernel().queue.knotes(), []);
    }
}

#[test]
fn a_bad_change_hides_neither_changes_nor_events() {
    let mut fixture = fixture();
    for (fd, key) in [(A, 1), (B, 2), (C, 3)] {
        fixture.add(fd, key, Interest::READ, Mode::Level);
        fixture.modify(key, Interest::BOTH);
        fixture.raise(fd, OUT);
    }
    refuse(&mut fixture, B, Filter::Write);
    fixture.kernel().waited = Duration::ZERO;
    let found = fixture.try_wait(Some(SECOND)).expect("a wait");
    let refused = Ready::ERROR | Ready::READABLE | Ready::WRITABLE;
    assert_eq!(
        found,
        [(1, Ready::WRITABLE), (2, refused), (3, Ready::WRITABLE)]
    );
    assert_eq!(
        fixture.kernel().waited,
        Duration::ZERO,
        "the wait returned at once"
    );
}

#[test]
fn a_refused_registration_is_silent_until_modified() {
    // The next interest is the previous one, the refused one, or a third one.
    for next in [Interest::READ, Interest::BOTH, Interest::WRITE] {
        let mut fixture = fixture();
        fixture.add(A, 7, Interest::READ, Mode::Level);
        fixture.modify(7, Interest::BOTH);
        refuse(&mut fixture, A, Filter::Write);
        assert_eq!(fixture.wait().len(), 1);
        fixture.raise(A, IN);
        fixture.raise(A, OUT);
        assert_eq!(fixture.wait(), []);
        assert_eq!(fixture.kernel().queue.knotes(), []);

        fixture.kernel().queue.refuses.clear();
        fixture.modify(7, next);
        assert_eq!(fixture.wait(), [(7, Ready::answering(next))]);
        fixture.remove(7);
    }
}

#[test]
fn refusals_that_do_not_fit_come_with_later_waits() {
    let mut fixture = fixture();
    for (fd, key) in [(A, 1), (B, 2), (C, 3)] {
        fixture.add(fd, key, Interest::READ, Mode::Level);
        fixture.modify(key, Interest::WRITE);
        refuse(&mut fixture, fd, Filter::Write);
    }
    let mut reported = Vec::new();
    for _ in 0..3 {
        let event = wait_with(&mut fixture, 1)[0];
        assert!(event.1.is_error());
        reported.push(event.0);
    }
    reported.sort_unstable();
    assert_eq!(reported, [1, 2, 3]);
    assert_eq!(fixture.wait(), []);
}

#[test]
fn dropping_a_missing_knote_reports_nothing() {
    let mut fixture = fixture();
    fixture.add(A, 1, Interest::BOTH, Mode::Level);
    fixture.add(B, 2, Interest::BOTH, Mode::Level);
    fixture.modify(1, Interest::READ);
    fixture.modify(2, Interest::READ);
    // One descriptor is closed. The other one is closed, and another file gets its number.
    fixture.close(A);
    fixture.close(B);
    fixture.open(B);
    assert_eq!(fixture.try_wait(Some(SECOND)).expect("a wait"), []);
    assert_eq!(
        fixture.kernel().waited,
        SECOND,
        "the wait lasted until its timeout"
    );
}

#[test]
fn a_refusal_comes_before_an_error_of_the_next_call() {
    let mut fixture = fixture();
    fixture.add(A, 1, Interest::READ, Mode::Level);
    fixture.modify(1, Interest::WRITE);
    refuse(&mut fixture, A, Filter::Write);
    fixture.kernel().ends = [None, Some(Errno::NOMEM)].into();
    assert_eq!(fixture.wait().len(), 1);
}

#[test]
fn events_that_do_not_fit_stay_in_the_kernel() {
    let mut fixture = fixture();
    for (fd, key) in [(A, 1), (B, 2), (C, 3)] {
        fixture.add(fd, key, Interest::READ, Mode::Level);
    }
    fixture.modify(1, Interest::WRITE);
    refuse(&mut fixture, A, Filter::Write);
    for fd in [B, C] {
        fixture.raise(fd, IN);
    }
    assert_eq!(wait_with(&mut fixture, 2).len(), 2);
    for fd in [B, C] {
        fixture.lower(fd, IN);
    }
    assert_eq!(
        fixture.wait(),
        [],
        "readiness that has ended is not reported"
    );
}

#[test]
fn priority_data_is_refused() {
    let mut fixture = fixture();
    let refused = fixture.try_add(A, 7, Interest::PRIORITY, Mode::Level);
    assert!(matches!(refused, Err(Error::NoPriority { .. })));

    fixture.add(A, 7, Interest::READ, Mode::Level);
    fixture.modify(7, Interest::READ | Interest::PRIORITY);
    let events = fixture.wait();
    assert_eq!(events.len(), 1);
    assert!(events[0].1.is_error());
    assert_eq!(
        fixture.kernel().queue.knotes(),
        [],
        "the registration is gone"
    );
}
