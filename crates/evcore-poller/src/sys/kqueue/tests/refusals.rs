//! Changes that the kernel does not make.

use super::*;

#[test]
fn an_addition_that_is_refused_for_one_filter_is_taken_back_for_the_other() {
    for filter in Filter::ALL {
        let mut stage = Stage::new();
        stage.kernel().refuses.push(refusal(A, filter));
        let refused = stage.add(A, 7, Interest::BOTH, Mode::Level);
        let said = refused.expect_err("refused").to_string();
        assert!(said.starts_with("kevent(EV_ADD) failed"), "{said}");
        assert_eq!(stage.kernel().knotes(), []);
        stage.kernel().refuses.clear();
        stage.add(A, 7, Interest::BOTH, Mode::Level).expect("add");
    }
}

/// As macOS was seen to do for a pipe without a reader.
#[test]
fn a_knote_that_is_refused_and_made_all_the_same_is_taken_over() {
    let broken_pipe = Refusal {
        errno: Errno::PIPE,
        made: true,
        ..refusal(A, Filter::Write)
    };
    let closed = Ready::WRITABLE | Ready::WRITE_CLOSED;
    for is_late in [false, true] {
        let mut stage = Stage::new();
        stage.kernel().refuses.push(broken_pipe);
        stage.kernel().hang_up(A, 0);
        let first = if is_late {
            Interest::NONE
        } else {
            Interest::WRITE
        };
        stage.add(A, 7, first, Mode::Level).expect("add");
        stage.modify(7, Interest::WRITE);
        for _ in 0..3 {
            assert_eq!(stage.wait(), [(7, closed)]);
        }
        stage.poller.remove(7).expect("remove");
        assert_eq!(stage.kernel().knotes(), []);
    }
}

#[test]
fn a_bad_change_hides_neither_changes_nor_events() {
    let mut stage = Stage::new();
    for (fd, key) in [(A, 1), (B, 2), (C, 3)] {
        stage
            .add(fd, key, Interest::READ, Mode::Level)
            .expect("add");
        stage.modify(key, Interest::BOTH);
        stage.kernel().make_room(fd, 1);
    }
    stage.kernel().refuses.push(refusal(B, Filter::Write));
    stage.kernel().waited = Duration::ZERO;
    let mut events = Events::with_capacity(16);
    stage
        .poller
        .wait(&mut events, Some(SECOND))
        .expect("a wait");
    let mut found: Vec<_> = events.iter().map(|it| (it.key, it.ready)).collect();
    found.sort_unstable_by_key(|event| event.0);
    let refused = Ready::ERROR | Ready::READABLE | Ready::WRITABLE;
    assert_eq!(
        found,
        [(1, Ready::WRITABLE), (2, refused), (3, Ready::WRITABLE)]
    );
    assert_eq!(stage.kernel().waited, Duration::ZERO, "there was news");
}

#[test]
fn a_registration_that_was_refused_is_silent_until_it_is_modified() {
    // To what it was before, to what was refused, and to something else.
    for next in [Interest::READ, Interest::BOTH, Interest::WRITE] {
        let mut stage = Stage::new();
        stage.add(A, 7, Interest::READ, Mode::Level).expect("add");
        stage.modify(7, Interest::BOTH);
        stage.kernel().refuses.push(refusal(A, Filter::Write));
        assert_eq!(stage.wait().len(), 1);
        stage.kernel().arrive(A, 1);
        stage.kernel().make_room(A, 1);
        assert_eq!(stage.wait(), []);
        assert_eq!(stage.kernel().knotes(), []);

        stage.kernel().refuses.clear();
        stage.modify(7, next);
        assert_eq!(stage.wait(), [(7, Ready::answering(next))]);
        stage.poller.remove(7).expect("remove");
    }
}

#[test]
fn refusals_that_do_not_fit_are_told_by_later_waits() {
    let mut stage = Stage::new();
    for (fd, key) in [(A, 1), (B, 2), (C, 3)] {
        stage
            .add(fd, key, Interest::READ, Mode::Level)
            .expect("add");
        stage.modify(key, Interest::WRITE);
        stage.kernel().refuses.push(refusal(fd, Filter::Write));
    }
    let mut told = Vec::new();
    for _ in 0..3 {
        let event = stage.wait_with(1)[0];
        assert!(event.ready.is_error());
        told.push(event.key);
    }
    told.sort_unstable();
    assert_eq!(told, [1, 2, 3]);
    assert_eq!(stage.wait(), []);
}

/// Each turn as many changes are refused as there is room for.
#[test]
fn refused_changes_do_not_starve_what_is_ready() {
    for capacity in [1, 2] {
        let mut stage = Stage::new();
        let refused = &[(A, 1), (B, 2)][..capacity];
        for (fd, key) in refused {
            stage
                .add(*fd, *key, Interest::READ, Mode::Level)
                .expect("add");
            stage.kernel().refuses.push(refusal(*fd, Filter::Write));
        }
        stage.add(C, 3, Interest::READ, Mode::Level).expect("add");
        stage.kernel().arrive(C, 1);
        for _ in 0..10 {
            let waits = [(); 2].map(|()| {
                for (_, key) in refused {
                    stage.modify(*key, Interest::WRITE);
                }
                let events = stage.wait_with(capacity);
                assert_eq!(events.len(), capacity);
                events.iter().filter(|event| event.key == 3).count()
            });
            assert_eq!(waits, [0, 1]);
        }
    }
}

#[test]
fn a_refusal_that_was_not_told_yet_goes_with_its_registration() {
    let mut stage = Stage::new();
    for (fd, key) in [(A, 1), (B, 2)] {
        stage
            .add(fd, key, Interest::READ, Mode::Level)
            .expect("add");
        stage.modify(key, Interest::WRITE);
        stage.kernel().refuses.push(refusal(fd, Filter::Write));
    }
    let told = stage.wait_with(1)[0].key;
    let untold = 3 - told;
    stage.poller.remove(untold).expect("remove");
    assert_eq!(stage.wait(), []);
}

#[test]
fn dropping_what_is_gone_is_no_news() {
    let mut stage = Stage::new();
    stage.add(A, 1, Interest::BOTH, Mode::Level).expect("add");
    stage.add(B, 2, Interest::BOTH, Mode::Level).expect("add");
    stage.modify(1, Interest::READ);
    stage.modify(2, Interest::READ);
    // One is closed, the other closed and its number given to another file.
    stage.kernel().close(A);
    stage.kernel().close(B);
    stage.kernel().open(B);
    let mut events = Events::with_capacity(16);
    stage
        .poller
        .wait(&mut events, Some(SECOND))
        .expect("a wait");
    assert!(events.is_empty());
    assert_eq!(stage.kernel().waited, SECOND, "and the wait goes on");
}

#[test]
fn a_refusal_is_news_for_which_nothing_is_waited() {
    let mut stage = Stage::new();
    stage.add(A, 1, Interest::READ, Mode::Level).expect("add");
    stage.modify(1, Interest::WRITE);
    stage.kernel().refuses.push(refusal(A, Filter::Write));
    let mut events = Events::with_capacity(16);
    stage
        .poller
        .wait(&mut events, Some(SECOND))
        .expect("a wait");
    assert_eq!(events.len(), 1);
    assert_eq!(stage.kernel().waited, Duration::ZERO);
}

#[test]
fn a_refusal_is_told_before_an_error_of_the_call_after_it() {
    let mut stage = Stage::new();
    stage.add(A, 1, Interest::READ, Mode::Level).expect("add");
    stage.modify(1, Interest::WRITE);
    stage.kernel().refuses.push(refusal(A, Filter::Write));
    stage.kernel().failures = [None, Some(Errno::NOMEM)].into();
    assert_eq!(stage.wait().len(), 1);
}

#[test]
fn what_does_not_fit_beside_a_refusal_stays_in_the_kernel() {
    let mut stage = Stage::new();
    for (fd, key) in [(A, 1), (B, 2), (C, 3)] {
        stage
            .add(fd, key, Interest::READ, Mode::Level)
            .expect("add");
    }
    stage.modify(1, Interest::WRITE);
    stage.kernel().refuses.push(refusal(A, Filter::Write));
    for fd in [B, C] {
        stage.kernel().arrive(fd, 1);
    }
    assert_eq!(stage.wait_with(2).len(), 2);
    for fd in [B, C] {
        stage.kernel().drain(fd);
    }
    assert_eq!(stage.wait(), [], "nothing that has ceased to hold");
}

#[test]
fn priority_data_is_refused() {
    let mut stage = Stage::new();
    let refused = stage.add(A, 7, Interest::PRIORITY, Mode::Level);
    assert!(matches!(refused, Err(Error::NoPriority { .. })));

    stage.add(A, 7, Interest::READ, Mode::Level).expect("add");
    stage.modify(7, Interest::READ | Interest::PRIORITY);
    let events = stage.wait();
    assert_eq!(events.len(), 1);
    assert!(events[0].1.is_error());
    assert_eq!(stage.kernel().knotes(), [], "the registration is gone");
}
