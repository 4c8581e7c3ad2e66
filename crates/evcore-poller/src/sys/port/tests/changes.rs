//! What each change costs, and what becomes of it.

use super::*;

#[test]
fn a_wait_is_one_call_and_one_for_each_that_reported_before() {
    let mut stage = Stage::new();
    stage.add(A, 1, Interest::READ, Mode::Level);
    stage.add(B, 2, Interest::READ, Mode::Level);
    stage.set(A, IN);
    assert_eq!(
        stage.calls(),
        [Associate(A, IN), Associate(B, IN)],
        "added at once"
    );
    stage.wait();
    assert_eq!(stage.calls(), [Getn(8, NOW)]);
    stage.set(A, 0);
    stage.wait();
    assert_eq!(stage.calls(), [Associate(A, IN), Getn(8, NOW)]);
    stage.wait();
    assert_eq!(stage.calls(), [Getn(8, NOW)]);
}

#[test]
fn a_change_that_is_taken_back_costs_no_call() {
    let mut stage = Stage::new();
    stage.add(A, 1, Interest::READ, Mode::Level);
    stage.calls();
    stage.modify(1, Interest::BOTH);
    stage.modify(1, Interest::READ);
    stage.wait();
    assert_eq!(stage.calls(), [Getn(8, NOW)]);
}

#[test]
fn a_change_costs_one_call_whether_it_has_just_reported_or_not() {
    for ready in [0, IN] {
        let mut stage = Stage::new();
        stage.add(A, 1, Interest::READ, Mode::Level);
        stage.set(A, ready);
        stage.wait();
        stage.calls();
        stage.modify(1, Interest::WRITE);
        stage.wait();
        assert_eq!(stage.calls(), [Associate(A, OUT), Getn(8, NOW)]);
    }
}

#[test]
fn what_has_just_reported_is_removed_without_a_call() {
    let mut stage = Stage::new();
    stage.add(A, 1, Interest::READ, Mode::Level);
    stage.set(A, IN);
    stage.wait();
    stage.calls();
    stage.remove(1);
    assert_eq!(stage.wait(), []);
    assert_eq!(stage.calls(), [Getn(8, NOW)]);
}

#[test]
fn a_one_shot_that_has_reported_costs_no_call() {
    let mut stage = Stage::new();
    stage.add(A, 1, Interest::READ, Mode::Oneshot);
    stage.set(A, IN);
    stage.wait();
    stage.calls();
    stage.wait();
    assert_eq!(stage.calls(), [Getn(8, NOW)]);
}

#[test]
fn an_edge_that_nobody_answers_costs_one_call_for_its_ends() {
    let mut stage = Stage::new();
    stage.add(A, 1, Interest::READ, Mode::Edge);
    stage.set(A, IN);
    stage.wait();
    stage.calls();
    stage.wait();
    assert_eq!(stage.calls(), [Associate(A, 0), Getn(8, NOW)]);
    stage.wait();
    assert_eq!(stage.calls(), [Getn(8, NOW)]);
}

#[test]
fn an_edge_that_is_rearmed_in_time_costs_one_call() {
    let mut stage = Stage::new();
    stage.add(A, 1, Interest::READ, Mode::Edge);
    stage.set(A, IN);
    stage.wait();
    stage.calls();
    stage.poller.rearm(1, Interest::READ).expect("registered");
    stage.wait();
    assert_eq!(stage.calls(), [Associate(A, IN), Getn(8, NOW)]);
}

#[test]
fn nothing_and_back() {
    let mut stage = Stage::new();
    stage.set(A, IN);
    stage.add(A, 1, Interest::READ, Mode::Level);
    for _ in 0..3 {
        assert_eq!(stage.wait(), [(1, Ready::READABLE)]);
        stage.modify(1, Interest::NONE);
        assert_eq!(stage.wait(), []);
        stage.modify(1, Interest::READ);
    }
}

#[test]
fn what_is_removed_takes_its_queued_event_with_it() {
    let mut stage = Stage::new();
    stage.add(A, 1, Interest::READ, Mode::Level);
    stage.set(A, IN);
    stage.remove(1);
    assert_eq!(stage.wait(), []);
    assert_eq!(
        stage.calls(),
        [Associate(A, IN), Dissociate(A), Getn(8, NOW)]
    );
}

#[test]
fn a_changed_interest_drops_what_was_queued_for_the_old_one() {
    let mut stage = Stage::new();
    stage.add(A, 1, Interest::READ, Mode::Level);
    stage.set(A, IN);
    stage.modify(1, Interest::WRITE);
    assert_eq!(stage.wait(), []);
    stage.set(A, IN | OUT);
    assert_eq!(stage.wait(), [(1, Ready::WRITABLE)]);
}

#[test]
fn what_is_removed_inside_a_batch_is_not_told_again() {
    let mut stage = Stage::new();
    for (fd, key) in [(A, 1), (B, 2)] {
        stage.add(fd, key, Interest::READ, Mode::Level);
        stage.set(fd, IN);
    }
    assert_eq!(stage.wait().len(), 2);
    stage.remove(2);
    assert_eq!(stage.wait(), [(1, Ready::READABLE)]);
}

#[test]
fn a_descriptor_has_one_key() {
    let mut stage = Stage::new();
    stage.add(A, 1, Interest::READ, Mode::Level);
    let second = stage.try_add(A, 2, Interest::WRITE, Mode::Level);
    assert!(matches!(second, Err(Error::AlreadyWatched { fd: A })));
    stage.set(A, IN | OUT);
    assert_eq!(stage.wait(), [(1, Ready::READABLE)]);
}

#[test]
fn what_is_refused_is_not_registered() {
    let mut stage = Stage::new();
    stage.kernel.port().refuses.push(A);
    let refused = stage.try_add(A, 1, Interest::READ, Mode::Level);
    assert!(matches!(refused, Err(Error::Os { .. })));
    stage.kernel.port().refuses.clear();
    stage.add(A, 1, Interest::READ, Mode::Level);
}

#[test]
fn one_refusal_of_a_batch_is_told_and_loses_no_other() {
    let mut stage = Stage::new();
    for (fd, key) in [(A, 1), (B, 2)] {
        stage.add(fd, key, Interest::READ, Mode::Level);
        stage.set(fd, IN);
    }
    assert_eq!(stage.wait().len(), 2);
    stage.kernel.port().refuses.push(A);
    let told = [(1, Ready::ERROR | Ready::READABLE), (2, Ready::READABLE)];
    assert_eq!(stage.wait(), told);
    assert_eq!(stage.wait(), [(2, Ready::READABLE)], "told once");
    stage.kernel.port().refuses.clear();
    stage.modify(1, Interest::BOTH);
    assert_eq!(stage.wait(), [(1, Ready::READABLE), (2, Ready::READABLE)]);
}

#[test]
fn a_refused_change_is_an_error_event() {
    let mut stage = Stage::new();
    stage.add(A, 1, Interest::READ, Mode::Level);
    stage.kernel.port().refuses.push(A);
    stage.modify(1, Interest::WRITE);
    assert_eq!(stage.wait(), [(1, Ready::ERROR | Ready::WRITABLE)]);
    assert_eq!(stage.wait(), []);
}

#[test]
fn refused_changes_do_not_starve_what_is_ready() {
    let mut stage = Stage::with_room(1);
    for (fd, key) in [(A, 1), (B, 2)] {
        stage.add(fd, key, Interest::READ, Mode::Level);
    }
    stage.set(B, IN);
    stage.kernel.port().refuses.push(A);
    for _ in 0..10 {
        let keys = [(); 2].map(|()| {
            stage.modify(1, Interest::WRITE);
            stage.wait()[0].0
        });
        assert_eq!(keys, [1, 2]);
    }
}
