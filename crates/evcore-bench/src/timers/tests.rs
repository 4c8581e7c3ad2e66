//! Tests that each peer does the work that is measured.

use super::peers::peers;
use super::script::Script;
use super::{armed, longest_us};
use crate::foreign::installed;

#[test]
fn each_timer_that_is_due_fires_once() {
    let script = Script::new(1_000, 5_000);
    for peer in peers().iter().filter(|peer| !peer.is_loop()) {
        let mut queue = armed(peer, &script, true);
        assert_eq!(queue.expire(), script.arm.len(), "{}", peer.name);
        assert_eq!(queue.expire(), 0, "{}", peer.name);
    }
}

#[test]
fn a_timer_that_was_re_armed_and_replaced_fires_once() {
    let script = Script::new(1_000, 5_000);
    for peer in peers().iter().filter(|peer| !peer.is_loop()) {
        let mut queue = armed(peer, &script, false);
        queue.arm(&script.spare);
        queue.arm(&script.rearm);
        queue.replace(&script.replace);
        // No queue in C skips to the next deadline by itself.
        let is_in_c = installed().iter().any(|(name, _)| *name == peer.name);
        let expected = if is_in_c { 0 } else { script.ids() };
        assert_eq!(queue.expire(), expected, "{}", peer.name);
    }
}

#[test]
fn a_call_counts_with_its_least_time() {
    let mut runs = [[7, 90, 5], [80, 9, 6], [8, 9, 70]].into_iter();
    let longest = longest_us(|| runs.next().map(Vec::from).unwrap());
    assert_eq!(longest, Some(0.009));
}
