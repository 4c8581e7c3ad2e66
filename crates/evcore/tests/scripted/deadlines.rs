//! The deadlines of timers, with every kind of timer queue.

use std::time::Duration;

use evcore::{
    Timer, Token,
    timer::{Lazy, TimerHeap, TimerQueue, TimerTree, TimerWheel},
};

use crate::fixture::Fixture;

/// Runs a test over a loop with each queue, and with each queue under a `Lazy`.
fn with_each_queue(test: impl Fn(Fixture)) {
    let queues: [Box<dyn TimerQueue>; 6] = [
        Box::new(TimerWheel::new()),
        Box::new(TimerTree::new()),
        Box::new(TimerHeap::new()),
        Box::new(Lazy::new(TimerWheel::new())),
        Box::new(Lazy::new(TimerTree::new())),
        Box::new(Lazy::new(TimerHeap::new())),
    ];
    for queue in queues {
        test(Fixture::built(0, |builder, _| builder.timer_queue(queue)));
    }
}

fn deadlines(fixture: &mut Fixture, token: Token) -> [Option<u64>; 2] {
    [Timer::READ, Timer::WRITE].map(|timer| fixture.ev.timers().deadline(token, timer))
}

#[test]
fn the_last_call_of_arm_sets_the_deadline() {
    with_each_queue(|mut fixture| {
        let token = fixture.join();
        assert_eq!(deadlines(&mut fixture, token), [None, None]);
        fixture.arm_ms(token, Timer::READ, 40);
        assert_eq!(deadlines(&mut fixture, token), [Some(40), None]);
        for later in [60, 80, 30, 50] {
            fixture.arm_ms(token, Timer::READ, later);
            assert_eq!(deadlines(&mut fixture, token), [Some(later), None]);
        }
        fixture.arm_ms(token, Timer::WRITE, 45);
        assert!(fixture.ev.disarm(token, Timer::READ));
        assert_eq!(deadlines(&mut fixture, token), [None, Some(45)]);
    });
}

#[test]
fn a_timer_moved_to_later_keeps_its_deadline_in_every_turn() {
    with_each_queue(|mut fixture| {
        let token = fixture.join();
        fixture.arm_ms(token, Timer::READ, 10);
        fixture.arm_ms(token, Timer::READ, 30);
        for _ in 0..29 {
            fixture.pass_ms(1);
            assert_eq!(fixture.turn(), []);
            assert_eq!(deadlines(&mut fixture, token), [Some(30), None]);
        }
        fixture.pass_ms(1);
        assert_eq!(fixture.turn().len(), 1);
        assert_eq!(deadlines(&mut fixture, token), [None, None]);
    });
}

#[test]
fn a_deadline_is_rounded_up_to_a_millisecond() {
    let mut fixture = Fixture::new();
    let token = fixture.join();
    fixture.time.advance(Duration::from_nanos(1));
    fixture.turn();
    fixture.arm_ms(token, Timer::READ, 40);
    assert_eq!(fixture.ev.timers().deadline(token, Timer::READ), Some(41));
    let rest = fixture.ev.clock().until(41);
    assert_eq!(rest, Duration::from_nanos(40_999_999));
}

#[test]
fn a_stale_token_has_no_deadline() {
    let mut fixture = Fixture::new();
    let stale = fixture.join();
    fixture.arm_ms(stale, Timer::READ, 40);
    fixture.leave(stale);
    let token = fixture.join();
    assert_eq!(token.index(), stale.index());
    fixture.arm_ms(token, Timer::READ, 50);
    assert_eq!(fixture.ev.timers().deadline(stale, Timer::READ), None);
    assert_eq!(fixture.ev.timers().deadline(token, Timer::READ), Some(50));
}

#[test]
#[should_panic(expected = "Timer(2): a token or index has 2 timers")]
fn arming_a_timer_that_a_token_does_not_have_panics() {
    let mut fixture = Fixture::new();
    let token = fixture.join();
    fixture.arm_ms(token, Timer::new(2), 1);
}
