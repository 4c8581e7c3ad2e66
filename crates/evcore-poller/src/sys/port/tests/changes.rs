//! The cost and the effect of each change.

use super::*;

#[test]
fn a_wait_is_one_call_plus_one_per_earlier_report() {
    let mut fixture = Fixture::new();
    fixture.add(A, 1, Interest::READ, Mode::Level);
    fixture.add(B, 2, Interest::READ, Mode::Level);
    fixture.set(A, IN);
    assert_eq!(
        fixture.calls(),
        [Associate(A, IN), Associate(B, IN)],
        "added at once"
    );
    fixture.wait();
    assert_eq!(fixture.calls(), [Getn(8, NOW)]);
    fixture.set(A, 0);
    fixture.wait();
    assert_eq!(fixture.calls(), [Associate(A, IN), Getn(8, NOW)]);
    fixture.wait();
    assert_eq!(fixture.calls(), [Getn(8, NOW)]);
}

#[test]
fn a_change_that_is_taken_back_costs_no_call() {
    let mut fixture = Fixture::new();
    fixture.add(A, 1, Interest::READ, Mode::Level);
    fixture.calls();
    fixture.modify(1, Interest::BOTH);
    fixture.modify(1, Interest::READ);
    fixture.wait();
    assert_eq!(fixture.calls(), [Getn(8, NOW)]);
}

#[test]
fn a_change_costs_one_call_also_after_a_report() {
    for ready in [0, IN] {
        let mut fixture = Fixture::new();
        fixture.add(A, 1, Interest::READ, Mode::Level);
        fixture.set(A, ready);
        fixture.wait();
        fixture.calls();
        fixture.modify(1, Interest::WRITE);
        fixture.wait();
        assert_eq!(fixture.calls(), [Associate(A, OUT), Getn(8, NOW)]);
    }
}

#[test]
fn removal_after_a_report_costs_no_call() {
    let mut fixture = Fixture::new();
    fixture.add(A, 1, Interest::READ, Mode::Level);
    fixture.set(A, IN);
    fixture.wait();
    fixture.calls();
    fixture.remove(1);
    assert_eq!(fixture.wait(), []);
    assert_eq!(fixture.calls(), [Getn(8, NOW)]);
}

#[test]
fn a_fired_one_shot_costs_no_call() {
    let mut fixture = Fixture::new();
    fixture.add(A, 1, Interest::READ, Mode::Oneshot);
    fixture.set(A, IN);
    fixture.wait();
    fixture.calls();
    fixture.wait();
    assert_eq!(fixture.calls(), [Getn(8, NOW)]);
}

#[test]
fn an_unanswered_edge_costs_one_call_for_its_ends() {
    let mut fixture = Fixture::new();
    fixture.add(A, 1, Interest::READ, Mode::Edge);
    fixture.set(A, IN);
    fixture.wait();
    fixture.calls();
    fixture.wait();
    assert_eq!(fixture.calls(), [Associate(A, 0), Getn(8, NOW)]);
    fixture.wait();
    assert_eq!(fixture.calls(), [Getn(8, NOW)]);
}

#[test]
fn an_edge_that_is_rearmed_in_time_costs_one_call() {
    let mut fixture = Fixture::new();
    fixture.add(A, 1, Interest::READ, Mode::Edge);
    fixture.set(A, IN);
    fixture.wait();
    fixture.calls();
    fixture.poller.rearm(1, Interest::READ).expect("registered");
    fixture.wait();
    assert_eq!(fixture.calls(), [Associate(A, IN), Getn(8, NOW)]);
}

#[test]
fn an_empty_interest_and_back() {
    let mut fixture = Fixture::new();
    fixture.set(A, IN);
    fixture.add(A, 1, Interest::READ, Mode::Level);
    for _ in 0..3 {
        assert_eq!(fixture.wait(), [(1, Ready::READABLE)]);
        fixture.modify(1, Interest::NONE);
        assert_eq!(fixture.wait(), []);
        fixture.modify(1, Interest::READ);
    }
}

#[test]
fn removal_drops_the_queued_event() {
    let mut fixture = Fixture::new();
    fixture.add(A, 1, Interest::READ, Mode::Level);
    fixture.set(A, IN);
    fixture.remove(1);
    assert_eq!(fixture.wait(), []);
    assert_eq!(
        fixture.calls(),
        [Associate(A, IN), Dissociate(A), Getn(8, NOW)]
    );
}

#[test]
fn a_changed_interest_drops_the_queued_event() {
    let mut fixture = Fixture::new();
    fixture.add(A, 1, Interest::READ, Mode::Level);
    fixture.set(A, IN);
    fixture.modify(1, Interest::WRITE);
    assert_eq!(fixture.wait(), []);
    fixture.set(A, IN | OUT);
    assert_eq!(fixture.wait(), [(1, Ready::WRITABLE)]);
}

#[test]
fn a_key_removed_inside_a_batch_is_not_reported_again() {
    let mut fixture = Fixture::new();
    for (fd, key) in [(A, 1), (B, 2)] {
        fixture.add(fd, key, Interest::READ, Mode::Level);
        fixture.set(fd, IN);
    }
    assert_eq!(fixture.wait().len(), 2);
    fixture.remove(2);
    assert_eq!(fixture.wait(), [(1, Ready::READABLE)]);
}

#[test]
fn a_descriptor_has_one_key() {
    let mut fixture = Fixture::new();
    fixture.add(A, 1, Interest::READ, Mode::Level);
    let second = fixture.try_add(A, 2, Interest::WRITE, Mode::Level);
    assert!(matches!(second, Err(Error::AlreadyWatched { fd: A })));
    fixture.set(A, IN | OUT);
    assert_eq!(fixture.wait(), [(1, Ready::READABLE)]);
}

#[test]
fn a_refused_addition_is_not_registered() {
    let mut fixture = Fixture::new();
    fixture.kernel.port().refuses.push(A);
    let refused = fixture.try_add(A, 1, Interest::READ, Mode::Level);
    assert!(matches!(refused, Err(Error::Os { .. })));
    fixture.kernel.port().refuses.clear();
    fixture.add(A, 1, Interest::READ, Mode::Level);
}

#[test]
fn one_refusal_loses_no_other_change() {
    let mut fixture = Fixture::new();
    for (fd, key) in [(A, 1), (B, 2)] {
        fixture.add(fd, key, Interest::READ, Mode::Level);
        fixture.set(fd, IN);
    }
    assert_eq!(fixture.wait().len(), 2);
    fixture.kernel.port().refuses.push(A);
    let reported = [(1, Ready::ERROR | Ready::READABLE), (2, Ready::READABLE)];
    assert_eq!(fixture.wait(), reported);
    assert_eq!(fixture.wait(), [(2, Ready::READABLE)], "reported once");
    fixture.kernel.port().refuses.clear();
    fixture.modify(1, Interest::BOTH);
    assert_eq!(fixture.wait(), [(1, Ready::READABLE), (2, Ready::READABLE)]);
}

#[test]
fn a_refused_change_is_an_error_event() {
    let mut fixture = Fixture::new();
    fixture.add(A, 1, Interest::READ, Mode::Level);
    fixture.kernel.port().refuses.push(A);
    fixture.modify(1, Interest::WRITE);
    assert_eq!(fixture.wait(), [(1, Ready::ERROR | Ready::WRITABLE)]);
    assert_eq!(fixture.wait(), []);
}

#[test]
fn refused_changes_do_not_starve_ready_descriptors() {
    let mut fixture = Fixture::with_room(1);
    for (fd, key) in [(A, 1), (B, 2)] {
        fixture.add(fd, key, Interest::READ, Mode::Level);
    }
    fixture.set(B, IN);
    fixture.kernel.port().refuses.push(A);
    for _ in 0..10 {
        let keys = [(); 2].map(|()| {
            fixture.modify(1, Interest::WRITE);
            fixture.wait()[0].0
        });
        assert_eq!(keys, [1, 2]);
    }
}
