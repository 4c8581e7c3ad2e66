//! When a worker listens, and whom it accepts.

use evcore::{Error, EventLoop, Ready, Timer, balancer::Policy};

use crate::{
    script::Did,
    stage::{Stage, readable},
};

fn room_for(connections: u32, listeners: usize) -> Stage {
    Stage::built(listeners, |builder, _| builder.connections(connections))
}

#[test]
fn clients_of_several_listeners_say_by_which_they_came() {
    let mut stage = Stage::listening(3);
    stage.connect(2, 1);
    stage.connect(0, 1);
    stage.report_listeners(&[2, 0]);
    assert_eq!(stage.turn(), [Did::Accepted(2), Did::Accepted(0)]);
    for new in &stage.accepted {
        assert!(new.peer.tcp().unwrap().ip().is_loopback());
    }
    assert_eq!(stage.ev.stats().accepted, 2);
}

#[test]
fn a_full_worker_stops_listening_and_starts_at_its_first_free_place() {
    let mut stage = room_for(2, 1);
    stage.turn();
    let [a, _] = [stage.join(), stage.join()];
    assert!(stage.ev.status().listening, "until the next plan");
    stage.turn();
    assert!(!stage.ev.status().listening);
    assert!(!stage.script.watches(stage.listener_fd(0)));

    stage.leave(a);
    stage.turn();
    assert!(stage.ev.status().listening && stage.script.watches(stage.listener_fd(0)));
}

#[test]
fn in_whichever_phase_a_place_is_freed_the_next_wait_listens() {
    for policy in [Policy::Off, Policy::mutex()] {
        for freed_after in 0..=4 {
            let mut stage = Stage::built(1, |builder, script| {
                let builder = builder.connections(3).policy(policy);
                builder.group(script.clone())
            });
            stage.turn();
            let [a, b, leaves] = [(); 3].map(|()| stage.join());
            stage.arm_ms(a, Timer::READ, 1);
            stage.pass_ms(1);
            stage.ev.post(b, Ready::WRITABLE);
            stage.ev.handle().wake();
            stage.report_readable(&[a]);
            stage.wait();
            assert!(!stage.ev.status().listening);
            // One step of each: reported, woken, expired, posted.
            let mut steps: Vec<_> = (0..freed_after).map_while(|_| stage.step()).collect();
            stage.leave(leaves);
            steps.extend(stage.rest());
            assert_eq!(steps.len(), 4, "{steps:?}");
            assert!(!stage.ev.status().listening, "that is for a plan to say");
            stage.connect(0, 2);
            stage.report_listeners(&[0]);
            assert_eq!(stage.turn().first(), Some(&Did::Accepted(0)), "{policy:?}");
        }
    }
}

#[test]
fn a_full_worker_with_a_lock_starts_at_its_first_free_place_if_it_was_away_for_the_delay() {
    let mut stage = Stage::built(1, |builder, script| {
        let builder = builder.connections(16).policy(Policy::mutex());
        builder.group(script.clone())
    });
    stage.turn();
    let tokens = [(); 16].map(|()| stage.join());
    stage.turn();
    assert_eq!(
        stage.script.timeouts().last(),
        Some(&None),
        "only its own steps free a place"
    );
    stage.pass_ms(500);
    stage.turn();
    stage.leave(tokens[0]);
    stage.turn();
    assert!(
        stage.ev.status().listening,
        "crowded, but it has given way for long enough"
    );
}

#[test]
fn no_client_is_accepted_into_a_full_worker_in_the_turn_that_filled_it() {
    let mut stage = room_for(2, 1);
    stage.connect(0, 4);
    stage.report_listeners(&[0]);
    stage.wait();
    assert_eq!(stage.step(), Some(Did::Accepted(0)));
    stage.join();
    assert_eq!(stage.step(), Some(Did::Accepted(0)));
    stage.join();
    assert_eq!(stage.step(), None);
    assert_eq!(stage.turn(), []);
    assert_eq!(
        stage.script.timeouts().last(),
        Some(&None),
        "full, it does not spin"
    );
}

#[test]
fn clients_that_find_no_place_are_accepted_once_the_same_turn_has_freed_one() {
    let mut stage = room_for(2, 1);
    let first = stage.join();
    stage.connect(0, 1);
    stage.script.report(vec![
        (stage.listener_fd(0), Ready::READABLE),
        (stage.fd(first), Ready::READABLE),
    ]);
    stage.wait();
    assert_eq!(stage.step(), Some(readable(first)));
    let second = stage.join();
    stage.ev.post(second, Ready::READABLE);
    assert_eq!(
        stage.step(),
        Some(readable(second)),
        "no client: it is full"
    );
    stage.leave(second);
    // It still waits, so the kernel says so again.
    stage.report_listeners(&[0]);
    assert_eq!(stage.turn(), [Did::Accepted(0)]);
}

#[test]
fn a_loop_without_listeners_never_asks_for_the_lock() {
    let mut stage = Stage::locking(0);
    stage.turn();
    assert_eq!(stage.script.record(), [Did::Wait(None)]);
}

#[test]
fn a_policy_that_needs_a_lock_is_refused_without_one() {
    let refused = EventLoop::builder().policy(Policy::mutex()).build();
    assert!(matches!(refused, Err(Error::NoGroup { .. })));
}

#[test]
fn closing_the_listeners_stops_listening_for_good() {
    for mut stage in [Stage::listening(2), Stage::locking(2)] {
        stage.turn();
        let fds = [stage.listener_fd(0), stage.listener_fd(1)];
        stage.ev.close_listeners().unwrap();
        assert!(!stage.ev.status().listening);
        assert!(!fds.iter().any(|fd| stage.script.watches(*fd)));
        stage.script.record();
        stage.turn();
        assert_eq!(stage.script.record(), [Did::Wait(None)]);
        stage.ev.close_listeners().unwrap();
    }
}

#[test]
fn closing_the_listeners_within_the_batch_that_reports_them_drops_their_events() {
    for mut stage in [Stage::listening(2), Stage::locking(2)] {
        let token = stage.join();
        stage.connect(0, 1);
        stage.connect(1, 3);
        stage.script.report(vec![
            (stage.listener_fd(1), Ready::READABLE),
            (stage.fd(token), Ready::READABLE),
            (stage.listener_fd(0), Ready::READABLE),
        ]);
        stage.wait();
        stage.step();
        stage.ev.close_listeners().unwrap();
        assert!(!stage.script.holds_lock());
        let rest = stage.rest();
        assert!(rest.is_empty() || rest == [readable(token)], "{rest:?}");
        assert_eq!(stage.turn(), []);
    }
}

#[test]
fn tokens_keep_their_names_when_the_listeners_are_closed() {
    let mut stage = Stage::listening(2);
    let before = stage.join();
    stage.turn();
    stage.ev.close_listeners().unwrap();
    let after = stage.join();
    stage.report_readable(&[before, after]);
    assert_eq!(stage.turn(), [readable(before), readable(after)]);
}

#[test]
fn a_client_that_nobody_waits_for_any_more_is_no_step() {
    let mut stage = Stage::listening(1);
    stage.report_listeners(&[0]);
    assert_eq!(stage.turn(), []);
    stage.script.record();
    assert_eq!(stage.turn(), []);
    assert_eq!(stage.script.timeouts(), [None]);
}

#[test]
fn a_crowded_worker_gives_way_and_does_not_ask_for_the_lock() {
    let mut stage = Stage::built(1, |builder, script| {
        builder
            .connections(16)
            .policy(Policy::mutex())
            .group(script.clone())
    });
    stage.turn();
    let tokens = [(); 15].map(|()| stage.join());
    stage.script.record();
    stage.turn();
    let fd = stage.listener_fd(0);
    let delay = Some(Policy::DEFAULT_DELAY);
    assert_eq!(stage.script.record(), [Did::Remove(fd), Did::Wait(delay)]);

    stage.leave(tokens[0]);
    stage.turn();
    assert!(stage.ev.status().listening, "an eighth is free");
}

#[test]
fn what_is_accepted_can_be_served() {
    let mut stage = Stage::listening(1);
    stage.connect(0, 1);
    stage.report_listeners(&[0]);
    stage.turn();
    let stream = &stage.accepted[0].stream;
    assert_eq!(stream.send(b"hello").unwrap(), 5);
}

#[test]
fn a_loop_listens_from_its_first_wait_on() {
    let mut stage = Stage::listening(1);
    assert!(!stage.ev.status().listening);
    stage.wait();
    assert!(stage.ev.status().listening);
}
