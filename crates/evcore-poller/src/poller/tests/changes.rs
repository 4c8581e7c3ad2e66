//! The calls that reach the backend, and when they do.

use super::*;

#[test]
fn add_and_remove_act_at_once() {
    let mut fixture = Fixture::new(ALL);
    fixture.add(3, Interest::READ, Mode::Level).expect("add");
    assert_eq!(fixture.calls(), [Add(3, Interest::READ)]);
    fixture.poller.remove(3).expect("remove");
    assert_eq!(fixture.calls(), [Remove(3, Interest::READ)]);
}

#[test]
fn modify_is_deferred_to_the_wait_and_merged() {
    let mut fixture = Fixture::new(ALL);
    fixture.add(3, Interest::READ, Mode::Level).expect("add");
    fixture.modify(3, Interest::WRITE);
    fixture.modify(3, Interest::BOTH);
    assert_eq!(fixture.calls(), [Add(3, Interest::READ)]);
    fixture.idle();
    assert_eq!(fixture.calls(), [Modify(3, Interest::BOTH), Wait(None)]);
    fixture.idle();
    assert_eq!(fixture.calls(), [Wait(None)], "the change is made once");
}

#[test]
fn modify_that_is_taken_back_costs_no_call() {
    for mode in [Mode::Level, Mode::Edge] {
        let mut fixture = Fixture::new(ALL);
        fixture.add(3, Interest::READ, mode).expect("add");
        fixture.calls();
        fixture.modify(3, Interest::NONE);
        fixture.modify(3, Interest::READ);
        fixture.idle();
        assert_eq!(fixture.calls(), [Wait(None)], "{mode:?}");
    }
}

#[test]
fn an_empty_interest_is_removed_and_added_again() {
    let mut fixture = Fixture::new(ALL);
    fixture.add(3, Interest::READ, Mode::Level).expect("add");
    fixture.calls();
    fixture.modify(3, Interest::NONE);
    fixture.idle();
    assert_eq!(fixture.calls(), [Remove(3, Interest::READ), Wait(None)]);
    fixture.modify(3, Interest::WRITE);
    fixture.idle();
    assert_eq!(fixture.calls(), [Add(3, Interest::WRITE), Wait(None)]);
}

#[test]
fn an_empty_interest_makes_no_call() {
    let mut fixture = Fixture::new(ALL);
    fixture.add(3, Interest::NONE, Mode::Level).expect("add");
    fixture.idle();
    fixture.poller.remove(3).expect("remove");
    fixture.add(3, Interest::NONE, Mode::Level).expect("add");
    fixture.poller.remove_before_close(3).expect("forget");
    assert_eq!(fixture.calls(), [Wait(None)]);
}

#[test]
fn remove_passes_the_backends_interest_not_the_pending_one() {
    let mut fixture = Fixture::new(ALL);
    fixture.add(3, Interest::READ, Mode::Level).expect("add");
    fixture.modify(3, Interest::NONE);
    fixture.poller.remove(3).expect("remove");
    fixture.idle();
    let expected = [
        Add(3, Interest::READ),
        Remove(3, Interest::READ),
        Wait(None),
    ];
    assert_eq!(fixture.calls(), expected);
}

#[test]
fn remove_before_close_reaches_the_backend() {
    let mut fixture = Fixture::new(ALL);
    fixture.add(3, Interest::READ, Mode::Level).expect("add");
    fixture.poller.remove_before_close(3).expect("forget");
    assert_eq!(fixture.calls(), [Add(3, Interest::READ), Forget(3)]);
    assert!(
        fixture.poller.remove(3).is_err(),
        "the key is not registered any more"
    );
}
