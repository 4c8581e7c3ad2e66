//! Closed descriptors, whose registrations were removed or not.

use super::*;

#[test]
fn a_number_that_is_not_open_is_refused() {
    let mut fixture = Fixture::new();
    let refused = fixture.try_add(B + 1, 1, Interest::READ, Mode::Level);
    assert!(matches!(refused, Err(Error::NotOpen { .. })), "{refused:?}");
    assert_eq!(fixture.wait(), []);
}

#[test]
fn a_close_after_a_report_is_one_error_event() {
    let mut fixture = Fixture::new();
    for (fd, key) in [(A, 1), (B, 2)] {
        fixture.add(fd, key, Interest::READ, Mode::Level);
        fixture.set(fd, IN);
    }
    assert_eq!(fixture.wait().len(), 2);
    fixture.close(A);
    let reported = [(1, Ready::ERROR | Ready::READABLE), (2, Ready::READABLE)];
    assert_eq!(fixture.wait(), reported);
    assert_eq!(fixture.wait(), [(2, Ready::READABLE)], "reported once");
    fixture.remove(1);
}

#[test]
fn a_lost_watch_is_reported_without_waiting() {
    let mut fixture = Fixture::new();
    fixture.add(A, 1, Interest::READ, Mode::Level);
    fixture.set(A, IN);
    fixture.wait();
    fixture.close(A);
    let reported = fixture.try_wait(None).expect("a wait");
    assert_eq!(reported, [(1, Ready::ERROR | Ready::READABLE)]);
}

#[test]
fn a_lost_watch_made_again_is_not_reported() {
    let mut fixture = Fixture::new();
    for (fd, key) in [(A, 1), (B, 2)] {
        fixture.add(fd, key, Interest::READ, Mode::Level);
        fixture.set(fd, IN);
    }
    assert_eq!(fixture.wait().len(), 2);
    fixture.kernel.port().refuses.extend([A, B]);
    fixture.events = Events::bounded(1);
    let reported = fixture.wait()[0].0;
    fixture.kernel.port().refuses.clear();
    let other = 3 - reported;
    fixture.modify(other, Interest::BOTH);
    assert_eq!(fixture.wait(), [(other, Ready::READABLE)]);
}

#[test]
fn a_close_during_the_wait_is_silent() {
    let mut fixture = Fixture::new();
    fixture.add(A, 1, Interest::READ, Mode::Level);
    fixture.set(A, IN);
    fixture.close(A);
    assert_eq!(fixture.wait(), []);
    let removed = fixture.poller.remove(1);
    assert!(matches!(removed, Err(Error::NotOpen { fd: A })));
}

#[test]
fn removing_a_reused_number_is_no_error() {
    let mut fixture = Fixture::new();
    fixture.add(A, 1, Interest::READ, Mode::Level);
    fixture.close(A);
    fixture.open(A);
    fixture.set(A, IN);
    assert_eq!(fixture.wait(), [], "nothing of the new file");
    fixture.remove(1);
}

#[test]
fn a_reused_number_reports_under_its_new_key() {
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
fn remove_before_close_costs_no_call() {
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
fn a_stray_ends_no_wait() {
    let mut fixture = Fixture::with_room(1);
    fixture.add(A, 1, Interest::READ, Mode::Level);
    fixture.add(B, 2, Interest::READ, Mode::Level);
    fixture.set(A, IN);
    fixture.set(B, IN);
    fixture.poller.remove_before_close(1).expect("registered");
    let reported = fixture.try_wait(None).expect("a wait");
    assert_eq!(reported, [(2, Ready::READABLE)], "the stray is passed over");
}

#[test]
fn lost_watches_that_do_not_fit_come_later() {
    let mut fixture = Fixture::new();
    let fds = (B + 1)..(B + 5);
    for (fd, key) in fds.clone().zip(0..) {
        fixture.open(fd);
        fixture.add(fd, key, Interest::READ, Mode::Level);
        fixture.set(fd, IN);
    }
    assert_eq!(fixture.wait().len(), 4);
    fds.for_each(|fd| fixture.close(fd));
    fixture.events = Events::bounded(1);
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
