//! FdSet that are closed, with their registrations or without.

use super::*;

#[test]
fn a_number_that_is_not_open_is_refused() {
    let mut fixture = Fixture::new();
    let refused = fixture.try_add(B + 1, 1, Interest::READ, Mode::Level);
    assert!(matches!(refused, Err(Error::NotOpen { .. })), "{refused:?}");
    assert_eq!(fixture.wait(), []);
}

#[test]
fn closed_when_it_has_just_reported_is_one_error_event() {
    let mut fixture = Fixture::new();
    for (fd, key) in [(A, 1), (B, 2)] {
        fixture.add(fd, key, Interest::READ, Mode::Level);
        fixture.set(fd, IN);
    }
    assert_eq!(fixture.wait().len(), 2);
    fixture.close(A);
    let told = [(1, Ready::ERROR | Ready::READABLE), (2, Ready::READABLE)];
    assert_eq!(fixture.wait(), told);
    assert_eq!(fixture.wait(), [(2, Ready::READABLE)], "told once");
    fixture.remove(1);
}

#[test]
fn what_was_lost_is_told_without_waiting() {
    let mut fixture = Fixture::new();
    fixture.add(A, 1, Interest::READ, Mode::Level);
    fixture.set(A, IN);
    fixture.wait();
    fixture.close(A);
    let told = fixture.try_wait(None).expect("a wait");
    assert_eq!(told, [(1, Ready::ERROR | Ready::READABLE)]);
}

#[test]
fn what_is_watched_again_before_its_loss_was_told_is_not_lost() {
    let mut fixture = Fixture::new();
    for (fd, key) in [(A, 1), (B, 2)] {
        fixture.add(fd, key, Interest::READ, Mode::Level);
        fixture.set(fd, IN);
    }
    assert_eq!(fixture.wait().len(), 2);
    fixture.kernel.port().refuses.extend([A, B]);
    fixture.events = Events::with_capacity(1);
    let told = fixture.wait()[0].0;
    fixture.kernel.port().refuses.clear();
    let other = 3 - told;
    fixture.modify(other, Interest::BOTH);
    assert_eq!(fixture.wait(), [(other, Ready::READABLE)]);
}

#[test]
fn closed_while_it_waits_is_silent() {
    let mut fixture = Fixture::new();
    fixture.add(A, 1, Interest::READ, Mode::Level);
    fixture.set(A, IN);
    fixture.close(A);
    assert_eq!(fixture.wait(), []);
    let removed = fixture.poller.remove(1);
    assert!(matches!(removed, Err(Error::NotOpen { fd: A })));
}

#[test]
fn removed_after_its_number_went_to_another_file_is_no_error() {
    let mut fixture = Fixture::new();
    fixture.add(A, 1, Interest::READ, Mode::Level);
    fixture.close(A);
    fixture.open(A);
    fixture.set(A, IN);
    assert_eq!(fixture.wait(), [], "nothing of the new file");
    fixture.remove(1);
}

#[test]
fn a_number_reused_inside_a_batch_reports_under_its_new_key() {
    let (old, new) = ((1 << 32) | 3, (2 << 32) | 3);
    let mut fixture = Fixture::new();
    fixture.add(A, old, Interest::READ, Mode::Level);
    fixture.set(A, IN);
    assert_eq!(fixture.wait(), [(old, Ready::READABLE)]);
    fixture.remove(old);
    fixture.close(A);
    fixture.open(A);
    fixture.add(A, new, Interest::WRITE, Mode::Level);
    assert_eq!(fixture.wait(), []);
    fixture.set(A, IN | OUT);
    assert_eq!(fixture.wait(), [(new, Ready::WRITABLE)]);
}

#[test]
fn forget_costs_no_call() {
    let mut fixture = Fixture::new();
    fixture.add(A, 1, Interest::READ, Mode::Level);
    fixture.calls();
    fixture.poller.remove_before_close(1).expect("registered");
    fixture.close(A);
    assert_eq!(fixture.calls(), []);
    fixture.open(A);
    fixture.add(A, 1, Interest::READ, Mode::Level);
    fixture.set(A, IN);
    assert_eq!(fixture.wait(), [(1, Ready::READABLE)]);
}

#[test]
fn forgotten_but_not_closed_ends_no_wait() {
    let mut fixture = Fixture::with_room(1);
    fixture.add(A, 1, Interest::READ, Mode::Level);
    fixture.add(B, 2, Interest::READ, Mode::Level);
    fixture.set(A, IN);
    fixture.set(B, IN);
    fixture.poller.remove_before_close(1).expect("registered");
    let told = fixture.try_wait(None).expect("a wait");
    assert_eq!(told, [(2, Ready::READABLE)], "the stray is passed over");
}

#[test]
fn more_lost_than_there_is_room_for_are_told_one_by_one() {
    let mut fixture = Fixture::new();
    let fds = (B + 1)..(B + 5);
    for (fd, key) in fds.clone().zip(0..) {
        fixture.open(fd);
        fixture.add(fd, key, Interest::READ, Mode::Level);
        fixture.set(fd, IN);
    }
    assert_eq!(fixture.wait().len(), 4);
    fds.for_each(|fd| fixture.close(fd));
    fixture.events = Events::with_capacity(1);
    let mut keys: Vec<_> = (0..2).map(|_| fixture.wait()[0].0).collect();
    let gone = (0..4)
        .find(|key| !keys.contains(key))
        .expect("two are left");
    fixture.remove(gone);
    keys.extend(fixture.wait().iter().map(|event| event.0));
    keys.push(gone);
    keys.sort_unstable();
    assert_eq!(keys, [0, 1, 2, 3]);
    assert_eq!(fixture.wait(), []);
}
