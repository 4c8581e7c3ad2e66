//! The ends of the writing side: the user's own, the peer's, and that of a pipe's reader.

use super::*;

const MODES: [Mode; 3] = [Mode::Level, Mode::Edge, Mode::Oneshot];

/// Makes a fixture in which [`A`] is the writing end of a pipe.
fn with_a_pipe() -> Fixture {
    let mut fixture = Fixture::new();
    fixture.kernel().close(A);
    fixture.kernel().open_pipe(A);
    fixture
}

/// The readiness of a pipe that has lost its reader.
fn broken() -> Ready {
    Ready::WRITABLE | Ready::WRITE_CLOSED
}

/// Asserts the number of reports under the key 7 in each of three waits.
fn expect_broken_pipe(fixture: &mut Fixture, mode: Mode) {
    let reported = [(7, broken())];
    let later: &[_] = if mode == Mode::Level { &reported } else { &[] };
    assert_eq!(fixture.wait(), reported, "{mode:?}");
    for _ in 0..2 {
        assert_eq!(fixture.wait(), later, "{mode:?}");
    }
}

#[test]
fn the_users_own_shutdown_is_writable_and_no_hang_up() {
    for mode in MODES {
        for interest in [Interest::WRITE, Interest::BOTH] {
            let mut fixture = Fixture::new();
            fixture.add(A, 7, interest, mode).expect("add");
            fixture.kernel().shut(A);
            assert_eq!(
                fixture.wait(),
                [(7, Ready::WRITABLE)],
                "{mode:?} {interest:?}"
            );
        }
    }
}

#[test]
fn a_hang_up_after_the_users_own_shutdown_is_reported() {
    for (error, bit) in [(0, Ready::NONE), (54, Ready::ERROR)] {
        let mut fixture = Fixture::new();
        fixture.add(A, 7, Interest::WRITE, Mode::Edge).expect("add");
        fixture.kernel().shut(A);
        assert_eq!(fixture.wait(), [(7, Ready::WRITABLE)]);
        fixture.kernel().hang_up(A, error);
        assert_eq!(fixture.wait(), [(7, broken() | bit)]);
        assert_eq!(fixture.wait(), []);
    }
}

#[test]
fn a_pipe_without_a_reader_is_reported_not_refused() {
    for mode in MODES {
        let mut fixture = with_a_pipe();
        fixture.kernel().hang_up(A, 0);
        fixture.add(A, 7, Interest::WRITE, mode).expect("add");
        expect_broken_pipe(&mut fixture, mode);
        fixture.poller.remove(7).expect("remove");
        assert_eq!(fixture.wait(), []);
    }
}

#[test]
fn a_pipe_that_loses_its_reader_reports_as_its_mode_says() {
    for mode in MODES {
        let mut fixture = with_a_pipe();
        fixture.add(A, 7, Interest::WRITE, mode).expect("add");
        assert_eq!(fixture.wait(), []);
        fixture.kernel().hang_up(A, 0);
        expect_broken_pipe(&mut fixture, mode);
        fixture.poller.remove(7).expect("remove");
        assert_eq!(fixture.wait(), []);
    }
}

#[test]
fn a_pipe_with_a_new_reader_is_writable_again() {
    // The end is like that of a FIFO.
    let mut fixture = with_a_pipe();
    fixture.kernel().hang_up(A, 0);
    fixture
        .add(A, 7, Interest::WRITE, Mode::Level)
        .expect("add");
    assert_eq!(fixture.wait(), [(7, broken())]);
    fixture.kernel().open_reader(A);
    assert_eq!(fixture.wait(), []);
    fixture.kernel().make_room(A, 1);
    assert_eq!(fixture.wait(), [(7, Ready::WRITABLE)]);
}

#[test]
fn a_broken_pipe_is_reported_again_after_a_modify() {
    for mode in [Mode::Edge, Mode::Oneshot] {
        let mut fixture = with_a_pipe();
        fixture.kernel().hang_up(A, 0);
        fixture.add(A, 7, Interest::WRITE, mode).expect("add");
        assert_eq!(fixture.wait(), [(7, broken())]);
        fixture.modify(7, Interest::NONE);
        assert_eq!(fixture.wait(), []);
        fixture.modify(7, Interest::WRITE);
        expect_broken_pipe(&mut fixture, mode);
    }
}

#[test]
fn a_broken_pipe_hides_no_other_event() {
    for mode in MODES {
        let mut fixture = with_a_pipe();
        fixture.add(B, 2, Interest::READ, Mode::Level).expect("add");
        fixture.kernel().arrive(B, 1);
        fixture.kernel().hang_up(A, 0);
        fixture.add(A, 1, Interest::WRITE, mode).expect("add");
        let mut events = Events::bounded(4);
        fixture.poller.wait(&mut events, None).expect("a wait");
        let mut found: Vec<_> = events
            .iter()
            .map(|event| (event.key, event.ready))
            .collect();
        found.sort_unstable_by_key(|event| event.0);
        assert_eq!(found, [(1, broken()), (2, Ready::READABLE)], "{mode:?}");
    }
}

#[test]
fn several_broken_pipes_and_a_small_buffer() {
    let mut fixture = Fixture::new();
    for (fd, key) in [(A, 1), (B, 2), (C, 3)] {
        fixture.kernel().close(fd);
        fixture.kernel().open_pipe(fd);
        fixture.kernel().hang_up(fd, 0);
        fixture
            .add(fd, key, Interest::WRITE, Mode::Level)
            .expect("add");
    }
    for _ in 0..3 {
        let mut keys: Vec<_> = (0..3).map(|_| fixture.wait_with(1)[0].key).collect();
        keys.sort_unstable();
        assert_eq!(keys, [1, 2, 3]);
    }
}

#[test]
fn unreported_news_of_a_side_out_of_the_interest_is_dropped() {
    for interest in [Interest::NONE, Interest::READ] {
        for waits in 1..4 {
            let mut fixture = with_a_pipe();
            fixture
                .add(A, 1, Interest::WRITE, Mode::Level)
                .expect("add");
            fixture.kernel().hang_up(A, 0);
            fixture.kernel().arrive(B, 1);
            fixture.add(B, 2, Interest::READ, Mode::Level).expect("add");
            for _ in 0..waits {
                assert_eq!(fixture.wait_with(1).len(), 1); // the buffer has no room for the other one
            }
            fixture.modify(1, interest);
            for _ in 0..3 {
                assert_eq!(
                    fixture.wait_with(1)[0].key,
                    2,
                    "{interest:?}, {waits} waits"
                );
            }
        }
    }
}

#[test]
fn another_refusal_of_a_broken_pipe_is_an_error() {
    let mut fixture = with_a_pipe();
    fixture.kernel().hang_up(A, 0);
    fixture.kernel().refuses.push(refusal(A, Filter::Read));
    let refused = fixture.add(A, 7, Interest::BOTH, Mode::Level);
    assert!(matches!(refused, Err(Error::Os { .. })), "{refused:?}");
    fixture.kernel().refuses.clear();
    fixture.add(A, 7, Interest::BOTH, Mode::Edge).expect("add");
    let reported = Ready::READABLE | broken();
    assert_eq!(fixture.wait(), [(7, reported)], "every side of interest");
    assert_eq!(fixture.wait(), []);
}
