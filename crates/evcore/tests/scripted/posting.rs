//! Steps that the program posts, undone changes of interest, and timers that are disarmed or moved.

use evcore::{Interest, Ready, Timer};

use crate::{
    fake_backend::Recorded,
    fixture::{Fixture, readable},
};

#[test]
fn posting_again_merges_readiness_and_keeps_the_place() {
    let mut fixture = Fixture::new();
    let [a, b] = [fixture.join(), fixture.join()];
    fixture.ev.post(a, Ready::READABLE);
    fixture.ev.post(b, Ready::READABLE);
    fixture.ev.post(a, Ready::WRITABLE);
    let both = Ready::READABLE | Ready::WRITABLE;
    assert_eq!(fixture.turn(), [Recorded::Ready(a, both), readable(b)]);
}

#[test]
fn an_event_posted_under_the_lock_merges_with_other_posts() {
    let mut fixture = Fixture::locking(1);
    let token = fixture.join();
    fixture.ev.post(token, Ready::WRITABLE);
    fixture.report_before_listener(&[token]);
    let both = Ready::READABLE | Ready::WRITABLE;
    assert_eq!(fixture.turn(), [Recorded::Ready(token, both)]);
}

#[test]
fn a_post_of_a_step_comes_in_the_same_turn() {
    let mut fixture = Fixture::new();
    let token = fixture.join();
    fixture.report_readable(&[token]);
    fixture.wait();
    assert_eq!(fixture.step(), Some(readable(token)));
    fixture.ev.post(token, Ready::WRITABLE);
    assert_eq!(fixture.rest(), [Recorded::Ready(token, Ready::WRITABLE)]);
}

#[test]
fn delivered_readiness_is_not_merged_into_a_later_post() {
    let mut fixture = Fixture::new();
    let token = fixture.join();
    fixture.ev.post(token, Ready::READABLE);
    assert_eq!(fixture.turn(), [readable(token)]);
    fixture.ev.post(token, Ready::WRITABLE);
    assert_eq!(fixture.turn(), [Recorded::Ready(token, Ready::WRITABLE)]);
}

#[test]
fn an_undone_change_of_interest_does_not_reach_the_poller() {
    let mut fixture = Fixture::new();
    let token = fixture.join();
    let fd = fixture.fd(token);
    fixture.turn();
    fixture.backend.record();
    fixture.ev.modify(token, Interest::BOTH).unwrap();
    assert_eq!(fixture.backend.record(), []);
    fixture.turn();
    assert_eq!(
        fixture.backend.record(),
        [Recorded::Modify(fd), Recorded::Wait(None)]
    );
    fixture.ev.modify(token, Interest::READ).unwrap();
    fixture.ev.modify(token, Interest::BOTH).unwrap();
    fixture.turn();
    assert_eq!(fixture.backend.record(), [Recorded::Wait(None)]);
}

#[test]
fn a_disarmed_timer_does_not_fire_and_a_moved_one_fires_once() {
    let mut fixture = Fixture::new();
    let token = fixture.join();
    fixture.arm_ms(token, Timer::READ, 1);
    fixture.arm_ms(token, Timer::WRITE, 1);
    fixture.arm_ms(token, Timer::WRITE, 3);
    assert!(fixture.ev.disarm(token, Timer::READ));
    assert!(!fixture.ev.disarm(token, Timer::READ));
    fixture.pass_ms(2);
    assert_eq!(fixture.turn(), []);
    fixture.pass_ms(1);
    assert_eq!(fixture.turn(), [Recorded::Expired(token, Timer::WRITE)]);
    assert!(!fixture.ev.disarm(token, Timer::WRITE), "it has fired");
    fixture.pass_ms(10);
    assert_eq!(fixture.turn(), []);
}
