//! What the counters count.

use evcore::{Ready, Stats, Timer};

use crate::{
    script::Did,
    stage::{Stage, readable},
};

/// A turn with four events, one of which goes stale, two clients, a timer and a post.
fn eventful_turn(stage: &mut Stage) -> Stats {
    let [a, b, c] = [(); 3].map(|()| stage.join());
    stage.arm_ms(c, Timer::READ, 1);
    stage.ev.post(a, Ready::WRITABLE);
    stage.pass_ms(1);
    stage.connect(0, 2);
    stage.script.report(vec![
        (stage.fd(a), Ready::READABLE),
        (stage.fd(b), Ready::READABLE),
        (stage.listener_fd(0), Ready::READABLE),
        (stage.fd(c), Ready::READABLE),
    ]);
    stage.wait();
    assert_eq!(stage.step(), Some(readable(a)));
    stage.leave(b);
    stage.rest();
    *stage.ev.stats()
}

#[test]
fn every_event_is_a_step_a_listeners_or_stale() {
    let stats = eventful_turn(&mut Stage::listening(1));
    assert_eq!((stats.turns, stats.events, stats.stale), (1, 4, 1));
    assert_eq!((stats.accepted, stats.accept_pauses), (2, 0));
    assert_eq!((stats.expired, stats.posted), (1, 1));
}

#[test]
fn under_the_lock_events_count_as_posted_too() {
    let mut stage = Stage::locking(1);
    let [a, b] = [stage.join(), stage.join()];
    stage.ev.post(a, Ready::WRITABLE);
    stage.script.report(vec![
        (stage.fd(a), Ready::READABLE),
        (stage.fd(b), Ready::READABLE),
    ]);
    assert_eq!(stage.turn().len(), 2);
    let stats = stage.ev.stats();
    assert_eq!((stats.events, stats.posted, stats.stale), (2, 2, 0));
}

#[test]
fn a_listeners_event_that_comes_after_its_end_is_stale() {
    let mut stage = Stage::listening(1);
    let token = stage.join();
    stage.script.report(vec![
        (stage.fd(token), Ready::READABLE),
        (stage.listener_fd(0), Ready::READABLE),
    ]);
    stage.wait();
    stage.step();
    stage.ev.close_listeners().unwrap();
    stage.rest();
    assert_eq!(stage.ev.stats().stale, 1);
}

#[test]
fn it_is_counted_once_that_all_places_are_taken() {
    let mut stage = Stage::built(1, |builder, _| builder.connections(2));
    let first = stage.join();
    stage.turn();
    assert_eq!(stage.ev.stats().full, 0);
    stage.join();
    for _ in 0..3 {
        stage.turn();
        assert_eq!(stage.ev.stats().full, 1);
    }
    stage.leave(first);
    stage.turn();
    assert_eq!(stage.ev.stats().full, 1);
    stage.join();
    stage.turn();
    assert_eq!(stage.ev.stats().full, 2);
}

#[test]
fn a_client_that_waits_for_the_place_of_an_idle_one_is_counted() {
    let mut stage = Stage::built(1, |builder, _| builder.connections(1));
    let idle = stage.join_idle();
    stage.turn();
    assert_eq!(stage.ev.stats().full, 0, "its place is as good as free");
    stage.connect(0, 1);
    stage.report_listeners(&[0]);
    assert_eq!(stage.turn(), [Did::Evict(idle)]);
    assert_eq!(stage.ev.stats().full, 1);
    stage.leave(idle);
    stage.report_listeners(&[0]);
    assert_eq!(stage.turn(), [Did::Accepted(0)]);
    assert_eq!(stage.ev.stats().full, 1);
}

#[test]
fn a_turn_that_fills_the_last_place_while_another_client_waits_is_counted_once() {
    let mut stage = Stage::built(1, |builder, _| builder.connections(1));
    stage.connect(0, 2);
    stage.report_listeners(&[0]);
    stage.wait();
    assert_eq!(stage.step(), Some(Did::Accepted(0)));
    stage.join();
    assert_eq!(stage.rest(), []);
    stage.turn();
    assert_eq!(stage.ev.stats().full, 1);
}

#[test]
fn a_loop_that_does_not_listen_is_never_full() {
    for listeners in [0, 1] {
        let mut stage = Stage::built(listeners, |builder, _| builder.connections(1));
        stage.ev.close_listeners().unwrap();
        stage.join();
        stage.turn();
        assert_eq!(stage.ev.stats().full, 0);
    }
}

#[test]
fn a_wait_without_a_timeout_that_brings_nothing_is_counted() {
    let mut stage = Stage::new();
    let token = stage.join();
    // What ends a wait: an event, a wake-up, a signal, a timeout.
    stage.report_readable(&[token]);
    stage.turn();
    stage.ev.handle().wake();
    stage.turn();
    stage.script.interrupt();
    stage.turn();
    stage.arm_ms(token, Timer::READ, 5);
    stage.turn();
    assert_eq!(stage.ev.stats().empty_waits, 0);

    assert!(stage.ev.disarm(token, Timer::READ));
    stage.turn();
    assert_eq!(stage.ev.stats().empty_waits, 1);
    assert_eq!(stage.script.timeouts().last(), Some(&None));
}
