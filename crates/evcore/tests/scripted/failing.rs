//! Each failure is reported once, leaves everything consistent, and releases the lock. A failure of
//! a listener does not end a wait.

use std::time::Duration;

use evcore::{Error, Ready};

use crate::{
    fake_backend::Recorded,
    fixture::{Fixture, readable},
};

const SUSPENSION: Duration = Duration::from_millis(500);

fn poller_refuses(fixture: &mut Fixture) {
    let refusal = fixture.ev.wait();
    assert!(matches!(refusal, Err(Error::Poller(_))), "{refusal:?}");
    assert!(!fixture.backend.holds_lock());
    assert!(fixture.ev.next_step().is_none(), "no turn has begun");
}

#[test]
fn a_wait_that_fails_gives_the_lock_back_and_loses_nothing() {
    let mut fixture = Fixture::locking(1);
    let [a, b] = [fixture.join(), fixture.join()];
    fixture.report_before_listener(&[a]);
    fixture.wait(); // and leave the turn at once
    fixture.ev.post(b, Ready::READABLE);
    fixture.backend.fail_wait();
    poller_refuses(&mut fixture);
    assert_eq!(fixture.turn(), [readable(a), readable(b)]);
    assert_eq!(
        fixture.ev.stats().turns,
        2,
        "a wait that fails does not count as a turn"
    );
}

#[test]
fn a_refused_listener_is_suspended_and_the_others_listen() {
    for refused in 0..3 {
        for mut fixture in [Fixture::listening(3), Fixture::locking(3)] {
            let token = fixture.join();
            fixture.report_readable(&[token]);
            fixture.backend.fail_add_after(refused);
            assert_eq!(fixture.turn(), [readable(token)]);
            assert!(fixture.ev.stats().listening);
            assert_eq!(fixture.suspended(), [refused]);
            assert_eq!(fixture.backend.timeouts(), [Some(SUSPENSION)]);
            let error = fixture.ev.listeners().take_error().unwrap();
            assert_eq!(error.listener, refused);
            assert!(matches!(error.source, Error::Poller(_)), "{error}");
            assert!(fixture.ev.listeners().take_error().is_none());
            assert_eq!(fixture.ev.stats().listener_errors, 1);

            // The suspended listener is tried again, and the others stay as they are.
            fixture.pass_ms(500);
            fixture.backend.record();
            fixture.turn();
            assert_eq!(fixture.suspended(), []);
            let changes = fixture.backend.record().into_iter().filter(is_change);
            let added = Recorded::Add(fixture.listener_fd(refused));
            assert_eq!(changes.collect::<Vec<_>>(), [added]);
        }
    }
}

#[test]
fn if_every_listener_is_refused_no_lock_is_held() {
    for mut fixture in [Fixture::listening(2), Fixture::locking(2)] {
        let served = fixture.join();
        fixture.report_readable(&[served]);
        fixture.backend.refuse_adds(true);
        fixture.wait();
        assert!(!fixture.backend.holds_lock());
        assert!(!fixture.ev.stats().listening);
        assert_eq!(fixture.rest(), [readable(served)]);
        assert_eq!(fixture.backend.timeouts(), [Some(SUSPENSION)]);
        fixture.leave(served);
        fixture.turn();
        assert!(
            !fixture.ev.stats().listening,
            "a closed descriptor does not end a suspension"
        );

        fixture.pass_ms(500);
        fixture.turn();
        assert_eq!(
            fixture.ev.stats().listener_errors,
            4,
            "both were tried again"
        );
        fixture.backend.refuse_adds(false);
        fixture.pass_ms(500);
        fixture.turn();
        fixture.turn();
        assert!(fixture.ev.stats().listening);
        assert_eq!(
            fixture.backend.timeouts().last(),
            Some(&None),
            "the suspension is over"
        );
    }
}

#[test]
fn a_suspension_counts_from_the_time_of_the_refusal() {
    for refused in [1, 2] {
        let mut fixture = Fixture::built(2, |builder, _| builder.connections(1));
        let token = fixture.join();
        fixture.turn();
        fixture.leave(token);
        fixture.backend.record();
        match refused {
            1 => fixture.backend.fail_add_after(0),
            _ => fixture.backend.refuse_adds(true),
        }
        // The clock has stood still since the last wait.
        fixture.pass_ms(30);
        fixture.turn();
        assert_eq!(fixture.suspended().len(), refused);
        assert_eq!(fixture.backend.timeouts(), [Some(SUSPENSION)]);
    }
}

#[test]
fn a_failed_removal_ends_listening_and_suspends() {
    let mut fixture = Fixture::built(2, |builder, _| builder.connections(1));
    fixture.turn();
    let token = fixture.join();
    fixture.backend.fail_removals();
    fixture.report_readable(&[token]);
    assert_eq!(fixture.turn(), [readable(token)]);
    assert!(!fixture.ev.stats().listening);
    assert_eq!(fixture.suspended(), [0, 1]);
    let errors = std::iter::from_fn(|| fixture.ev.listeners().take_error());
    assert_eq!(
        errors.map(|error| error.listener).collect::<Vec<_>>(),
        [0, 1]
    );

    fixture.leave(token);
    fixture.turn();
    assert_eq!(fixture.suspended(), [0, 1], "although a slot is free");
    fixture.pass_ms(500);
    fixture.turn();
    assert_eq!(fixture.suspended(), []);
}

#[test]
fn a_listener_with_an_error_event_is_registered_anew() {
    let mut fixture = Fixture::listening(2);
    fixture.turn();
    let fds = [fixture.listener_fd(0), fixture.listener_fd(1)];
    fixture.connect(1, 1);
    let error = Ready::READABLE | Ready::ERROR;
    fixture.backend.report(vec![(fds[1], error)]);
    assert_eq!(fixture.turn(), [Recorded::Accepted(1)]);
    fixture.backend.record();
    fixture.turn();
    let changes = fixture.backend.record().into_iter().filter(is_change);
    let anew = [Recorded::Remove(fds[1]), Recorded::Add(fds[1])];
    assert_eq!(changes.collect::<Vec<_>>(), anew);
    fixture.turn();
    assert_eq!(
        fixture
            .backend
            .record()
            .into_iter()
            .filter(is_change)
            .count(),
        0
    );
    assert_eq!(fixture.ev.stats().listener_errors, 0);
}

#[test]
fn listeners_are_closed_even_if_their_removal_fails() {
    let mut fixture = Fixture::listening(2);
    fixture.turn();
    fixture.backend.fail_removals();
    assert!(fixture.ev.listeners().close().is_err());
    assert!(!fixture.ev.stats().listening);
    fixture.turn();
    assert!(
        fixture.ev.listeners().close().is_ok(),
        "there is nothing left to fail"
    );
}

#[test]
fn a_broken_listener_is_suspended_and_the_others_go_on() {
    for (broken, mut fixture) in [
        (0, Fixture::listening(2)),
        (1, Fixture::listening(2)),
        (0, Fixture::locking(2)),
        (1, Fixture::locking(2)),
    ] {
        let sound = 1 - broken;
        fixture.break_listener(broken);
        fixture.connect(sound, 1);
        fixture.report_listeners(&[0, 1]);
        assert_eq!(fixture.turn(), [Recorded::Accepted(sound)]);
        assert_eq!(fixture.take_broken(), [broken]);
        fixture.backend.record();

        // The listener stays readable, and is not tried for a while.
        fixture.connect(sound, 1);
        fixture.report_listeners(&[sound]);
        assert_eq!(fixture.turn(), [Recorded::Accepted(sound)]);
        assert!(!fixture.backend.watches(fixture.listener_fd(broken)));
        assert!(fixture.backend.watches(fixture.listener_fd(sound)));
        let pause = Duration::from_millis(500);
        assert_eq!(fixture.backend.timeouts(), [Some(pause)]);

        // Closing a descriptor does not repair the broken listener.
        let token = fixture.join();
        fixture.leave(token);
        fixture.turn();
        assert!(!fixture.backend.watches(fixture.listener_fd(broken)));
        fixture.pass_ms(500);
        fixture.turn();
        for listener in [broken, sound] {
            assert!(fixture.backend.watches(fixture.listener_fd(listener)));
        }
    }
}

#[test]
fn if_all_listeners_break_the_loop_does_not_spin() {
    for mut fixture in [Fixture::listening(1), Fixture::locking(1)] {
        let token = fixture.join();
        fixture.break_listener(0);
        fixture.report_listeners(&[0]);
        assert_eq!(fixture.turn(), []);
        assert_eq!(fixture.take_broken(), [0]);
        assert!(!fixture.backend.holds_lock());
        fixture.backend.record();

        // The listener stays readable, and is not tried for a while.
        fixture.report_readable(&[token]);
        assert_eq!(fixture.turn(), [readable(token)]);
        assert!(!fixture.ev.stats().listening);
        let pause = Duration::from_millis(500);
        assert_eq!(fixture.backend.timeouts(), [Some(pause)]);
        fixture.pass_ms(500);
        fixture.turn();
        fixture.turn();
        assert!(fixture.ev.stats().listening);
        assert_eq!(
            fixture.backend.timeouts().last(),
            Some(&None),
            "the suspension is over"
        );
    }
}

#[test]
fn the_latest_error_of_each_listener_is_kept() {
    let mut fixture = Fixture::listening(3);
    fixture.break_listener(0);
    fixture.break_listener(2);
    for _ in 0..5 {
        fixture.connect(1, 1);
        fixture.report_listeners(&[0, 1, 2]);
        assert_eq!(fixture.turn(), [Recorded::Accepted(1)]);
        fixture.pass_ms(500);
        fixture.turn();
    }
    assert_eq!(fixture.take_broken(), [0, 2]);
    assert_eq!(fixture.ev.stats().listener_errors, 10);
}

#[test]
fn each_suspension_lasts_half_a_second_by_itself() {
    let mut fixture = Fixture::listening(2);
    for listener in [0, 1] {
        fixture.break_listener(listener);
        fixture.report_listeners(&[listener]);
        fixture.turn();
        fixture.turn();
        fixture.pass_ms(300);
    }
    assert_eq!(fixture.suspended(), [0, 1]);
    fixture.turn();
    assert_eq!(fixture.suspended(), [1]);
    fixture.pass_ms(200);
    fixture.turn();
    assert_eq!(fixture.suspended(), []);
}

fn is_change(recorded: &Recorded) -> bool {
    matches!(
        recorded,
        Recorded::Add(_) | Recorded::Modify(_) | Recorded::Remove(_)
    )
}

impl Fixture {
    /// The listeners that the poller does not watch.
    fn suspended(&self) -> Vec<usize> {
        let all = 0..self.listeners();
        all.filter(|number| !self.backend.watches(self.listener_fd(*number)))
            .collect()
    }

    /// The listeners from which accepting has failed since the last call.
    fn take_broken(&mut self) -> Vec<usize> {
        let errors = std::iter::from_fn(|| self.ev.listeners().take_error());
        errors
            .map(|error| {
                assert!(matches!(error.source, Error::Accept(_)), "{error}");
                error.listener
            })
            .collect()
    }
}
