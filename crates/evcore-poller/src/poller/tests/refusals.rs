//! Changes that the backend refuses.

use super::*;

#[test]
fn a_refused_addition_is_not_registered() {
    let mut fixture = Fixture::new(ALL);
    fixture.state().refuses.push(3);
    assert!(fixture.add(3, Interest::READ, Mode::Level).is_err());
    assert!(fixture.poller.remove(3).is_err());
    fixture.state().refuses.clear();
    fixture.add(3, Interest::READ, Mode::Level).expect("add");
}

#[test]
fn a_refused_change_is_an_error_event_at_once() {
    let mut fixture = Fixture::new(ALL);
    fixture.add(3, Interest::READ, Mode::Level).expect("add");
    fixture.state().refuses.push(3);
    fixture.calls();
    fixture.modify(3, Interest::BOTH);
    let sides = Ready::READABLE | Ready::WRITABLE;
    assert_eq!(fixture.idle(), [(3, Ready::ERROR | sides)]);
    let expected = [Modify(3, Interest::BOTH), Wait(Some(Duration::ZERO))];
    assert_eq!(fixture.calls(), expected);
    assert_eq!(fixture.idle(), [], "reported once");
}

#[test]
fn the_next_modify_tries_a_refused_change_again() {
    let mut fixture = Fixture::new(ALL);
    fixture.add(3, Interest::READ, Mode::Level).expect("add");
    fixture.state().refuses.push(3);
    fixture.modify(3, Interest::BOTH);
    fixture.idle();
    fixture.state().refuses.clear();
    fixture.calls();
    fixture.modify(3, Interest::BOTH);
    fixture.idle();
    assert_eq!(fixture.calls(), [Add(3, Interest::BOTH), Wait(None)]);
}

#[test]
fn a_refused_removal_reports_nothing() {
    let mut fixture = Fixture::new(ALL);
    fixture.add(3, Interest::READ, Mode::Level).expect("add");
    fixture.state().refuses.push(3);
    fixture.modify(3, Interest::NONE);
    assert_eq!(fixture.idle(), []);
}

#[test]
fn refusals_that_do_not_fit_come_with_the_next_wait() {
    let mut fixture = Fixture::new(ALL);
    for key in 0..5 {
        fixture.add(key, Interest::READ, Mode::Level).expect("add");
        fixture.state().refuses.push(key);
        fixture.modify(key, Interest::WRITE);
    }
    let mut keys: Vec<_> = fixture.idle().iter().map(|event| event.0).collect();
    assert_eq!(keys.len(), 4, "as many as fit");
    keys.extend(fixture.idle().iter().map(|event| event.0));
    keys.sort_unstable();
    assert_eq!(keys, [0, 1, 2, 3, 4]);
}

#[test]
fn the_refusal_of_a_removed_key_is_not_reported() {
    let mut fixture = Fixture::new(ALL);
    for key in 0..5 {
        fixture.add(key, Interest::READ, Mode::Level).expect("add");
        fixture.state().refuses.push(key);
        fixture.modify(key, Interest::WRITE);
    }
    let reported: Vec<_> = fixture.idle().iter().map(|event| event.0).collect();
    let rest = (0..5)
        .find(|key| !reported.contains(key))
        .expect("one did not fit");
    fixture.poller.remove_before_close(rest).expect("forget");
    fixture.state().refuses.clear();
    fixture.add(rest, Interest::READ, Mode::Level).expect("add");
    assert_eq!(fixture.idle(), []);
}

#[test]
fn a_failed_wait_loses_no_refusal() {
    for failure in [Answer::Interrupted, Answer::Broken] {
        let mut fixture = Fixture::new(ALL);
        fixture.events = Events::raw(4);
        fixture.add(3, Interest::READ, Mode::Level).expect("add");
        fixture.state().refuses.push(3);
        fixture.modify(3, Interest::WRITE);
        assert_eq!(fixture.wait(failure), [(3, Ready::ERROR | Ready::WRITABLE)]);
    }
}

/// A fixture with two refusals, one of which was reported, and the key of the other one.
fn with_a_refusal_to_come() -> (Fixture, u64) {
    let mut fixture = Fixture::new(ALL);
    fixture.events = Events::bounded(1);
    for key in [1, 2] {
        fixture.add(key, Interest::READ, Mode::Level).expect("add");
        fixture.state().refuses.push(key);
        fixture.modify(key, Interest::BOTH);
    }
    let reported = fixture.idle();
    (fixture, 3 - reported[0].0)
}

#[test]
fn a_refusal_repaired_before_its_report_is_not_reported() {
    let (mut fixture, key) = with_a_refusal_to_come();
    fixture.state().refuses.clear();
    fixture.modify(key, Interest::WRITE);
    assert_eq!(fixture.idle(), []);
}

#[test]
fn a_change_refused_twice_is_reported_once() {
    let (mut fixture, key) = with_a_refusal_to_come();
    fixture.modify(key, Interest::WRITE);
    assert_eq!(fixture.idle(), [(key, Ready::ERROR | Ready::WRITABLE)]);
    assert_eq!(fixture.idle(), []);
}

#[test]
fn a_refusal_is_not_reported_for_an_empty_interest() {
    let (mut fixture, key) = with_a_refusal_to_come();
    fixture.modify(key, Interest::NONE);
    assert_eq!(fixture.idle(), []);
}

#[test]
fn a_wake_comes_with_a_refusal() {
    let mut fixture = Fixture::new(ALL);
    fixture.events = Events::bounded(1);
    fixture.add(3, Interest::READ, Mode::Level).expect("add");
    fixture.state().refuses.push(3);
    fixture.modify(3, Interest::WRITE);
    fixture.poller.waker().wake();
    assert_eq!(fixture.idle(), [(3, Ready::ERROR | Ready::WRITABLE)]);
    assert!(fixture.events.was_woken());
}

/// Before each wait, as many changes are refused as events fit into the buffer.
#[test]
fn refusals_and_ready_descriptors_alternate_as_the_first() {
    for capacity in [1, 2] {
        let mut fixture = Fixture::new(ALL);
        fixture.events = Events::bounded(capacity);
        fixture.add(9, Interest::READ, Mode::Level).expect("add");
        let keys = 0..u64::try_from(capacity).expect("a few");
        for key in keys.clone() {
            fixture.add(key, Interest::READ, Mode::Level).expect("add");
            fixture.state().refuses.push(key);
        }
        for turn in 0..10 {
            for key in keys.clone() {
                fixture.modify(key, Interest::BOTH);
            }
            fixture.state().answers.clear();
            let found = fixture.wait(reports([(9, Ready::READABLE)]));
            let good = found.contains(&(9, Ready::READABLE));
            assert_eq!(found.len(), capacity);
            assert_eq!(good, turn % 2 == 1, "turn {turn}: {found:?}");
        }
    }
}

#[test]
fn a_refusal_with_an_empty_interest_ends_no_wait() {
    let (mut fixture, key) = with_a_refusal_to_come();
    fixture.modify(key, Interest::NONE);
    assert!(!fixture.poller.flush().expect("not forked"));
    fixture.calls();
    assert_eq!(fixture.idle(), []);
    assert_eq!(fixture.calls(), [Wait(None)]);
}
