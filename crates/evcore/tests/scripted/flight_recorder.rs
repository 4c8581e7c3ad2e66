//! The records of a loop, and the flight recorder that keeps the last of them.

use std::{os::fd::RawFd, time::Duration};

use evcore::{
    InstrumentOptions, Ready, Record, Timer, Token,
    balancer::{Leadership, Policy},
};

use crate::{
    fake_backend::Recorded,
    fixture::Fixture,
    script::{Tokens, script},
};

fn expected(tokens: Tokens) -> Vec<Record> {
    let registered = |(token, descriptor): (Token, Option<RawFd>)| Record::Registered {
        token,
        watched: descriptor.is_some(),
        descriptor,
    };
    let [a, b, c] = tokens.map(|(token, _)| token);
    let armed = |token, timer, deadline_ms| Record::Armed {
        token,
        timer,
        deadline_ms,
    };
    let planned = |listening| Record::Planned {
        listening,
        holds_lock: listening,
        accepts_at_most: None,
        leadership: Leadership::Keep,
        notified: None,
    };
    let began = |turn, at_ms: u64, events| Record::TurnBegan {
        turn,
        at_ns: at_ms * 1_000_000,
        events,
    };
    let ended = |took_ms: u64| Record::TurnEnded {
        took_ns: took_ms * 1_000_000,
    };
    vec![
        registered(tokens[0]),
        registered(tokens[1]),
        registered(tokens[2]),
        armed(c, Timer::WRITE, 1),
        armed(a, Timer::READ, 60_000),
        Record::Disarmed(a, Timer::READ),
        // The turn holds the lock and a client waits. So the batch is posted: its events are
        // delivered after the client.
        planned(true),
        Record::LockTaken,
        began(1, 1, 2),
        Record::Posted(b, Ready::WRITABLE),
        Record::Posted(a, Ready::READABLE),
        Record::Accepted(0),
        Record::LockReleased,
        Record::Woken,
        Record::Expired(c, Timer::WRITE),
        Record::Ready(b, Ready::WRITABLE),
        Record::Ready(a, Ready::READABLE),
        ended(7),
        planned(true),
        Record::LockTaken,
        began(2, 8, 2),
        Record::LockReleased,
        Record::Ready(a, Ready::READABLE),
        Record::Closed(b),
        Record::Stale(Some(b)),
        ended(0),
        planned(false),
        began(3, 8, 0),
        Record::ShuttingDown,
        Record::Evict(a),
    ]
}

#[test]
fn turns_are_recorded_in_their_order() {
    let (mut fixture, tokens) =
        script(|builder| builder.instruments(InstrumentOptions::new().flight_recorder(100)));
    let records: Vec<_> = fixture.ev.instruments().flight_records().collect();
    assert_eq!(records, expected(tokens));
}

#[test]
fn a_full_flight_recorder_keeps_the_last_records() {
    let (mut fixture, tokens) =
        script(|builder| builder.instruments(InstrumentOptions::new().flight_recorder(10)));
    let expected = expected(tokens);
    let records: Vec<_> = fixture.ev.instruments().flight_records().collect();
    assert_eq!(records, expected[expected.len() - 10..]);
}

#[test]
fn instruments_change_no_record_and_no_step() {
    let (mut bare, _) = script(|builder| builder);
    assert_eq!(bare.ev.instruments().flight_records().count(), 0);
    let (mut with_all, tokens) = script(|builder| {
        let timed = InstrumentOptions::new().watchdog(Duration::from_millis(3));
        builder.instruments(timed.histograms(true).flight_recorder(100))
    });
    assert!(
        with_all
            .ev
            .instruments()
            .flight_records()
            .eq(expected(tokens))
    );
    assert_eq!(with_all.ev.stats().slow_turns, 1);
    assert_eq!(steps(&bare), steps(&with_all));
}

/// The recorded actions of a loop except its registrations, whose descriptors differ from run to
/// run.
fn steps(fixture: &Fixture) -> Vec<Recorded> {
    let mut record = fixture.backend.record();
    record.retain(|entry| {
        use Recorded::{Add, Forget, Modify, Remove};
        !matches!(entry, Add(_) | Forget(_) | Modify(_) | Remove(_))
    });
    record
}

#[test]
fn posts_of_the_program_for_either_turn_are_recorded() {
    let mut fixture = Fixture::with_instruments(0, InstrumentOptions::new().flight_recorder(1));
    let token = fixture.join();
    for post in [evcore::EventLoop::post, evcore::EventLoop::post_next] {
        assert!(post(&mut fixture.ev, token, Ready::READABLE));
        let last = fixture.ev.instruments().flight_records().last();
        assert_eq!(last, Some(Record::Posted(token, Ready::READABLE)));
        fixture.turn();
    }
}

#[test]
fn a_post_of_another_thread_for_a_closed_token_is_recorded() {
    let mut fixture = Fixture::with_instruments(0, InstrumentOptions::new().flight_recorder(1));
    let token = fixture.join();
    fixture.leave(token);
    fixture.ev.handle().post(token, Ready::READABLE);
    fixture.wait();
    let last = fixture.ev.instruments().flight_records().last();
    assert_eq!(last, Some(Record::Stale(Some(token))));
}

#[test]
fn an_event_of_a_closed_listener_is_recorded() {
    let mut fixture = Fixture::with_instruments(1, InstrumentOptions::new().flight_recorder(1));
    fixture.turn();
    fixture.report_listeners(&[0]);
    fixture.wait();
    fixture.ev.listeners().close().unwrap();
    fixture.rest();
    let last = fixture.ev.instruments().flight_records().last();
    assert_eq!(last, Some(Record::Stale(None)));
}

#[test]
fn closing_the_listeners_records_the_release_of_the_lock() {
    let mut fixture = Fixture::built(1, |builder, backend| {
        let builder = builder.policy(Policy::mutex()).group(backend.clone());
        builder.instruments(InstrumentOptions::new().flight_recorder(1))
    });
    fixture.connect(0, 1);
    fixture.report_listeners(&[0]);
    fixture.wait();
    fixture.ev.listeners().close().unwrap();
    let last = fixture.ev.instruments().flight_records().last();
    assert_eq!(last, Some(Record::LockReleased));
}
