//! The iterations of the loop in which a worker listens, and the clients that it accepts.

use evcore::{Error, EventLoop, Ready, Timer, balancer::Policy};

use crate::{
    fake_backend::Recorded,
    fixture::{Fixture, readable},
};

fn room_for(connections: u32, listeners: usize) -> Fixture {
    Fixture::built(listeners, |builder, _| builder.connections(connections))
}

#[test]
fn a_client_carries_the_number_of_its_listener() {
    let mut fixture = Fixture::listening(3);
    fixture.connect(2, 1);
    fixture.connect(0, 1);
    fixture.report_listeners(&[2, 0]);
    assert_eq!(
        fixture.turn(),
        [Recorded::Accepted(2), Recorded::Accepted(0)]
    );
    for new in &fixture.accepted {
        assert!(new.peer.tcp().unwrap().ip().is_loopback());
    }
    assert_eq!(fixture.ev.stats().accepted, 2);
}

#[test]
fn a_full_worker_listens_again_at_its_first_free_slot() {
    let mut fixture = room_for(2, 1);
    fixture.turn();
    let [a, _] = [fixture.join(), fixture.join()];
    assert!(fixture.ev.stats().listening, "until the next plan");
    fixture.turn();
    assert!(!fixture.ev.stats().listening);
    assert!(!fixture.backend.watches(fixture.listener_fd(0)));

    fixture.leave(a);
    fixture.turn();
    assert!(fixture.ev.stats().listening && fixture.backend.watches(fixture.listener_fd(0)));
}

#[test]
fn in_whichever_phase_a_slot_is_freed_the_next_wait_listens() {
    for policy in [Policy::Off, Policy::mutex()] {
        for freed_after in 0..=4 {
            let mut fixture = Fixture::built(1, |builder, backend| {
                let builder = builder.connections(3).policy(policy);
                builder.group(backend.clone())
            });
            fixture.turn();
            let [a, b, leaves] = [(); 3].map(|()| fixture.join());
            fixture.arm_ms(a, Timer::READ, 1);
            fixture.pass_ms(1);
            fixture.ev.post(b, Ready::WRITABLE);
            fixture.ev.handle().wake();
            fixture.report_readable(&[a]);
            fixture.wait();
            assert!(!fixture.ev.stats().listening);
            // There are four steps: reported, woken, expired, posted.
            let mut steps: Vec<_> = (0..freed_after).map_while(|_| fixture.step()).collect();
            fixture.leave(leaves);
            steps.extend(fixture.rest());
            assert_eq!(steps.len(), 4, "{steps:?}");
            assert!(
                !fixture.ev.stats().listening,
                "listening begins only with the next plan"
            );
            fixture.connect(0, 2);
            fixture.report_listeners(&[0]);
            assert_eq!(
                fixture.turn().first(),
                Some(&Recorded::Accepted(0)),
                "{policy:?}"
            );
        }
    }
}

#[test]
fn a_full_worker_tries_the_lock_again_at_its_first_free_slot() {
    let mut fixture = Fixture::built(1, |builder, backend| {
        let builder = builder.connections(16).policy(Policy::mutex());
        builder.group(backend.clone())
    });
    fixture.turn();
    let tokens = [(); 16].map(|()| fixture.join());
    fixture.turn();
    assert_eq!(
        fixture.backend.timeouts().last(),
        Some(&None),
        "the wait has no limit, because only this worker's own steps can free a slot"
    );
    fixture.pass_ms(500);
    fixture.turn();
    fixture.leave(tokens[0]);
    fixture.turn();
    assert!(
        fixture.ev.stats().listening,
        "crowded, but it has given way for long enough"
    );
}

#[test]
fn the_turn_that_fills_a_worker_accepts_no_further_client() {
    let mut fixture = room_for(2, 1);
    fixture.connect(0, 4);
    fixture.report_listeners(&[0]);
    fixture.wait();
    assert_eq!(fixture.step(), Some(Recorded::Accepted(0)));
    fixture.join();
    assert_eq!(fixture.step(), Some(Recorded::Accepted(0)));
    fixture.join();
    assert_eq!(fixture.step(), None);
    assert_eq!(fixture.turn(), []);
    assert_eq!(
        fixture.backend.timeouts().last(),
        Some(&None),
        "full, it does not spin"
    );
}

#[test]
fn waiting_clients_are_accepted_when_the_turn_frees_a_slot() {
    let mut fixture = room_for(2, 1);
    let first = fixture.join();
    fixture.connect(0, 1);
    fixture.backend.report(vec![
        (fixture.listener_fd(0), Ready::READABLE),
        (fixture.fd(first), Ready::READABLE),
    ]);
    fixture.wait();
    assert_eq!(fixture.step(), Some(readable(first)));
    let second = fixture.join();
    fixture.ev.post(second, Ready::READABLE);
    assert_eq!(
        fixture.step(),
        Some(readable(second)),
        "no client: it is full"
    );
    fixture.leave(second);
    // The client still waits, so the kernel reports it again.
    fixture.report_listeners(&[0]);
    assert_eq!(fixture.turn(), [Recorded::Accepted(0)]);
}

#[test]
fn a_loop_without_listeners_never_tries_the_lock() {
    let mut fixture = Fixture::locking(0);
    fixture.turn();
    assert_eq!(fixture.backend.record(), [Recorded::Wait(None)]);
}

#[test]
fn a_policy_that_needs_a_lock_is_refused_without_one() {
    let refused = EventLoop::builder().policy(Policy::mutex()).build();
    assert!(matches!(refused, Err(Error::NoGroup { .. })));
}

#[test]
fn closing_the_listeners_stops_listening_for_good() {
    for mut fixture in [Fixture::listening(2), Fixture::locking(2)] {
        fixture.turn();
        let fds = [fixture.listener_fd(0), fixture.listener_fd(1)];
        fixture.ev.listeners().close().unwrap();
        assert!(!fixture.ev.stats().listening);
        assert!(!fds.iter().any(|fd| fixture.backend.watches(*fd)));
        fixture.backend.record();
        fixture.turn();
        assert_eq!(fixture.backend.record(), [Recorded::Wait(None)]);
        fixture.ev.listeners().close().unwrap();
    }
}

#[test]
fn closing_the_listeners_drops_their_events_of_the_batch() {
    for mut fixture in [Fixture::listening(2), Fixture::locking(2)] {
        let token = fixture.join();
        fixture.connect(0, 1);
        fixture.connect(1, 3);
        fixture.backend.report(vec![
            (fixture.listener_fd(1), Ready::READABLE),
            (fixture.fd(token), Ready::READABLE),
            (fixture.listener_fd(0), Ready::READABLE),
        ]);
        fixture.wait();
        fixture.step();
        fixture.ev.listeners().close().unwrap();
        assert!(!fixture.backend.holds_lock());
        let rest = fixture.rest();
        assert!(rest.is_empty() || rest == [readable(token)], "{rest:?}");
        assert_eq!(fixture.turn(), []);
    }
}

#[test]
fn tokens_stay_valid_when_the_listeners_are_closed() {
    let mut fixture = Fixture::listening(2);
    let before = fixture.join();
    fixture.turn();
    fixture.ev.listeners().close().unwrap();
    let after = fixture.join();
    fixture.report_readable(&[before, after]);
    assert_eq!(fixture.turn(), [readable(before), readable(after)]);
}

#[test]
fn a_listener_event_without_a_client_makes_no_step() {
    let mut fixture = Fixture::listening(1);
    fixture.report_listeners(&[0]);
    assert_eq!(fixture.turn(), []);
    fixture.backend.record();
    assert_eq!(fixture.turn(), []);
    assert_eq!(fixture.backend.timeouts(), [None]);
}

#[test]
fn a_crowded_worker_yields_and_does_not_try_the_lock() {
    let mut fixture = Fixture::built(1, |builder, backend| {
        builder
            .connections(16)
            .policy(Policy::mutex())
            .group(backend.clone())
    });
    fixture.turn();
    let tokens = [(); 15].map(|()| fixture.join());
    fixture.backend.record();
    fixture.turn();
    let fd = fixture.listener_fd(0);
    let delay = Some(Policy::DEFAULT_DELAY);
    assert_eq!(
        fixture.backend.record(),
        [Recorded::Remove(fd), Recorded::Wait(delay)]
    );

    fixture.leave(tokens[0]);
    fixture.turn();
    assert!(fixture.ev.stats().listening, "an eighth is free");
}

#[test]
fn an_accepted_client_can_be_served() {
    let mut fixture = Fixture::listening(1);
    fixture.connect(0, 1);
    fixture.report_listeners(&[0]);
    fixture.turn();
    let stream = &fixture.accepted[0].stream;
    assert_eq!(stream.send(b"hello").unwrap(), 5);
}

#[test]
fn a_loop_listens_from_its_first_wait_on() {
    let mut fixture = Fixture::listening(1);
    assert!(!fixture.ev.stats().listening);
    fixture.wait();
    assert!(fixture.ev.stats().listening);
}

#[test]
fn a_pause_begins_within_the_turn_and_ends_after_its_time() {
    let mut fixture = Fixture::listening(2);
    fixture.connect(0, 2);
    fixture.connect(1, 1);
    fixture.report_listeners(&[0, 1]);
    fixture.wait();
    assert_eq!(fixture.step(), Some(Recorded::Accepted(0)));
    fixture.ev.listeners().pause();
    assert_eq!(fixture.rest(), [], "the others wait");
    assert_eq!(
        fixture.ev.stats().accept_pauses,
        0,
        "a pause that the program asked for is not counted"
    );
    fixture.turn();
    assert!(!fixture.ev.stats().listening);
    fixture.pass_ms(499);
    fixture.turn();
    assert!(!fixture.ev.stats().listening);
    fixture.pass_ms(1);
    fixture.turn();
    assert!(fixture.ev.stats().listening);
    fixture.report_listeners(&[0, 1]);
    assert_eq!(fixture.turn().len(), 2);
}

#[test]
fn a_pause_leaves_clients_whose_event_comes_later_in_the_turn() {
    let mut fixture = Fixture::listening(1);
    let served = fixture.join();
    fixture.turn();
    fixture.connect(0, 1);
    fixture.report_before_listener(&[served]);
    fixture.wait();
    assert_eq!(fixture.step(), Some(readable(served)));
    fixture.ev.listeners().pause();
    assert_eq!(fixture.rest(), []);
    assert_eq!(
        fixture.ev.stats().stale,
        0,
        "an event of an open listener does not count as stale"
    );
    fixture.turn();
    assert!(!fixture.ev.stats().listening);
    fixture.pass_ms(500);
    fixture.report_listeners(&[0]);
    assert_eq!(fixture.turn(), [Recorded::Accepted(0)]);
}

#[test]
fn a_pause_ends_when_a_connection_is_closed() {
    let mut fixture = Fixture::listening(1);
    let served = fixture.join();
    fixture.ev.listeners().pause();
    fixture.turn();
    assert!(!fixture.ev.stats().listening);
    fixture.leave(served);
    fixture.turn();
    assert!(fixture.ev.stats().listening);
}
