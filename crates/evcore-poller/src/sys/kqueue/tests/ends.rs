//! The ways in which the writing side ends: the program shuts the socket, the peer is gone, or a
//! pipe has lost its reader.

use super::*;

/// Makes a fixture in which [`A`] is the writing end of a pipe.
fn with_a_pipe() -> Fixture {
    let fixture = fixture();
    fixture.close(A);
    fixture.kernel().open_pipe(A);
    fixture
}

/// The readiness of a pipe that has lost its reader.
fn broken() -> Ready {
    Ready::WRITABLE | Ready::WRITE_CLOSED
}

/// Asserts that the first of three waits reports a broken pipe under the key 7. The others report
/// it again only if the mode is `Level`.
fn expect_broken_pipe(fixture: &mut Fixture, mode: Mode) {
    let reported = [(7, broken())];
    let later: &[_] = if mode == Mode::Level { &reported } else { &[] };
    assert_eq!(fixture.wait(), reported, "{mode:?}");
    for _ in 0..2 {
        assert_eq!(fixture.wait(), later, "{mode:?}");
    }
}

#[test]
fn ones_own_shutdown_is_writable_not_a_hang_up() {
    for mode in MODES {
        for interest in [Interest::WRITE, Interest::BOTH] {
            let mut fixture = fixture();
            fixture.add(A, 7, interest, mode);
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
    for (has_error, bit) in [(false, Ready::NONE), (true, Ready::ERROR)] {
        let mut fixture = fixture();
        fixture.add(A, 7, Interest::WRITE, Mode::Edge);
        fixture.kernel().shut(A);
        assert_eq!(fixture.wait(), [(7, Ready::WRITABLE)]);
        fixture.kernel().hang_up(A, has_error);
        assert_eq!(fixture.wait(), [(7, broken() | bit)]);
        assert_eq!(fixture.wait(), []);
    }
}

#[test]
fn a_pipe_without_a_reader_is_reported_not_refused() {
    for mode in MODES {
        let mut fixture = with_a_pipe();
        fixture.kernel().hang_up(A, false);
        fixture.add(A, 7, Interest::WRITE, mode);
        expect_broken_pipe(&mut fixture, mode);
        fixture.remove(7);
        assert_eq!(fixture.wait(), []);
    }
}

#[test]
fn a_pipe_that_loses_its_reader_reports_as_its_mode_says() {
    for mode in MODES {
        let mut fixture = with_a_pipe();
        fixture.add(A, 7, Interest::WRITE, mode);
        assert_eq!(fixture.wait(), []);
        fixture.kernel().hang_up(A, false);
        expect_broken_pipe(&mut fixture, mode);
        fixture.remove(7);
        assert_eq!(fixture.wait(), []);
    }
}

#[test]
fn a_pipe_with_a_new_reader_is_writable_again() {
    // This writing end is a FIFO's, which may get a new reader.
    let mut fixture = with_a_pipe();
    fixture.kernel().hang_up(A, false);
    fixture.add(A, 7, Interest::WRITE, Mode::Level);
    assert_eq!(fixture.wait(), [(7, broken())]);
    fixture.kernel().open_reader(A);
    assert_eq!(fixture.wait(), []);
    fixture.raise(A, OUT);
    assert_eq!(fixture.wait(), [(7, Ready::WRITABLE)]);
}

#[test]
fn a_broken_pipe_is_reported_again_after_a_modify() {
    for mode in [Mode::Edge, Mode::Oneshot] {
        let mut fixture = with_a_pipe();
        fixture.kernel().hang_up(A, false);
        fixture.add(A, 7, Interest::WRITE, mode);
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
        fixture.add(B, 2, Interest::READ, Mode::Level);
        fixture.raise(B, IN);
        fixture.kernel().hang_up(A, false);
        fixture.add(A, 1, Interest::WRITE, mode);
        let found = fixture.try_wait(None).expect("a wait");
        assert_eq!(found, [(1, broken()), (2, Ready::READABLE)], "{mode:?}");
    }
}

#[test]
fn several_broken_pipes_are_reported_with_a_small_buffer() {
    let mut fixture = fixture();
    for (fd, key) in [(A, 1), (B, 2), (C, 3)] {
        fixture.close(fd);
        fixture.kernel().open_pipe(fd);
        fixture.kernel().hang_up(fd, false);
        fixture.add(fd, key, Interest::WRITE, Mode::Level);
    }
    for _ in 0..3 {
        let mut keys: Vec<_> = (0..3).map(|_| wait_with(&mut fixture, 1)[0].0).collect();
        keys.sort_unstable();
        assert_eq!(keys, [1, 2, 3]);
    }
}

#[test]
fn unreported_news_of_a_side_out_of_the_interest_is_dropped() {
    for interest in [Interest::NONE, Interest::READ] {
        for waits in 1..4 {
            let mut fixture = with_a_pipe();
            fixture.add(A, 1, Interest::WRITE, Mode::Level);
            fixture.kernel().hang_up(A, false);
            fixture.raise(B, IN);
            fixture.add(B, 2, Interest::READ, Mode::Level);
            for _ in 0..waits {
                assert_eq!(wait_with(&mut fixture, 1).len(), 1); // no room for the other one
            }
            fixture.modify(1, interest);
            for _ in 0..3 {
                assert_eq!(
                    wait_with(&mut fixture, 1)[0].0,
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
    fixture.kernel().hang_up(A, false);
    refuse(&mut fixture, A, Filter::Read);
    let refused = fixture.try_add(A, 7, Interest::BOTH, Mode::Level);
    assert!(matches!(refused, Err(Error::Os { .. })), "{refused:?}");
    fixture.kernel().queue.refuses.clear();
    fixture.add(A, 7, Interest::BOTH, Mode::Edge);
    let reported = Ready::READABLE | broken();
    assert_eq!(
        fixture.wait(),
        [(7, reported)],
        "reported on every side of the interest"
    );
    assert_eq!(fixture.wait(), []);
}
