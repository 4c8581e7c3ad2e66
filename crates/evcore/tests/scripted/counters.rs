//! The counters of a loop.

use evcore::{Ready, Stats, Timer, balancer::Policy};

use crate::{
    fake_backend::Recorded,
    fixture::{Fixture, readable},
};

/// Makes a turn with two clients, a timer, a post, and four events, one of which becomes stale.
fn eventful_turn(fixture: &mut Fixture) -> Stats {
    let [a, b, c] = [(); 3].map(|()| fixture.join());
    fixture.arm_ms(c, Timer::READ, 1);
    fixture.ev.post(a, Ready::WRITABLE);
    fixture.pass_ms(1);
    fixture.connect(0, 2);
    fixture.backend.report(vec![
        (fixture.fd(a), Ready::READABLE),
        (fixture.fd(b), Ready::READABLE),
        (fixture.listener_fd(0), Ready::READABLE),
        (fixture.fd(c), Ready::READABLE),
    ]);
    fixture.wait();
    assert_eq!(fixture.step(), Some(readable(a)));
    fixture.leave(b);
    fixture.rest();
    fixture.ev.stats()
}

#[test]
fn every_event_is_a_step_or_a_listener_event_or_stale() {
    let stats = eventful_turn(&mut Fixture::listening(1));
    assert_eq!((stats.turns, stats.events, stats.stale), (1, 4, 1));
    assert_eq!((stats.accepted, stats.accept_pauses), (2, 0));
    assert_eq!((stats.expired, stats.posted), (1, 1));
}

#[test]
fn under_the_lock_events_count_as_posted_too() {
    let mut fixture = Fixture::locking(1);
    let [a, b] = [fixture.join(), fixture.join()];
    fixture.ev.post(a, Ready::WRITABLE);
    fixture.report_before_listener(&[a, b]);
    assert_eq!(fixture.turn().len(), 2);
    let stats = fixture.ev.stats();
    assert_eq!((stats.events, stats.posted, stats.stale), (3, 2, 0));
}

#[test]
fn a_listeners_event_that_comes_after_its_end_is_stale() {
    let mut fixture = Fixture::listening(1);
    let token = fixture.join();
    fixture.backend.report(vec![
        (fixture.fd(token), Ready::READABLE),
        (fixture.listener_fd(0), Ready::READABLE),
    ]);
    fixture.wait();
    fixture.step();
    fixture.ev.listeners().close().unwrap();
    fixture.rest();
    assert_eq!(fixture.ev.stats().stale, 1);
}

#[test]
fn a_full_loop_is_counted_once() {
    let mut fixture = Fixture::built(1, |builder, _| builder.connections(2));
    let first = fixture.join();
    fixture.turn();
    assert_eq!(fixture.ev.stats().full, 0);
    fixture.join();
    for _ in 0..3 {
        fixture.turn();
        assert_eq!(fixture.ev.stats().full, 1);
    }
    fixture.leave(first);
    fixture.turn();
    assert_eq!(fixture.ev.stats().full, 1);
    fixture.join();
    fixture.turn();
    assert_eq!(fixture.ev.stats().full, 2);
}

#[test]
fn a_client_that_waits_for_an_idle_connections_slot_is_counted() {
    let mut fixture = Fixture::built(1, |builder, _| builder.connections(1));
    let idle = fixture.join_idle();
    fixture.turn();
    assert_eq!(
        fixture.ev.stats().full,
        0,
        "an idle connection's slot counts as free"
    );
    fixture.connect(0, 1);
    fixture.report_listeners(&[0]);
    assert_eq!(fixture.turn(), [Recorded::Evict(idle)]);
    assert_eq!(fixture.ev.stats().full, 1);
    fixture.leave(idle);
    fixture.report_listeners(&[0]);
    assert_eq!(fixture.turn(), [Recorded::Accepted(0)]);
    assert_eq!(fixture.ev.stats().full, 1);
}

#[test]
fn each_shortage_of_slots_is_counted_once_although_its_connections_are_idle() {
    for policy in [Policy::Off, Policy::mutex()] {
        let mut fixture = Fixture::built(1, |builder, backend| {
            builder.connections(1).policy(policy).group(backend.clone())
        });
        for shortages in 1..=3 {
            let idle = fixture.join_idle();
            fixture.connect(0, 1);
            for _ in 0..3 {
                fixture.report_listeners(&[0]);
                fixture.turn();
                assert_eq!(fixture.ev.stats().full, shortages);
                fixture.ev.set_idle(idle);
            }
            fixture.leave(idle);
            fixture.report_listeners(&[0]);
            assert_eq!(fixture.turn(), [Recorded::Accepted(0)]);
            assert_eq!(fixture.ev.stats().full, shortages);
        }
    }
}

#[test]
fn filling_the_last_slot_with_a_client_waiting_counts_once() {
    let mut fixture = Fixture::built(1, |builder, _| builder.connections(1));
    fixture.connect(0, 2);
    fixture.report_listeners(&[0]);
    fixture.wait();
    assert_eq!(fixture.step(), Some(Recorded::Accepted(0)));
    fixture.join();
    assert_eq!(fixture.rest(), []);
    fixture.turn();
    assert_eq!(fixture.ev.stats().full, 1);
}

#[test]
fn a_loop_that_does_not_listen_is_never_full() {
    for listeners in [0, 1] {
        let mut fixture = Fixture::built(listeners, |builder, _| builder.connections(1));
        fixture.ev.listeners().close().unwrap();
        fixture.join();
        fixture.turn();
        assert_eq!(fixture.ev.stats().full, 0);
    }
}

#[test]
fn a_wait_without_a_timeout_that_brings_nothing_is_counted() {
    let mut fixture = Fixture::new();
    let token = fixture.join();
    // The waits end by an event, a wake-up, a signal, and a timeout.
    fixture.report_readable(&[token]);
    fixture.turn();
    fixture.ev.handle().wake();
    fixture.turn();
    fixture.backend.interrupt();
    fixture.turn();
    fixture.arm_ms(token, Timer::READ, 5);
    fixture.turn();
    assert_eq!(fixture.ev.stats().empty_waits, 0);

    assert!(fixture.ev.disarm(token, Timer::READ));
    fixture.turn();
    assert_eq!(fixture.ev.stats().empty_waits, 1);
    assert_eq!(fixture.backend.timeouts().last(), Some(&None));
}
