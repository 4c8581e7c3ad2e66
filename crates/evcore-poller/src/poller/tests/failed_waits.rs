//! Waits that signals interrupt, and waits that fail.

use super::*;

#[test]
fn an_interrupted_wait_goes_on_to_the_same_deadline() {
    let mut fixture = Fixture::new(ALL);
    fixture
        .state()
        .answers
        .extend([Answer::Interrupted, Answer::Interrupted]);
    let timeout = Some(SECOND);
    fixture
        .poller
        .wait(&mut fixture.events, timeout)
        .expect("a wait");
    let [Wait(Some(first)), Wait(Some(second)), Wait(Some(third))] = fixture.calls()[..] else {
        panic!("expected one wait, and one after each signal");
    };
    assert_eq!(first, SECOND);
    assert!(second < first && third < second);
}

#[test]
fn an_interrupted_wait_without_a_deadline_is_repeated() {
    for timeout in [None, Some(Duration::ZERO), Some(Duration::MAX)] {
        let mut fixture = Fixture::new(ALL);
        fixture.state().answers.push_back(Answer::Interrupted);
        fixture
            .poller
            .wait(&mut fixture.events, timeout)
            .expect("a wait");
        assert_eq!(fixture.calls(), [Wait(timeout), Wait(timeout)]);
    }
}

#[test]
fn a_signal_ends_a_raw_wait() {
    let mut fixture = Fixture::new(ALL);
    fixture.events = Events::raw(4);
    fixture.state().answers.push_back(Answer::Interrupted);
    let seen = fixture.poller.wait(&mut fixture.events, None);
    assert!(matches!(seen, Err(Error::Interrupted)));
    assert_eq!(fixture.calls(), [Wait(None)]);
}

#[test]
fn an_error_of_the_wait_is_returned() {
    let mut fixture = Fixture::new(ALL);
    fixture.state().answers.push_back(Answer::Broken);
    let broken = fixture.poller.wait(&mut fixture.events, None);
    assert!(matches!(broken, Err(Error::Os { .. })));
    assert!(fixture.events.is_empty());
}

/// More descriptors are ready than fit, and the kernel reports the waker last.
#[test]
fn the_first_wait_reports_a_wake_even_if_events_fill_the_buffer() {
    let mut fixture = Fixture::new(ALL);
    fixture.events = Events::bounded(1);
    fixture.add(3, Interest::READ, Mode::Level).expect("add");
    let event = [(3, Ready::READABLE)];
    for _ in 0..3 {
        fixture.poller.waker().wake();
        for woken in [true, false, false] {
            assert_eq!(fixture.wait(reports(event)), event);
            assert_eq!(fixture.events.was_woken(), woken);
        }
    }
}

#[test]
fn a_wait_that_fails_leaves_the_wake_to_the_next() {
    let mut fixture = Fixture::new(ALL);
    fixture.events = Events::bounded(1);
    fixture.add(3, Interest::READ, Mode::Level).expect("add");
    fixture.poller.waker().wake();
    fixture.state().answers.push_back(Answer::Broken);
    assert!(fixture.poller.wait(&mut fixture.events, None).is_err());
    assert!(!fixture.events.was_woken());
    fixture.wait(reports([(3, Ready::READABLE)]));
    assert!(fixture.events.was_woken());
}
