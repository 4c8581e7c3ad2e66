//! Posting and taking back.

use evcore::{Interest, Ready, Timer};

use crate::{
    script::Did,
    stage::{Stage, readable},
};

#[test]
fn posting_again_merges_readiness_and_keeps_the_place() {
    let mut stage = Stage::new();
    let [a, b] = [stage.join(), stage.join()];
    stage.ev.post(a, Ready::READABLE);
    stage.ev.post(b, Ready::READABLE);
    stage.ev.post(a, Ready::WRITABLE);
    let both = Ready::READABLE | Ready::WRITABLE;
    assert_eq!(stage.turn(), [Did::Ready(a, both), readable(b)]);
}

#[test]
fn an_event_that_is_posted_under_the_lock_merges_with_what_the_user_posted() {
    let mut stage = Stage::locking(1);
    let token = stage.join();
    stage.ev.post(token, Ready::WRITABLE);
    stage.report_readable(&[token]);
    let both = Ready::READABLE | Ready::WRITABLE;
    assert_eq!(stage.turn(), [Did::Ready(token, both)]);
}

#[test]
fn cancelling_takes_everything_back_and_says_what_it_was() {
    let mut stage = Stage::new();
    let token = stage.join();
    assert_eq!(stage.ev.cancel(token), Ready::NONE);
    stage.ev.post(token, Ready::READABLE);
    stage.ev.post(token, Ready::WRITABLE);
    assert_eq!(stage.ev.cancel(token), Ready::READABLE | Ready::WRITABLE);
    assert_eq!(stage.turn(), []);
    assert_eq!(
        stage.script.timeouts(),
        [None],
        "nothing is left that hurries"
    );
}

#[test]
fn what_a_step_posts_comes_in_the_same_turn() {
    let mut stage = Stage::new();
    let token = stage.join();
    stage.report_readable(&[token]);
    stage.wait();
    assert_eq!(stage.step(), Some(readable(token)));
    stage.ev.post(token, Ready::WRITABLE);
    assert_eq!(stage.rest(), [Did::Ready(token, Ready::WRITABLE)]);
}

#[test]
fn what_was_delivered_is_not_merged_into_a_later_post() {
    let mut stage = Stage::new();
    let token = stage.join();
    stage.ev.post(token, Ready::READABLE);
    assert_eq!(stage.turn(), [readable(token)]);
    stage.ev.post(token, Ready::WRITABLE);
    assert_eq!(stage.turn(), [Did::Ready(token, Ready::WRITABLE)]);
}

#[test]
fn a_change_of_interest_reaches_the_poller_before_the_wait_and_not_if_taken_back() {
    let mut stage = Stage::new();
    let token = stage.join();
    let fd = stage.fd(token);
    stage.turn();
    stage.script.record();
    stage.ev.modify(token, Interest::BOTH).unwrap();
    assert_eq!(stage.script.record(), []);
    stage.turn();
    assert_eq!(stage.script.record(), [Did::Modify(fd), Did::Wait(None)]);
    stage.ev.modify(token, Interest::READ).unwrap();
    stage.ev.modify(token, Interest::BOTH).unwrap();
    stage.turn();
    assert_eq!(stage.script.record(), [Did::Wait(None)]);
}

#[test]
fn a_disarmed_timer_does_not_fire_and_a_moved_one_fires_once() {
    let mut stage = Stage::new();
    let token = stage.join();
    stage.arm_ms(token, Timer::READ, 1);
    stage.arm_ms(token, Timer::WRITE, 1);
    stage.arm_ms(token, Timer::WRITE, 3);
    assert!(stage.ev.disarm(token, Timer::READ));
    assert!(!stage.ev.disarm(token, Timer::READ));
    stage.pass_ms(2);
    assert_eq!(stage.turn(), []);
    stage.pass_ms(1);
    assert_eq!(stage.turn(), [Did::Expired(token, Timer::WRITE)]);
    assert!(!stage.ev.disarm(token, Timer::WRITE), "it has fired");
    stage.pass_ms(10);
    assert_eq!(stage.turn(), []);
}
