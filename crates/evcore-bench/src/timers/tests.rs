//! That each peer does the work that it is measured by.

use super::peers::{Peer, peers};
use super::queue::Calls;
use super::script::{Script, Step};
use super::{armed, longest_call};
use crate::foreign::installed;

fn is_in_c(peer: &Peer) -> bool {
    installed().iter().any(|(name, _)| *name == peer.name)
}

fn queues() -> impl Iterator<Item = Peer> {
    peers().into_iter().filter(|peer| !peer.is_loop())
}

#[test]
fn each_timer_that_is_due_fires_once() {
    let script = Script::new(1_000, 5_000);
    for peer in queues() {
        let mut queue = armed(&peer, &script, true);
        assert_eq!(queue.expire(), script.arm.len(), "{}", peer.name);
        assert_eq!(queue.expire(), 0, "{}", peer.name);
    }
}

#[test]
fn what_was_re_armed_and_replaced_fires_once() {
    let script = Script::new(1_000, 5_000);
    for peer in queues() {
        let mut queue = armed(&peer, &script, false);
        queue.arm(&script.spare);
        queue.arm(&script.rearm);
        queue.replace(&script.replace);
        let fired = queue.expire();
        // No queue in C skips to the next deadline by itself.
        let expected = if is_in_c(&peer) { 0 } else { script.ids() };
        assert_eq!(fired, expected, "{}", peer.name);
    }
}

#[test]
fn the_longest_call_is_of_queues_in_rust() {
    let script = Script::new(1_000, 5_000);
    for peer in queues() {
        let expiry = longest_call(|calls| armed(&peer, &script, true).time_expiry(calls));
        assert_eq!(expiry.is_none(), is_in_c(&peer), "{}", peer.name);
        let past = longest_call(|calls| {
            (peer.create)(script.ids(), false).time_past_deadlines(&script.arm, calls)
        });
        let takes_past = !is_in_c(&peer) && !["DelayQueue", "hash wheel"].contains(&peer.name);
        assert_eq!(past.is_some(), takes_past, "{}", peer.name);
    }
}

#[test]
fn a_script_stays_within_its_ids_and_its_time() {
    let script = Script::new(1_000, 5_000);
    let within = |step: &Step| (step.id as usize) < script.ids() && step.deadline > 0;
    for steps in [&script.arm, &script.rearm, &script.replace, &script.serve] {
        assert!(steps.iter().all(within));
    }
    assert!(script.serve.iter().is_sorted_by_key(|step| step.deadline));
}

#[test]
fn a_call_counts_with_its_least_time() {
    let mut calls = Calls::default();
    for times_ns in [[7, 90, 5], [80, 9, 6], [8, 9, 70]] {
        calls.begin_run();
        for ns in times_ns {
            calls.note(ns);
        }
    }
    assert_eq!(calls.longest_ns(), 9);
}
