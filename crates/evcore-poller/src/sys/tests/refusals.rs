//! Changes that the kernel refuses. (poll refuses only those of a closed descriptor.)

use super::*;

#[test]
fn a_refused_registration_is_an_error_once() {
    for kind in REFUSING {
        let mut fixture = Fixture::new(kind);
        fixture.refuse(A);
        let added = fixture.try_add(A, 1, Interest::READ, Mode::Level);
        fixture.set(A, IN);
        fixture.add(B, 2, Interest::READ, Mode::Level);
        fixture.set(B, IN);
        // `/dev/poll` refuses the registration only in the wait.
        if kind != Kind::DevPoll {
            assert!(matches!(added, Err(Error::Os { .. })));
        } else {
            assert_eq!(fixture.wait(), [(1, GONE), (2, Ready::READABLE)]);
        }
        assert_eq!(fixture.wait(), [(2, Ready::READABLE)]);
        fixture.refuse_nothing();
        if kind != Kind::DevPoll {
            fixture.add(A, 1, Interest::READ, Mode::Level);
        } else {
            fixture.modify(1, Interest::READ);
        }
        assert_eq!(fixture.wait(), [(1, Ready::READABLE), (2, Ready::READABLE)]);
    }
}

#[test]
fn a_refused_change_is_an_error_event_and_removed() {
    for kind in REFUSING {
        let mut fixture = Fixture::new(kind);
        fixture.add(A, 1, Interest::READ, Mode::Level);
        fixture.wait();
        fixture.refuse(A);
        fixture.modify(1, Interest::WRITE);
        let reported = fixture.try_wait(None).expect("a wait");
        assert_eq!(reported, [(1, Ready::ERROR | Ready::WRITABLE)]);
        fixture.set(A, IN | OUT);
        assert_eq!(fixture.wait(), []);
        fixture.refuse_nothing();
        fixture.modify(1, Interest::WRITE);
        assert_eq!(fixture.wait(), [(1, Ready::WRITABLE)]);
        fixture.remove(1);
    }
}

#[test]
fn one_refusal_loses_no_other_change() {
    for kind in REFUSING {
        let mut fixture = Fixture::new(kind);
        let fds = fixture.add_more(5);
        assert_eq!(fixture.wait().len(), 5);
        fixture.refuse(fds.start + 2);
        for (fd, key) in fds.zip(0..) {
            fixture.modify(key, Interest::WRITE);
            fixture.set(fd, OUT);
        }
        let refused = Ready::ERROR | Ready::WRITABLE;
        let ready = |key| if key == 2 { refused } else { Ready::WRITABLE };
        assert_eq!(fixture.wait(), [0, 1, 2, 3, 4].map(|key| (key, ready(key))));
        assert_eq!(fixture.keys_of_waits(1), [0, 1, 3, 4], "reported once");
        fixture.refuse_nothing();
        fixture.modify(2, Interest::WRITE);
        assert_eq!(fixture.keys_of_waits(1), [0, 1, 2, 3, 4]);
    }
}

/// Makes a fixture with two refused keys, of which a wait with room for one event has reported only
/// one. Returns the key of the other one, too.
fn with_an_unreported_refusal(kind: Kind) -> (Fixture, u64) {
    let mut fixture = Fixture::new(kind);
    for (fd, key) in [(A, 1), (B, 2)] {
        fixture.add(fd, key, Interest::READ, Mode::Level);
        fixture.modify(key, Interest::BOTH);
    }
    fixture.refuse(A);
    fixture.refuse(B);
    fixture.events = Events::bounded(1);
    let reported = fixture.wait()[0].0;
    fixture.refuse_nothing();
    (fixture, 3 - reported)
}

#[test]
fn a_refusal_that_is_changed_again_is_not_reported() {
    for kind in REFUSING {
        let (mut fixture, other) = with_an_unreported_refusal(kind);
        fixture.modify(other, Interest::WRITE);
        assert_eq!(fixture.wait(), []);
        fixture.set([A, B][usize::from(other == 2)], OUT);
        assert_eq!(fixture.wait(), [(other, Ready::WRITABLE)]);
        fixture.remove(other);
    }
}

#[test]
fn a_removed_refusal_is_not_reported() {
    for kind in REFUSING {
        let (mut fixture, other) = with_an_unreported_refusal(kind);
        fixture.remove(other);
        assert_eq!(fixture.wait(), []);
    }
}

/// Before each wait, as many changes are refused as the buffer has room for.
#[test]
fn refusals_do_not_starve_ready_descriptors() {
    for kind in REFUSING {
        for capacity in [1, 2] {
            let mut fixture = Fixture::with_room(kind, capacity);
            let (refused, ready) = (0..capacity as u64, 2);
            let fds = fixture.add_more(3);
            fds.clone().take(2).for_each(|fd| fixture.set(fd, 0));
            fixture.keys_of_waits(3); // so that no event of a port stays queued
            fds.take(capacity).for_each(|fd| fixture.refuse(fd));
            for _ in 0..10 {
                let waits = (0..2).flat_map(|_| {
                    for key in refused.clone() {
                        fixture.modify(key, Interest::WRITE);
                    }
                    let reported = fixture.wait();
                    assert_eq!(reported.len(), capacity);
                    reported
                });
                assert_eq!(waits.filter(|event| event.0 == ready).count(), 1);
            }
        }
    }
}

/// A closed descriptor is changed before each wait. The first wait may find that it is closed. In
/// each later wait the change is refused.
#[test]
fn changes_of_closed_descriptors_do_not_starve_ready_ones() {
    for kind in MASKING {
        let mut fixture = Fixture::with_room(kind, 1);
        for waits in 1..6 {
            fixture.add_both();
            fixture.wait();
            fixture.close(A);
            let mut interests = [Interest::BOTH, Interest::READ].into_iter().cycle();
            let mut waits_without = 0;
            for _ in 0..10 + waits {
                fixture.modify(1, interests.next().expect("for ever"));
                let is_ready = fixture.wait() == [(2, Ready::READABLE)];
                waits_without = if is_ready { 0 } else { waits_without + 1 };
                assert!(waits_without < 2, "key 2 starves");
            }
            fixture.open(A);
            fixture.remove(1);
            fixture.remove(2);
        }
    }
}

#[test]
fn a_refusal_is_reported_though_the_wait_fails() {
    for kind in MASKING {
        for errno in [Errno::BADF, Errno::INTR] {
            let mut fixture = Fixture::new(kind);
            fixture.events = Events::raw(8);
            fixture.add(A, 1, Interest::NONE, Mode::Level);
            fixture.close(A);
            fixture.modify(1, Interest::READ);
            fixture.fail_wait(errno);
            let reported = fixture.try_wait(None).expect("a wait");
            assert_eq!(reported, [(1, GONE)]);
        }
    }
}

#[test]
fn a_wake_is_reported_together_with_a_refusal() {
    for kind in REFUSING {
        let mut fixture = Fixture::new(kind);
        fixture.add(A, 1, Interest::READ, Mode::Level);
        fixture.modify(1, Interest::BOTH);
        fixture.refuse(A);
        fixture.poller.waker().wake();
        assert_eq!(fixture.wait(), [(1, GONE | Ready::WRITABLE)]);
        assert!(fixture.events.was_woken());
    }
}
