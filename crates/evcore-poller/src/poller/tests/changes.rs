//! What reaches the backend, and when.

use super::*;

#[test]
fn add_and_remove_act_at_once() {
    let mut stage = Stage::new(ALL);
    stage.add(3, Interest::READ, Mode::Level).expect("add");
    assert_eq!(stage.calls(), [Add(3, Interest::READ)]);
    stage.poller.remove(3).expect("remove");
    assert_eq!(stage.calls(), [Remove(3, Interest::READ)]);
}

#[test]
fn modify_waits_for_the_wait_and_is_merged() {
    let mut stage = Stage::new(ALL);
    stage.add(3, Interest::READ, Mode::Level).expect("add");
    stage.modify(3, Interest::WRITE);
    stage.modify(3, Interest::BOTH);
    assert_eq!(stage.calls(), [Add(3, Interest::READ)]);
    stage.idle();
    assert_eq!(stage.calls(), [Modify(3, Interest::BOTH), Wait(None)]);
    stage.idle();
    assert_eq!(stage.calls(), [Wait(None)], "told once");
}

#[test]
fn modify_that_is_taken_back_costs_no_call() {
    for mode in [Mode::Level, Mode::Edge] {
        let mut stage = Stage::new(ALL);
        stage.add(3, Interest::READ, mode).expect("add");
        stage.calls();
        stage.modify(3, Interest::NONE);
        stage.modify(3, Interest::READ);
        stage.idle();
        assert_eq!(stage.calls(), [Wait(None)], "{mode:?}");
    }
}

#[test]
fn an_empty_interest_is_removed_and_comes_back_as_an_addition() {
    let mut stage = Stage::new(ALL);
    stage.add(3, Interest::READ, Mode::Level).expect("add");
    stage.calls();
    stage.modify(3, Interest::NONE);
    stage.idle();
    assert_eq!(stage.calls(), [Remove(3, Interest::READ), Wait(None)]);
    stage.modify(3, Interest::WRITE);
    stage.idle();
    assert_eq!(stage.calls(), [Add(3, Interest::WRITE), Wait(None)]);
}

#[test]
fn nothing_asked_is_nothing_told() {
    let mut stage = Stage::new(ALL);
    stage.add(3, Interest::NONE, Mode::Level).expect("add");
    stage.idle();
    stage.poller.remove(3).expect("remove");
    stage.add(3, Interest::NONE, Mode::Level).expect("add");
    stage.poller.remove_before_close(3).expect("forget");
    assert_eq!(stage.calls(), [Wait(None)]);
}

#[test]
fn remove_names_what_the_backend_knows_not_what_is_pending() {
    let mut stage = Stage::new(ALL);
    stage.add(3, Interest::READ, Mode::Level).expect("add");
    stage.modify(3, Interest::NONE);
    stage.poller.remove(3).expect("remove");
    stage.idle();
    let expected = [
        Add(3, Interest::READ),
        Remove(3, Interest::READ),
        Wait(None),
    ];
    assert_eq!(stage.calls(), expected);
}

#[test]
fn forget_says_so_to_the_backend() {
    let mut stage = Stage::new(ALL);
    stage.add(3, Interest::READ, Mode::Level).expect("add");
    stage.poller.remove_before_close(3).expect("forget");
    assert_eq!(stage.calls(), [Add(3, Interest::READ), Forget(3)]);
    assert!(stage.poller.remove(3).is_err(), "it is gone");
}
