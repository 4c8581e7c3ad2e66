//! Failures: each is reported once, leaves everything consistent, and never a lock that is held.
//! Those of listeners end no wait.

use std::time::Duration;

use evcore::{Error, Ready};

use crate::{
    script::Did,
    stage::{Stage, readable},
};

/// As long as a pause for want of descriptors.
const SUSPENSION: Duration = Duration::from_millis(500);

fn poller_refuses(stage: &mut Stage) {
    let refusal = stage.ev.wait();
    assert!(matches!(refusal, Err(Error::Poller(_))), "{refusal:?}");
    assert!(!stage.script.holds_lock());
    assert!(stage.ev.next_step().is_none(), "no turn has begun");
}

#[test]
fn a_wait_that_fails_gives_the_lock_back_and_loses_nothing() {
    let mut stage = Stage::locking(1);
    let [a, b] = [stage.join(), stage.join()];
    stage.report_readable(&[a]);
    stage.wait(); // and leave the turn at once
    stage.ev.post(b, Ready::READABLE);
    stage.script.fail_wait();
    poller_refuses(&mut stage);
    assert_eq!(stage.turn(), [readable(a), readable(b)]);
    assert_eq!(stage.ev.stats().turns, 2, "a wait that fails is no turn");
}

#[test]
fn a_listener_that_is_refused_is_suspended_and_the_others_listen() {
    for refused in 0..3 {
        for mut stage in [Stage::listening(3), Stage::locking(3)] {
            let token = stage.join();
            stage.report_readable(&[token]);
            stage.script.fail_add_after(refused);
            assert_eq!(stage.turn(), [readable(token)]);
            assert!(stage.ev.status().listening);
            assert_eq!(stage.suspended(), [refused]);
            assert_eq!(stage.script.timeouts(), [Some(SUSPENSION)]);
            let error = stage.ev.take_listener_error().unwrap();
            assert_eq!(error.listener, refused);
            assert!(matches!(error.source, Error::Poller(_)), "{error}");
            assert!(stage.ev.take_listener_error().is_none());
            assert_eq!(stage.ev.stats().listener_errors, 1);

            // It is tried again, and the others are left as they are.
            stage.pass_ms(500);
            stage.script.record();
            stage.turn();
            assert_eq!(stage.suspended(), []);
            let changes = stage.script.record().into_iter().filter(is_change);
            let added = Did::Add(stage.listener_fd(refused));
            assert_eq!(changes.collect::<Vec<_>>(), [added]);
        }
    }
}

#[test]
fn where_every_listener_is_refused_no_lock_is_held_and_connections_are_served() {
    for mut stage in [Stage::listening(2), Stage::locking(2)] {
        let served = stage.join();
        stage.report_readable(&[served]);
        stage.script.refuse_adds(true);
        stage.wait();
        assert!(!stage.script.holds_lock());
        assert!(!stage.ev.status().listening);
        assert_eq!(stage.rest(), [readable(served)]);
        assert_eq!(stage.script.timeouts(), [Some(SUSPENSION)]);
        stage.leave(served);
        stage.turn();
        assert!(
            !stage.ev.status().listening,
            "a closed descriptor mends nothing"
        );

        stage.pass_ms(500);
        stage.turn();
        assert_eq!(stage.ev.stats().listener_errors, 4, "both were tried again");
        stage.script.refuse_adds(false);
        stage.pass_ms(500);
        stage.turn();
        stage.turn();
        assert!(stage.ev.status().listening);
        assert_eq!(
            stage.script.timeouts().last(),
            Some(&None),
            "the suspension is over"
        );
    }
}

#[test]
fn a_removal_that_fails_ends_listening_all_the_same_and_suspends() {
    let mut stage = Stage::built(2, |builder, _| builder.connections(1));
    stage.turn();
    let token = stage.join();
    stage.script.fail_removals();
    stage.report_readable(&[token]);
    assert_eq!(stage.turn(), [readable(token)]);
    assert!(!stage.ev.status().listening);
    assert_eq!(stage.suspended(), [0, 1]);
    let errors = std::iter::from_fn(|| stage.ev.take_listener_error());
    assert_eq!(errors.map(|it| it.listener).collect::<Vec<_>>(), [0, 1]);

    stage.leave(token);
    stage.turn();
    assert_eq!(stage.suspended(), [0, 1], "although there is a place");
    stage.pass_ms(500);
    stage.turn();
    assert_eq!(stage.suspended(), []);
}

#[test]
fn a_listener_that_the_poller_reports_an_error_of_is_registered_anew() {
    let mut stage = Stage::listening(2);
    stage.turn();
    let fds = [stage.listener_fd(0), stage.listener_fd(1)];
    stage.connect(1, 1);
    let error = Ready::READABLE | Ready::ERROR;
    stage.script.report(vec![(fds[1], error)]);
    assert_eq!(stage.turn(), [Did::Accepted(1)]);
    stage.script.record();
    stage.turn();
    let changes = stage.script.record().into_iter().filter(is_change);
    let anew = [Did::Remove(fds[1]), Did::Add(fds[1])];
    assert_eq!(changes.collect::<Vec<_>>(), anew);
    stage.turn();
    assert_eq!(
        stage.script.record().into_iter().filter(is_change).count(),
        0
    );
    assert_eq!(stage.ev.stats().listener_errors, 0);
}

#[test]
fn listeners_are_closed_even_if_their_removal_fails() {
    let mut stage = Stage::listening(2);
    stage.turn();
    stage.script.fail_removals();
    assert!(stage.ev.close_listeners().is_err());
    assert!(!stage.ev.status().listening);
    stage.turn();
    assert!(
        stage.ev.close_listeners().is_ok(),
        "there is nothing left to fail"
    );
}

#[test]
fn a_listener_that_breaks_is_suspended_while_the_others_are_served() {
    for (broken, mut stage) in [
        (0, Stage::listening(2)),
        (1, Stage::listening(2)),
        (0, Stage::locking(2)),
        (1, Stage::locking(2)),
    ] {
        let sound = 1 - broken;
        stage.break_listener(broken);
        stage.connect(sound, 1);
        stage.report_listeners(&[0, 1]);
        assert_eq!(stage.turn(), [Did::Accepted(sound)]);
        assert_eq!(stage.take_broken(), [broken]);
        stage.script.record();

        // It stays readable, and is left alone for a while.
        stage.connect(sound, 1);
        stage.report_listeners(&[sound]);
        assert_eq!(stage.turn(), [Did::Accepted(sound)]);
        assert!(!stage.script.watches(stage.listener_fd(broken)));
        assert!(stage.script.watches(stage.listener_fd(sound)));
        let pause = Duration::from_millis(500);
        assert_eq!(stage.script.timeouts(), [Some(pause)]);

        // No descriptor that is closed makes it sound.
        let token = stage.join();
        stage.leave(token);
        stage.turn();
        assert!(!stage.script.watches(stage.listener_fd(broken)));
        stage.pass_ms(500);
        stage.turn();
        for listener in [broken, sound] {
            assert!(stage.script.watches(stage.listener_fd(listener)));
        }
    }
}

#[test]
fn where_all_listeners_break_each_is_met_once_and_the_loop_does_not_spin() {
    for mut stage in [Stage::listening(1), Stage::locking(1)] {
        let token = stage.join();
        stage.break_listener(0);
        stage.report_listeners(&[0]);
        assert_eq!(stage.turn(), []);
        assert_eq!(stage.take_broken(), [0]);
        assert!(!stage.script.holds_lock());
        stage.script.record();

        // It stays readable, and is left alone for a while.
        stage.report_readable(&[token]);
        assert_eq!(stage.turn(), [readable(token)]);
        assert!(!stage.ev.status().listening);
        let pause = Duration::from_millis(500);
        assert_eq!(stage.script.timeouts(), [Some(pause)]);
        stage.pass_ms(500);
        stage.turn();
        stage.turn();
        assert!(stage.ev.status().listening);
        assert_eq!(
            stage.script.timeouts().last(),
            Some(&None),
            "the pause is over"
        );
    }
}

#[test]
fn of_each_listener_the_latest_error_is_kept_and_all_are_counted() {
    let mut stage = Stage::listening(3);
    stage.break_listener(0);
    stage.break_listener(2);
    for _ in 0..5 {
        stage.connect(1, 1);
        stage.report_listeners(&[0, 1, 2]);
        assert_eq!(stage.turn(), [Did::Accepted(1)]);
        stage.pass_ms(500);
        stage.turn();
    }
    assert_eq!(stage.take_broken(), [0, 2]);
    assert_eq!(stage.ev.stats().listener_errors, 10);
}

#[test]
fn each_listener_is_suspended_for_half_a_second_whatever_breaks_after_it() {
    let mut stage = Stage::listening(2);
    for listener in [0, 1] {
        stage.break_listener(listener);
        stage.report_listeners(&[listener]);
        stage.turn();
        stage.turn();
        stage.pass_ms(300);
    }
    assert_eq!(stage.suspended(), [0, 1]);
    stage.turn();
    assert_eq!(stage.suspended(), [1]);
    stage.pass_ms(200);
    stage.turn();
    assert_eq!(stage.suspended(), []);
}

/// Whether the poller was told something about a descriptor.
fn is_change(did: &Did) -> bool {
    matches!(did, Did::Add(_) | Did::Modify(_) | Did::Remove(_))
}

impl Stage {
    /// The listeners that the poller does not watch.
    fn suspended(&self) -> Vec<usize> {
        let all = 0..self.listeners();
        all.filter(|it| !self.script.watches(self.listener_fd(*it)))
            .collect()
    }

    /// The listeners by which accepting has failed, since this was asked last.
    fn take_broken(&mut self) -> Vec<usize> {
        let errors = std::iter::from_fn(|| self.ev.take_listener_error());
        errors
            .map(|error| {
                assert!(matches!(error.source, Error::Accept(_)), "{error}");
                error.listener
            })
            .collect()
    }
}
