//! Waits that signals interrupt, and waits that fail.

use super::*;

#[test]
fn an_interrupted_wait_goes_on_to_the_same_deadline() {
    let mut stage = Stage::new(ALL);
    stage
        .script()
        .answers
        .extend([Answer::Interrupted, Answer::Interrupted]);
    let timeout = Some(SECOND);
    stage
        .poller
        .wait(&mut stage.events, timeout)
        .expect("a wait");
    let [Wait(Some(first)), Wait(Some(second)), Wait(Some(third))] = stage.calls()[..] else {
        panic!("one wait, and one after each signal");
    };
    assert_eq!(first, SECOND);
    assert!(second < first && third < second);
}

#[test]
fn an_interrupted_wait_without_a_deadline_is_repeated_as_it_was() {
    for timeout in [None, Some(Duration::ZERO), Some(Duration::MAX)] {
        let mut stage = Stage::new(ALL);
        stage.script().answers.push_back(Answer::Interrupted);
        stage
            .poller
            .wait(&mut stage.events, timeout)
            .expect("a wait");
        assert_eq!(stage.calls(), [Wait(timeout), Wait(timeout)]);
    }
}

#[test]
fn who_asks_to_see_signals_sees_them() {
    let mut stage = Stage::new(ALL);
    stage.poller.return_on_signal(true);
    stage.script().answers.push_back(Answer::Interrupted);
    let seen = stage.poller.wait(&mut stage.events, None);
    assert!(matches!(seen, Err(Error::Interrupted)));
    assert_eq!(stage.calls(), [Wait(None)]);
}

#[test]
fn an_error_of_the_wait_is_returned() {
    let mut stage = Stage::new(ALL);
    stage.script().answers.push_back(Answer::Broken);
    let broken = stage.poller.wait(&mut stage.events, None);
    assert!(matches!(broken, Err(Error::Os { .. })));
    assert!(stage.events.is_empty());
}

#[test]
fn a_buffer_of_no_capacity_is_refused_and_nothing_is_told() {
    let mut stage = Stage::new(ALL);
    stage.add(3, Interest::READ, Mode::Level).expect("add");
    stage.modify(3, Interest::WRITE);
    stage.calls();
    let refused = stage.poller.wait(&mut Events::with_capacity(0), None);
    assert!(matches!(refused, Err(Error::NoRoom)));
    assert_eq!(stage.calls(), []);
    stage.idle();
    assert_eq!(stage.calls(), [Modify(3, Interest::WRITE), Wait(None)]);
}

/// As where more is ready than fits, and the kernel comes to the waker last.
#[test]
fn a_wake_comes_with_the_first_wait_whatever_the_backend_reports() {
    let mut stage = Stage::new(ALL);
    stage.events = Events::with_capacity(1);
    stage.add(3, Interest::READ, Mode::Level).expect("add");
    let event = [(3, Ready::READABLE)];
    for _ in 0..3 {
        stage.poller.waker().wake();
        for woken in [true, false, false] {
            assert_eq!(stage.wait(reports(event)), event);
            assert_eq!(stage.events.was_woken(), woken);
        }
    }
}

#[test]
fn a_wait_that_fails_leaves_the_wake_to_the_next() {
    let mut stage = Stage::new(ALL);
    stage.events = Events::with_capacity(1);
    stage.add(3, Interest::READ, Mode::Level).expect("add");
    stage.poller.waker().wake();
    stage.script().answers.push_back(Answer::Broken);
    assert!(stage.poller.wait(&mut stage.events, None).is_err());
    assert!(!stage.events.was_woken());
    stage.wait(reports([(3, Ready::READABLE)]));
    assert!(stage.events.was_woken());
}
