//! The entries that each change writes, and its effect.

use super::*;

#[test]
fn all_changes_of_a_turn_are_one_write() {
    let mut fixture = Fixture::new();
    fixture.add(A, 1, Interest::READ, Mode::Level);
    fixture.add(B, 2, Interest::BOTH, Mode::Level);
    assert_eq!(fixture.calls(), [], "they go with the wait");
    fixture.wait();
    let written = Write(vec![(A, IN), (B, IN | OUT)]);
    assert_eq!(fixture.calls(), [written, Poll(3, 0)]);
    fixture.remove(2);
    fixture.modify(1, Interest::WRITE);
    fixture.wait();
    let written = Write(vec![(B, REMOVE), (A, REMOVE), (A, OUT)]);
    assert_eq!(fixture.calls(), [written, Poll(2, 0)]);
}

#[test]
fn a_wait_without_changes_is_one_call() {
    let mut fixture = Fixture::new();
    fixture.add(A, 1, Interest::READ, Mode::Level);
    fixture.set(A, IN);
    fixture.wait();
    fixture.calls();
    for _ in 0..3 {
        fixture.wait();
        assert_eq!(fixture.calls(), [Poll(2, 0)]);
    }
}

#[test]
fn a_change_that_is_taken_back_costs_no_call() {
    let mut fixture = Fixture::new();
    fixture.add(A, 1, Interest::READ, Mode::Level);
    fixture.wait();
    fixture.calls();
    fixture.modify(1, Interest::BOTH);
    fixture.modify(1, Interest::READ);
    fixture.wait();
    assert_eq!(fixture.calls(), [Poll(2, 0)]);
}

#[test]
fn a_registration_that_is_taken_back_costs_no_call() {
    let mut fixture = Fixture::new();
    fixture.add(A, 1, Interest::READ, Mode::Level);
    fixture.remove(1);
    fixture.set(A, IN);
    assert_eq!(fixture.wait(), []);
    assert_eq!(fixture.calls(), [Poll(1, 0)]);
}

#[test]
fn many_changes_take_several_writes() {
    let mut fixture = Fixture::with_room(300);
    fixture.kernel.device().limit = Some(256);
    let fds: Vec<_> = (B + 1..).take(200).collect();
    for (fd, key) in fds.iter().zip(0..) {
        fixture.open(*fd);
        fixture.add(*fd, key, Interest::READ, Mode::Level);
        fixture.set(*fd, IN);
    }
    assert_eq!(fixture.wait().len(), 200);
    for key in 0..200 {
        fixture.modify(key, Interest::BOTH);
    }
    assert_eq!(fixture.wait().len(), 200);
    let expected: Vec<_> = fds.iter().map(|fd| (*fd, IN | OUT)).collect();
    assert_eq!(fixture.entries(), expected);
    let written = fixture.calls().into_iter().map(|call| match call {
        Write(changes) => changes.len(),
        Poll(..) => 0,
    });
    assert_eq!(written.sum::<usize>(), 200 + 2 * 200);
}

#[test]
fn a_fired_one_shot_has_no_entry() {
    let mut fixture = Fixture::new();
    fixture.add(A, 1, Interest::READ, Mode::Oneshot);
    fixture.set(A, IN);
    fixture.wait();
    fixture.calls();
    fixture.wait();
    assert_eq!(fixture.calls(), [Write(vec![(A, REMOVE)]), Poll(1, 0)]);
    fixture.modify(1, Interest::READ);
    fixture.wait();
    assert_eq!(fixture.calls(), [Write(vec![(A, IN)]), Poll(2, 0)]);
}

#[test]
fn an_unanswered_edge_is_watched_for_its_ends() {
    let mut fixture = Fixture::new();
    fixture.add(A, 1, Interest::READ, Mode::Edge);
    fixture.set(A, IN);
    fixture.wait();
    fixture.calls();
    fixture.wait();
    let written = Write(vec![(A, REMOVE), (A, 0)]);
    assert_eq!(fixture.calls(), [written, Poll(2, 0)]);
    fixture.wait();
    assert_eq!(fixture.calls(), [Poll(2, 0)]);
}

#[test]
fn an_edge_that_is_rearmed_in_time_costs_no_call() {
    let mut fixture = Fixture::new();
    fixture.add(A, 1, Interest::READ, Mode::Edge);
    fixture.set(A, IN);
    fixture.wait();
    fixture.calls();
    fixture.rearm(1, Interest::READ);
    assert_eq!(fixture.wait(), [(1, Ready::READABLE)]);
    assert_eq!(fixture.calls(), [Poll(2, 0)]);
}

#[test]
fn an_empty_interest_and_back() {
    let mut fixture = Fixture::new();
    fixture.set(A, IN | HUP);
    fixture.add(A, 1, Interest::NONE, Mode::Level);
    for _ in 0..3 {
        assert_eq!(fixture.wait(), []);
        assert_eq!(fixture.entries(), []);
        fixture.modify(1, Interest::READ);
        let reported = Ready::READABLE | Ready::WRITE_CLOSED;
        assert_eq!(fixture.wait(), [(1, reported)]);
        fixture.modify(1, Interest::NONE);
    }
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

/// Elsewhere the waker has two descriptors, and this one is not watched.
#[cfg(any(target_os = "linux", target_os = "android"))]
#[test]
fn the_wakers_entry_is_not_replaced() {
    let mut fixture = Fixture::new();
    let waker = fixture.poller.waker();
    let fd = waker.descriptor().expect("a channel has one");
    let refused = fixture.poller.add(&fd, 1, Interest::READ, Mode::Level);
    assert!(matches!(refused, Err(Error::AlreadyWatched { .. })));
    let added = fixture.poller.add(&fd, 1, Interest::NONE, Mode::Level);
    added.expect("nothing is watched yet");
    fixture.modify(1, Interest::READ);
    assert_eq!(fixture.wait(), [(1, GONE)]);
    fixture.remove(1);
    waker.wake();
    assert_eq!(fixture.try_wait(None).expect("a wait"), []);
    assert!(fixture.events.was_woken());
}

#[test]
fn a_refused_registration_is_one_error_event() {
    let mut fixture = Fixture::new();
    fixture.kernel.device().refuses.push(A);
    for (fd, key) in [(A, 1), (B, 2)] {
        fixture.add(fd, key, Interest::READ, Mode::Level);
        fixture.set(fd, IN);
    }
    assert_eq!(fixture.wait(), [(1, GONE), (2, Ready::READABLE)]);
    assert_eq!(fixture.wait(), [(2, Ready::READABLE)], "reported once");
    assert_eq!(fixture.entries(), [(B, IN)]);
    fixture.kernel.device().refuses.clear();
    fixture.modify(1, Interest::READ);
    assert_eq!(fixture.wait(), [(1, Ready::READABLE), (2, Ready::READABLE)]);
}

#[test]
fn a_refused_change_is_an_error_event_and_removed() {
    let mut fixture = Fixture::new();
    fixture.add(A, 1, Interest::READ, Mode::Level);
    fixture.wait();
    fixture.kernel.device().refuses.push(A);
    fixture.modify(1, Interest::WRITE);
    let reported = Ready::ERROR | Ready::WRITABLE;
    assert_eq!(fixture.wait(), [(1, reported)]);
    assert_eq!(fixture.wait(), []);
    assert_eq!(fixture.entries(), []);
    fixture.remove(1);
}

#[test]
fn what_a_failed_write_leaves_is_removed() {
    let mut fixture = Fixture::new();
    fixture.add(A, 1, Interest::READ, Mode::Level);
    fixture.wait();
    fixture.kernel.device().failing_writes = 2; // all changes, and then the one
    fixture.modify(1, Interest::BOTH);
    let reported = Ready::ERROR | Ready::READABLE | Ready::WRITABLE;
    assert_eq!(fixture.wait(), [(1, reported)]);
    assert_eq!(fixture.entries(), [(A, IN)], "it is still there");
    fixture.set(A, IN);
    assert_eq!(fixture.try_wait(Some(SECOND)).expect("a wait"), []);
    assert_eq!(fixture.entries(), []);
}

#[test]
fn a_removal_that_fails_is_an_error_of_the_wait() {
    let mut fixture = Fixture::new();
    fixture.add(A, 1, Interest::READ, Mode::Level);
    fixture.wait();
    fixture.kernel.device().failing_writes = 2;
    fixture.remove(1);
    assert!(matches!(fixture.try_wait(NOW), Err(Error::Os { .. })));
    assert_eq!(fixture.wait(), [], "the next wait writes it");
    assert_eq!(fixture.entries(), []);
}

#[test]
fn a_refusal_that_is_changed_again_is_not_reported() {
    let mut fixture = Fixture::with_room(1);
    fixture.kernel.device().refuses.extend([A, B]);
    fixture.add(A, 1, Interest::READ, Mode::Level);
    fixture.add(B, 2, Interest::READ, Mode::Level);
    let first = fixture.wait()[0].0;
    fixture.kernel.device().refuses.clear();
    let other = 3 - first;
    fixture.modify(other, Interest::WRITE);
    assert_eq!(fixture.wait(), []);
    fixture.remove(other);
}

#[test]
fn a_removed_refusal_is_not_reported() {
    let mut fixture = Fixture::with_room(1);
    fixture.kernel.device().refuses.extend([A, B]);
    fixture.add(A, 1, Interest::READ, Mode::Level);
    fixture.add(B, 2, Interest::READ, Mode::Level);
    let first = fixture.wait()[0].0;
    fixture.remove(3 - first);
    assert_eq!(fixture.wait(), []);
}

#[test]
fn refusals_do_not_starve_ready_descriptors() {
    let mut fixture = Fixture::with_room(1);
    for (fd, key) in [(A, 1), (B, 2)] {
        fixture.add(fd, key, Interest::READ, Mode::Level);
    }
    fixture.wait();
    fixture.set(B, IN);
    fixture.kernel.device().refuses.push(A);
    for _ in 0..10 {
        let mut keys = [(); 2].map(|()| {
            fixture.modify(1, Interest::WRITE);
            fixture.wait()[0].0
        });
        keys.sort_unstable();
        assert_eq!(keys, [1, 2]);
    }
}
