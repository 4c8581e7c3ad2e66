//! Stale events, whose registration is gone.

use super::*;

/// A poller that had a registration under key 9, which was removed before a close.
fn may_report_stale(capabilities: Capabilities) -> Fixture {
    let mut fixture = Fixture::new(capabilities);
    fixture.add(9, Interest::READ, Mode::Level).expect("add");
    fixture.poller.remove_before_close(9).expect("registered");
    fixture
}

#[test]
fn a_stale_event_is_dropped() {
    let (old, new) = ((1 << 32) | 3, (2 << 32) | 3);
    for capabilities in [ALL, NOTHING] {
        let mut fixture = may_report_stale(capabilities);
        fixture
            .add(new, Interest::BOTH, Mode::Oneshot)
            .expect("add");
        let answer = reports([
            (old, Ready::ERROR),
            (new, Ready::READABLE),
            (77, Ready::READABLE),
            (9, Ready::READABLE),
        ]);
        assert_eq!(fixture.wait(answer), [(new, Ready::READABLE)]);
    }
}

#[test]
fn an_event_of_a_reused_key_belongs_to_the_new_registration() {
    let mut fixture = may_report_stale(ALL);
    fixture.add(9, Interest::WRITE, Mode::Level).expect("add");
    let answer = reports([(9, Ready::READABLE)]);
    assert_eq!(fixture.wait(answer), [(9, Ready::READABLE)]);
}

#[test]
fn stale_events_with_others_rebuild_no_set() {
    let mut fixture = may_report_stale(ALL);
    fixture.add(3, Interest::READ, Mode::Level).expect("add");
    fixture.calls();
    fixture.wait(reports([(3, Ready::READABLE), (9, Ready::READABLE)]));
    assert_eq!(fixture.calls(), [Wait(None)]);
}

#[test]
fn stale_events_alone_rebuild_the_set_and_the_wait_goes_on() {
    let mut fixture = may_report_stale(ALL);
    fixture.add(3, Interest::READ, Mode::Level).expect("add");
    fixture.add(4, Interest::NONE, Mode::Level).expect("add");
    fixture.calls();
    let answers = [[(9, Ready::READABLE)], [(3, Ready::READABLE)]].map(reports);
    fixture.state().answers.extend(answers);
    assert_eq!(fixture.idle(), [(3, Ready::READABLE)]);
    let expected = [Wait(None), Reset, Add(3, Interest::READ), Wait(None)];
    assert_eq!(fixture.calls(), expected);
}

#[test]
fn a_stale_event_interrupts_a_wait_that_returns_on_signals() {
    let mut fixture = may_report_stale(ALL);
    fixture.events = Events::raw(4);
    let answer = reports([(9, Ready::READABLE)]);
    fixture.state().answers.push_back(answer);
    let waited = fixture.poller.wait(&mut fixture.events, Some(SECOND));
    assert!(matches!(waited, Err(Error::Interrupted)));
    assert!(fixture.events.is_empty());
}

#[test]
fn a_raw_wait_reports_stale_events_behind_others() {
    let mut fixture = may_report_stale(ALL);
    fixture.events = Events::raw(4);
    fixture.add(3, Interest::READ, Mode::Level).expect("add");
    let both = [(3, Ready::READABLE), (9, Ready::READABLE)];
    assert_eq!(fixture.wait(reports(both)), both);
    let error = [(3, Ready::ERROR | Ready::READABLE), (9, Ready::READABLE)];
    assert_eq!(
        fixture.wait(reports(error)),
        error[..1],
        "the stale event was dropped"
    );
}

#[test]
fn a_raw_wait_for_stale_events_alone_rebuilds_the_set() {
    let mut fixture = may_report_stale(ALL);
    fixture.events = Events::raw(4);
    fixture.add(3, Interest::READ, Mode::Level).expect("add");
    fixture.calls();
    let stale = reports([(9, Ready::READABLE), (9, Ready::READABLE)]);
    fixture.state().answers.push_back(stale);
    let waited = fixture.poller.wait(&mut fixture.events, None);
    assert!(matches!(waited, Err(Error::Interrupted)), "{waited:?}");
    assert_eq!(fixture.calls(), [Wait(None), Reset, Add(3, Interest::READ)]);
    let event = [(3, Ready::READABLE)];
    assert_eq!(fixture.wait(reports(event)), event);
}

#[test]
fn an_empty_interest_is_silent_even_if_raw() {
    let mut fixture = Fixture::new(ALL);
    fixture.events = Events::raw(4);
    for key in [3, 9] {
        fixture.add(key, Interest::READ, Mode::Level).expect("add");
    }
    fixture.state().refuses.push(9);
    fixture.modify(9, Interest::NONE);
    let both = [(3, Ready::READABLE), (9, Ready::READABLE)];
    assert_eq!(fixture.wait(reports(both)), both[..1]);
}

#[test]
fn a_fired_one_shot_stays_silent_in_the_new_set() {
    let mut fixture = may_report_stale(ALL);
    for key in [3, 4] {
        fixture
            .add(key, Interest::READ, Mode::Oneshot)
            .expect("add");
    }
    fixture.wait(reports([(3, Ready::READABLE)]));
    fixture.calls();
    fixture.wait(reports([(9, Ready::READABLE)]));
    let expected = [Wait(None), Reset, Add(4, Interest::READ), Wait(None)];
    assert_eq!(fixture.calls(), expected);
    fixture.modify(3, Interest::READ);
    fixture.idle();
    assert_eq!(fixture.calls(), [Add(3, Interest::READ), Wait(None)]);
}

#[test]
fn a_refusal_of_the_new_set_is_an_error_event() {
    let mut fixture = may_report_stale(ALL);
    fixture.add(3, Interest::READ, Mode::Level).expect("add");
    fixture.state().refuses.push(3);
    let answer = reports([(9, Ready::READABLE)]);
    let refusal = [(3, Ready::ERROR | Ready::READABLE)];
    assert_eq!(fixture.wait(answer), refusal);
    assert_eq!(fixture.idle(), [], "reported once");
}

#[test]
fn a_refused_removal_may_leave_a_stale_event() {
    for by_modify in [true, false] {
        let mut fixture = Fixture::new(ALL);
        fixture.add(9, Interest::READ, Mode::Level).expect("add");
        fixture.state().refuses.push(9);
        if by_modify {
            fixture.modify(9, Interest::NONE);
            fixture.idle();
        } else {
            assert!(fixture.poller.remove(9).is_err());
        }
        fixture.state().refuses.clear();
        fixture.calls();
        assert_eq!(fixture.wait(reports([(9, Ready::READABLE)])), []);
        assert_eq!(fixture.calls(), [Wait(None), Reset, Wait(None)]);
    }
}

#[test]
fn a_stale_event_ends_the_wait_if_there_is_no_new_set() {
    let mut fixture = may_report_stale(NOTHING);
    assert_eq!(fixture.wait(reports([(9, Ready::READABLE)])), []);
    let calls = fixture.calls();
    assert_eq!(calls[calls.len() - 2..], [Wait(None), Reset]);
}
