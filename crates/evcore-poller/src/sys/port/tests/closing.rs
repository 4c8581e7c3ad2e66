//! Descriptors that are closed, with their registrations or without.

use super::*;

#[test]
fn a_number_that_is_not_open_is_refused() {
    let mut stage = Stage::new();
    let refused = stage.try_add(B + 1, 1, Interest::READ, Mode::Level);
    assert!(matches!(refused, Err(Error::NotOpen { .. })), "{refused:?}");
    assert_eq!(stage.wait(), []);
}

#[test]
fn closed_when_it_has_just_reported_is_one_error_event() {
    let mut stage = Stage::new();
    for (fd, key) in [(A, 1), (B, 2)] {
        stage.add(fd, key, Interest::READ, Mode::Level);
        stage.set(fd, IN);
    }
    assert_eq!(stage.wait().len(), 2);
    stage.close(A);
    let told = [(1, Ready::ERROR | Ready::READABLE), (2, Ready::READABLE)];
    assert_eq!(stage.wait(), told);
    assert_eq!(stage.wait(), [(2, Ready::READABLE)], "told once");
    stage.remove(1);
}

#[test]
fn what_was_lost_is_told_without_waiting() {
    let mut stage = Stage::new();
    stage.add(A, 1, Interest::READ, Mode::Level);
    stage.set(A, IN);
    stage.wait();
    stage.close(A);
    let told = stage.try_wait(None).expect("a wait");
    assert_eq!(told, [(1, Ready::ERROR | Ready::READABLE)]);
}

#[test]
fn what_is_watched_again_before_its_loss_was_told_is_not_lost() {
    let mut stage = Stage::new();
    for (fd, key) in [(A, 1), (B, 2)] {
        stage.add(fd, key, Interest::READ, Mode::Level);
        stage.set(fd, IN);
    }
    assert_eq!(stage.wait().len(), 2);
    stage.kernel.port().refuses.extend([A, B]);
    stage.events = Events::with_capacity(1);
    let told = stage.wait()[0].0;
    stage.kernel.port().refuses.clear();
    let other = 3 - told;
    stage.modify(other, Interest::BOTH);
    assert_eq!(stage.wait(), [(other, Ready::READABLE)]);
}

#[test]
fn closed_while_it_waits_is_silent() {
    let mut stage = Stage::new();
    stage.add(A, 1, Interest::READ, Mode::Level);
    stage.set(A, IN);
    stage.close(A);
    assert_eq!(stage.wait(), []);
    let removed = stage.poller.remove(1);
    assert!(matches!(removed, Err(Error::NotOpen { fd: A })));
}

#[test]
fn removed_after_its_number_went_to_another_file_is_no_error() {
    let mut stage = Stage::new();
    stage.add(A, 1, Interest::READ, Mode::Level);
    stage.close(A);
    stage.open(A);
    stage.set(A, IN);
    assert_eq!(stage.wait(), [], "nothing of the new file");
    stage.remove(1);
}

#[test]
fn a_number_reused_inside_a_batch_reports_under_its_new_key() {
    let (old, new) = ((1 << 32) | 3, (2 << 32) | 3);
    let mut stage = Stage::new();
    stage.add(A, old, Interest::READ, Mode::Level);
    stage.set(A, IN);
    assert_eq!(stage.wait(), [(old, Ready::READABLE)]);
    stage.remove(old);
    stage.close(A);
    stage.open(A);
    stage.add(A, new, Interest::WRITE, Mode::Level);
    assert_eq!(stage.wait(), []);
    stage.set(A, IN | OUT);
    assert_eq!(stage.wait(), [(new, Ready::WRITABLE)]);
}

#[test]
fn forget_costs_no_call() {
    let mut stage = Stage::new();
    stage.add(A, 1, Interest::READ, Mode::Level);
    stage.calls();
    stage.poller.remove_before_close(1).expect("registered");
    stage.close(A);
    assert_eq!(stage.calls(), []);
    stage.open(A);
    stage.add(A, 1, Interest::READ, Mode::Level);
    stage.set(A, IN);
    assert_eq!(stage.wait(), [(1, Ready::READABLE)]);
}

#[test]
fn forgotten_but_not_closed_ends_no_wait() {
    let mut stage = Stage::with_room(1);
    stage.add(A, 1, Interest::READ, Mode::Level);
    stage.add(B, 2, Interest::READ, Mode::Level);
    stage.set(A, IN);
    stage.set(B, IN);
    stage.poller.remove_before_close(1).expect("registered");
    let told = stage.try_wait(None).expect("a wait");
    assert_eq!(told, [(2, Ready::READABLE)], "the stray is passed over");
}

#[test]
fn more_lost_than_there_is_room_for_are_told_one_by_one() {
    let mut stage = Stage::new();
    let fds = (B + 1)..(B + 5);
    for (fd, key) in fds.clone().zip(0..) {
        stage.open(fd);
        stage.add(fd, key, Interest::READ, Mode::Level);
        stage.set(fd, IN);
    }
    assert_eq!(stage.wait().len(), 4);
    fds.for_each(|fd| stage.close(fd));
    stage.events = Events::with_capacity(1);
    let mut keys: Vec<_> = (0..2).map(|_| stage.wait()[0].0).collect();
    let gone = (0..4)
        .find(|key| !keys.contains(key))
        .expect("two are left");
    stage.remove(gone);
    keys.extend(stage.wait().iter().map(|event| event.0));
    keys.push(gone);
    keys.sort_unstable();
    assert_eq!(keys, [0, 1, 2, 3]);
    assert_eq!(stage.wait(), []);
}
