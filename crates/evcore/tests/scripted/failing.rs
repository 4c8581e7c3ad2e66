//! Failures: each is told once, leaves everything consistent, and never a lock that is held.

use std::time::Duration;

use evcore::{Error, Ready};

use crate::{
    script::Did,
    stage::{Stage, readable},
};

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
fn a_listener_that_cannot_be_registered_leaves_none_registered_and_no_lock_held() {
    for fails_at in 0..3 {
        for mut stage in [Stage::listening(3), Stage::locking(3)] {
            stage.script.fail_add_after(fails_at);
            poller_refuses(&mut stage);
            assert!(!stage.ev.is_listening());
            for listener in 0..3 {
                assert!(!stage.script.watches(stage.listener_fd(listener)));
            }
        }
    }
}

#[test]
fn after_a_registration_failed_others_are_served_and_listening_is_tried_again() {
    for mut stage in [Stage::listening(2), Stage::locking(2)] {
        stage.script.fail_add_after(1);
        poller_refuses(&mut stage);
        stage.script.record();

        let token = stage.join();
        stage.report_readable(&[token]);
        assert_eq!(stage.turn(), [readable(token)]);
        let pause = Duration::from_millis(500);
        assert_eq!(stage.script.timeouts(), [Some(pause)]);
        stage.leave(token);
        stage.turn();
        assert!(
            !stage.ev.is_listening(),
            "a closed descriptor mends nothing"
        );

        stage.pass_ms(500);
        stage.turn();
        stage.turn();
        assert!(stage.ev.is_listening());
        assert_eq!(
            stage.script.timeouts().last(),
            Some(&None),
            "the pause is over"
        );
    }
}

#[test]
fn a_removal_that_fails_is_told_once_and_ends_listening_all_the_same() {
    let mut stage = Stage::built(2, |builder, _| builder.connections(1));
    stage.turn();
    let token = stage.join();
    stage.script.fail_removals();
    poller_refuses(&mut stage);
    assert!(!stage.ev.is_listening());
    let fds = [stage.listener_fd(0), stage.listener_fd(1)];
    assert!(
        !fds.iter().any(|fd| stage.script.watches(*fd)),
        "not even the second"
    );

    stage.report_readable(&[token]);
    assert_eq!(stage.turn(), [readable(token)]);
}

#[test]
fn listeners_are_closed_even_if_their_removal_fails() {
    let mut stage = Stage::listening(2);
    stage.turn();
    stage.script.fail_removals();
    assert!(stage.ev.close_listeners().is_err());
    assert!(!stage.ev.is_listening());
    stage.turn();
    assert!(
        stage.ev.close_listeners().is_ok(),
        "there is nothing left to fail"
    );
}

#[test]
fn a_listener_that_breaks_is_told_by_the_next_wait_and_rests_while_the_others_are_served() {
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
        let failure = stage.ev.wait();
        assert!(matches!(failure, Err(Error::Accept(_))), "{failure:?}");
        assert!(stage.ev.next_step().is_none(), "no turn has begun");
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
        let failure = stage.ev.wait();
        assert!(matches!(failure, Err(Error::Accept(_))), "{failure:?}");
        assert!(!stage.script.holds_lock());
        assert!(stage.ev.next_step().is_none(), "no turn has begun");
        stage.script.record();

        // It stays readable, and is left alone for a while.
        stage.report_readable(&[token]);
        assert_eq!(stage.turn(), [readable(token)]);
        assert!(!stage.ev.is_listening());
        let pause = Duration::from_millis(500);
        assert_eq!(stage.script.timeouts(), [Some(pause)]);
        stage.pass_ms(500);
        stage.turn();
        stage.turn();
        assert!(stage.ev.is_listening());
        assert_eq!(
            stage.script.timeouts().last(),
            Some(&None),
            "the pause is over"
        );
    }
}

#[test]
fn listeners_that_break_in_one_turn_are_told_by_a_wait_each() {
    let mut stage = Stage::listening(3);
    stage.break_listener(0);
    stage.break_listener(2);
    stage.connect(1, 1);
    stage.report_listeners(&[0, 1, 2]);
    assert_eq!(stage.turn(), [Did::Accepted(1)]);
    for _ in 0..2 {
        let failure = stage.ev.wait();
        assert!(matches!(failure, Err(Error::Accept(_))), "{failure:?}");
    }
    stage.turn();
}

#[test]
fn each_listener_rests_for_half_a_second_whatever_breaks_after_it() {
    let mut stage = Stage::listening(2);
    for listener in [0, 1] {
        stage.break_listener(listener);
        stage.report_listeners(&[listener]);
        stage.turn();
        assert!(stage.ev.wait().is_err());
        stage.turn();
        stage.pass_ms(300);
    }
    let watched = |stage: &Stage| [0, 1].map(|it| stage.script.watches(stage.listener_fd(it)));
    assert_eq!(watched(&stage), [false, false]);
    stage.turn();
    assert_eq!(watched(&stage), [true, false]);
    stage.pass_ms(200);
    stage.turn();
    assert_eq!(watched(&stage), [true, true]);
}
