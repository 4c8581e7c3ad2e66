//! Closed descriptors, whose registrations were removed or not.

use super::*;

#[test]
fn a_number_that_is_not_open_is_refused() {
    let mut fixture = Fixture::new();
    for fd in [B + 1, -100] {
        let refused = fixture.try_add(fd, 1, Interest::READ, Mode::Level);
        assert!(matches!(refused, Err(Error::NotOpen { .. })), "{refused:?}");
    }
    assert_eq!(fixture.wait(), []);
    assert_eq!(fixture.calls(), [Poll(1, 0)]);
}

#[test]
fn a_change_of_a_number_that_is_not_open_is_an_error_event() {
    let mut fixture = Fixture::new();
    let added = fixture.try_add(B + 1, 1, Interest::NONE, Mode::Level);
    added.expect("the interest is empty");
    assert_eq!(fixture.wait(), []);
    for _ in 0..2 {
        fixture.modify(1, Interest::READ);
        assert_eq!(fixture.wait(), [(1, GONE)]);
        assert_eq!(fixture.wait(), []);
    }
}

#[test]
fn removal_before_a_close_is_written() {
    let mut fixture = Fixture::new();
    fixture.add(A, 1, Interest::READ, Mode::Level);
    fixture.wait();
    fixture.remove_before_close(1);
    fixture.close(A);
    fixture.calls();
    assert_eq!(fixture.wait(), []);
    assert_eq!(fixture.calls(), [Write(vec![(A, REMOVE)]), Poll(1, 0)]);
}

#[test]
fn a_reused_number_reports_under_its_new_key() {
    let (old, new) = ((1 << 32) | 3, (2 << 32) | 3);
    for in_place in [false, true] {
        let mut fixture = Fixture::new();
        fixture.open(B + 1);
        fixture.add(B + 1, old, Interest::READ, Mode::Level);
        fixture.set(B + 1, IN);
        assert_eq!(fixture.wait(), [(old, Ready::READABLE)]);
        fixture.remove_before_close(old);
        fixture.close(B + 1);
        // Both happen in one turn, so that the device is not written meanwhile.
        match in_place {
            true => fixture.kernel.device().open_in_place(B + 1),
            false => fixture.open(B + 1),
        }
        fixture.add(B + 1, new, Interest::WRITE, Mode::Level);
        fixture.set(B + 1, IN);
        assert_eq!(fixture.wait(), []);
        fixture.set(B + 1, IN | OUT);
        assert_eq!(fixture.wait(), [(new, Ready::WRITABLE)]);
    }
}

#[test]
fn a_lost_descriptor_that_is_open_again_is_watched_again() {
    let mut fixture = Fixture::new();
    fixture.add(A, 1, Interest::READ, Mode::Level);
    fixture.set(A, IN);
    fixture.wait();
    fixture.close(A);
    assert_eq!(fixture.wait(), [(1, GONE)]);
    assert_eq!(fixture.wait(), []);
    fixture.open(A);
    assert_eq!(fixture.wait(), []);
    fixture.modify(1, Interest::READ);
    fixture.set(A, IN);
    assert_eq!(fixture.wait(), [(1, Ready::READABLE)]);
    fixture.remove(1);
}

#[test]
fn closed_descriptors_that_do_not_fit_come_later() {
    let mut fixture = Fixture::with_room(1);
    let fds = (B + 1)..(B + 5);
    for (fd, key) in fds.clone().zip(0..) {
        fixture.open(fd);
        fixture.add(fd, key, Interest::READ, Mode::Level);
        fixture.set(fd, IN);
    }
    fixture.wait();
    fds.for_each(|fd| fixture.close(fd));
    let mut keys: Vec<_> = (0..4).map(|_| fixture.wait()[0].0).collect();
    keys.sort_unstable();
    assert_eq!(keys, [0, 1, 2, 3]);
    assert_eq!(fixture.wait(), []);
    assert_eq!(fixture.entries(), []);
}

#[test]
fn a_removed_key_is_silent_despite_a_duplicate() {
    let mut fixture = Fixture::new();
    fixture.add(A, 1, Interest::READ, Mode::Level);
    fixture.wait();
    fixture.kernel.device().duplicate(A, B + 1);
    fixture.remove_before_close(1);
    fixture.close(A);
    fixture.set(B + 1, IN);
    assert_eq!(fixture.wait(), []);
}

#[test]
fn two_numbers_of_one_file_report_under_two_keys() {
    let mut fixture = Fixture::new();
    fixture.kernel.device().duplicate(A, B + 1);
    fixture.add(A, 1, Interest::READ, Mode::Level);
    fixture.add(B + 1, 2, Interest::WRITE, Mode::Level);
    assert_eq!(fixture.wait(), []);
    fixture.set(A, IN | OUT);
    assert_eq!(fixture.wait(), [(1, Ready::READABLE), (2, Ready::WRITABLE)]);
    fixture.remove_before_close(1);
    fixture.close(A);
    assert_eq!(fixture.wait(), [(2, Ready::WRITABLE)]);
}

#[test]
fn removal_after_a_close_is_no_error() {
    let mut fixture = Fixture::new();
    fixture.add(A, 1, Interest::READ, Mode::Level);
    fixture.wait();
    fixture.close(A);
    fixture.remove(1);
    assert_eq!(fixture.wait(), []);
    assert_eq!(fixture.entries(), []);
}
