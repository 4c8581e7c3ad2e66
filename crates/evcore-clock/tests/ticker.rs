//! Tests tickers (descriptors that become readable once per period). On a system without tickers,
//! only the refusal of a period out of range is tested.

use std::{os::fd::AsFd, time::Duration};

use evcore_clock::{SystemTimeSource, Ticker, TickerError, TimeSource};
use rustix::event::{PollFd, PollFlags, poll};

fn ticker(period: Duration) -> Option<Ticker> {
    match Ticker::every(period) {
        Ok(ticker) => Some(ticker),
        Err(TickerError::Unsupported) => None,
        Err(error) => panic!("{error}"),
    }
}

fn now_ns() -> u64 {
    SystemTimeSource::utc().monotonic_ns()
}

fn await_tick(ticker: &Ticker) {
    let mut fds = [PollFd::new(ticker, PollFlags::IN)];
    while poll(&mut fds, None) != Ok(1) {}
    assert_eq!(fds[0].revents(), PollFlags::IN);
}

fn is_readable(ticker: &Ticker) -> bool {
    let mut fds = [PollFd::new(ticker, PollFlags::IN)];
    let zero = Duration::ZERO.try_into().unwrap();
    poll(&mut fds, Some(&zero)).unwrap() == 1
}

#[test]
fn no_tick_comes_before_its_period_has_passed() {
    let period = Duration::from_millis(3);
    let start_ns = now_ns();
    let Some(mut ticker) = ticker(period) else {
        return;
    };
    let mut ticks = 0;
    while ticks < 5 {
        await_tick(&ticker);
        ticks += ticker.acknowledge().unwrap();
        let passed = Duration::from_nanos(now_ns() - start_ns);
        assert!(passed >= period * u32::try_from(ticks).unwrap());
    }
}

#[test]
fn a_ticker_is_readable_until_it_is_acknowledged() {
    let Some(mut ticker) = ticker(Ticker::PERIOD_MAX) else {
        return;
    };
    assert!(!is_readable(&ticker));
    assert_eq!(ticker.acknowledge().unwrap(), 0, "no tick yet");

    ticker = Ticker::every(Duration::from_millis(1)).unwrap();
    await_tick(&ticker);
    assert!(is_readable(&ticker), "readable until it is acknowledged");
    assert!(ticker.acknowledge().unwrap() >= 1);
}

#[test]
fn missed_ticks_are_counted() {
    let Some(mut ticker) = ticker(Duration::from_micros(100)) else {
        return;
    };
    let start_ns = now_ns();
    while now_ns() - start_ns < 1_000_000 {}
    assert!(ticker.acknowledge().unwrap() >= 10);
}

#[test]
fn a_period_out_of_range_is_refused_with_the_range() {
    let nanosecond = Duration::from_nanos(1);
    for period in [
        Duration::ZERO,
        Ticker::PERIOD_MAX + nanosecond,
        Duration::MAX,
    ] {
        let refusal = Ticker::every(period).unwrap_err();
        assert!(matches!(refusal, TickerError::Period { period: named } if named == period));
        assert!(refusal.to_string().contains("at most a day"), "{refusal}");
        let refusal = std::io::Error::from(refusal);
        assert_eq!(refusal.kind(), std::io::ErrorKind::InvalidInput);
    }
}

#[test]
fn the_shortest_and_the_longest_period_are_accepted() {
    for period in [Duration::from_nanos(1), Ticker::PERIOD_MAX] {
        if let Some(ticker) = ticker(period) {
            assert_eq!(ticker.period(), period);
            let _ = ticker.as_fd();
        }
    }
}
