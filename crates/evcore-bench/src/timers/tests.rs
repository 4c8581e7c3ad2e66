//! That each peer does the work that it is measured by.

use super::armed;
use super::peers::{Peer, peers};
use super::script::{Script, Step};

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
        // The C ones ask for the real time, in which nothing is due yet.
        let waits = peer.version.is_some();
        let expected = if waits { 0 } else { script.ids() };
        assert_eq!(fired, expected, "{}", peer.name);
    }
}

#[test]
fn each_call_of_an_expiry_is_timed() {
    let script = Script::new(1_000, 5_000);
    for peer in queues().filter(|peer| peer.version.is_none()) {
        let calls = armed(&peer, &script, true).expire_call_by_call();
        assert!(calls.len() > script.arm.len(), "{}", peer.name);
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
