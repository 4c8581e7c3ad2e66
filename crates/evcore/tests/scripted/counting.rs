//! What the counters count.

use evcore::{Ready, Stats, Timer};

use crate::stage::{Stage, readable};

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
