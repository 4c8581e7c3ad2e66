//! What the kernel reports of registrations that are gone.

use super::*;

/// A poller that had a registration under key 9, which left without the kernel's word for it.
fn may_report_stale(capabilities: Capabilities) -> Fixture {
    let mut fixture = Fixture::new(capabilities);
    fixture.add(9, Interest::READ, Mode::Level).expect("add");
    fixture.poller.remove_before_close(9).expect("registered");
    fixture
}

#[test]
fn an_event_of_what_is_gone_is_dropped() {
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
fn an_event_under_a_key_that_was_used_again_is_its_new_owners() {
    let mut fixture = may_report_stale(ALL);
    fixture.add(9, Interest::WRITE, Mode::Level).expect("add");
    let answer = reports([(9, Ready::READABLE)]);
    assert_eq!(fixture.wait(answer), [(9, Ready::READABLE)]);
}

#[test]
fn ghosts_that_come_with_news_are_left_where_they_are() {
    let mut fixture = may_report_stale(ALL);
    fixture.add(3, Interest::READ, Mode::Level).expect("add");
    fixture.calls();
    fixture.wait(reports([(3, Ready::READABLE), (9, Ready::READABLE)]));
    assert_eq!(fixture.calls(), [Wait(None)]);
}

#[test]
fn ghosts_that_come_alone_are_laid_and_the_wait_goes_on() {
    let mut fixture = may_report_stale(ALL);
    fixture.add(3, Interest::READ, Mode::Level).expect("add");
    fixture.add(4, Interest::NONE, Mode::Level).expect("add");
    fixture.calls();
    let answers = [[(9, Ready::READABLE)], [(3, Ready::READABLE)]].map(reports);
    fixture.script().answers.extend(answers);
    assert_eq!(fixture.idle(), [(3, Ready::READABLE)]);
    let expected = [Wait(None), Reset, Add(3, Interest::READ), Wait(None)];
    assert_eq!(fixture.calls(), expected);
}

#[test]
fn a_wait_that_sees_signals_is_interrupted_by_a_ghost() {
    let mut fixture = may_report_stale(ALL);
    fixture.poller.return_on_signal(true);
    let answer = reports([(9, Ready::READABLE)]);
    fixture.script().answers.push_back(answer);
    let waited = fixture.poller.wait(&mut fixture.events, Some(SECOND));
    assert!(matches!(waited, Err(Error::Interrupted)));
    assert!(fixture.events.is_empty());
}

#[test]
fn who_asks_to_see_the_gone_is_told_of_them_behind_others() {
    let mut fixture = may_report_stale(ALL);
    fixture.poller.filter_stale(false);
    fixture.add(3, Interest::READ, Mode::Level).expect("add");
    let both = [(3, Ready::READABLE), (9, Ready::READABLE)];
    assert_eq!(fixture.wait(reports(both)), both);
    let error = [(3, Ready::ERROR | Ready::READABLE), (9, Ready::READABLE)];
    assert_eq!(
        fixture.wait(reports(error)),
        error[..1],
        "each was looked at"
    );
}

#[test]
fn ghosts_that_come_alone_are_laid_for_who_sees_the_gone_too() {
    let mut fixture = may_report_stale(ALL);
    fixture.poller.filter_stale(false);
    fixture.add(3, Interest::READ, Mode::Level).expect("add");
    fixture.calls();
    let answers = [[(9, Ready::READABLE)], [(3, Ready::READABLE)]].map(reports);
    fixture.script().answers.extend(answers);
    assert_eq!(fixture.idle(), [(3, Ready::READABLE)]);
    let expected = [Wait(None), Reset, Add(3, Interest::READ), Wait(None)];
    assert_eq!(fixture.calls(), expected);
}

#[test]
fn what_is_asked_no_more_is_not_reported_even_to_who_sees_the_gone() {
    let mut fixture = Fixture::new(ALL);
    fixture.poller.filter_stale(false);
    for key in [3, 9] {
        fixture.add(key, Interest::READ, Mode::Level).expect("add");
    }
    fixture.script().refuses.push(9);
    fixture.modify(9, Interest::NONE);
    let both = [(3, Ready::READABLE), (9, Ready::READABLE)];
    assert_eq!(fixture.wait(reports(both)), both[..1]);
}

#[test]
fn a_one_shot_that_reported_stays_silent_in_the_new_set() {
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
fn what_the_new_set_refuses_is_an_error_event() {
    let mut fixture = may_report_stale(ALL);
    fixture.add(3, Interest::READ, Mode::Level).expect("add");
    fixture.script().refuses.push(3);
    let answer = reports([(9, Ready::READABLE)]);
    let refusal = [(3, Ready::ERROR | Ready::READABLE)];
    assert_eq!(fixture.wait(answer), refusal);
    assert_eq!(fixture.idle(), [], "said once");
}

#[test]
fn a_removal_that_the_kernel_refused_may_leave_a_ghost() {
    for by_modify in [true, false] {
        let mut fixture = Fixture::new(ALL);
        fixture.add(9, Interest::READ, Mode::Level).expect("add");
        fixture.script().refuses.push(9);
        if by_modify {
            fixture.modify(9, Interest::NONE);
            fixture.idle();
        } else {
            assert!(fixture.poller.remove(9).is_err());
        }
        fixture.script().refuses.clear();
        fixture.calls();
        assert_eq!(fixture.wait(reports([(9, Ready::READABLE)])), []);
        assert_eq!(fixture.calls(), [Wait(None), Reset, Wait(None)]);
    }
}

#[test]
fn a_ghost_that_cannot_be_laid_ends_the_wait() {
    let mut fixture = may_report_stale(NOTHING);
    assert_eq!(fixture.wait(reports([(9, Ready::READABLE)])), []);
    let calls = fixture.calls();
    assert_eq!(calls[calls.len() - 2..], [Wait(None), Reset]);
}
