//! Tests inboxes between real threads: each value arrives once, and the values of one sender arrive
//! in order.

use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::thread::{self, park_timeout};
use std::time::{Duration, Instant};

use evcore_posted::{Inbox, SendError, Sender};

const SENDERS: usize = 4;
const VALUES: u32 = 100_000;

/// A wake-up that has not come after this time is lost.
const LOST: Duration = Duration::from_secs(60);

type Value = (usize, u32);

fn wait_for_a_wake_up() {
    let started = Instant::now();
    park_timeout(LOST);
    assert!(started.elapsed() < LOST, "a wake-up was lost");
}

/// Sends a range of values from each sender, and receives all, at most `budget` at a time.
fn assert_all_arrive(mut inbox: Inbox<Value>, budget: usize, send: fn(&Sender<Value>, Value)) {
    let senders = [(); SENDERS].map(|()| inbox.sender());
    thread::scope(|scope| {
        for (sender, inbox) in senders.into_iter().enumerate() {
            scope.spawn(move || (0..VALUES).for_each(|n| send(&inbox, (sender, n))));
        }
        let mut expected: [Range<u32>; SENDERS] = [const { 0..VALUES }; SENDERS];
        while expected.iter().any(|values| !values.is_empty()) {
            wait_for_a_wake_up();
            for (sender, value) in inbox.drain().take(budget) {
                assert_eq!(Some(value), expected[sender].next());
            }
        }
    });
    assert!(inbox.is_empty(), "a value came twice");
}

fn must_send(inbox: &Sender<Value>, value: Value) {
    inbox.send(value).expect("the limit is never reached");
}

fn send_until_accepted(inbox: &Sender<Value>, mut value: Value) {
    while let Err(refused) = inbox.send(value) {
        assert!(matches!(refused, SendError::Full(_)));
        value = refused.into_value();
        thread::yield_now();
    }
}

fn wait_until_accepted(inbox: &Sender<Value>, value: Value) {
    inbox
        .send_timeout(value, LOST)
        .expect("the receiver drains");
}

fn unpark() -> impl Fn() + Send + Sync + 'static {
    let this = thread::current();
    move || this.unpark()
}

#[test]
fn four_senders_never_reach_a_high_limit() {
    assert_all_arrive(Inbox::bounded(usize::MAX, unpark()), usize::MAX, must_send);
}

#[test]
fn four_senders_reach_a_receiver_with_a_budget() {
    assert_all_arrive(Inbox::bounded(usize::MAX, unpark()), 64, must_send);
}

#[test]
fn four_senders_retry_when_the_inbox_is_full() {
    assert_all_arrive(Inbox::bounded(100, unpark()), 64, send_until_accepted);
}

#[test]
fn four_senders_wait_for_room_when_the_inbox_is_full() {
    assert_all_arrive(Inbox::bounded(100, unpark()), 64, wait_until_accepted);
}

#[test]
fn a_value_that_waits_in_vain_is_handed_back() {
    let mut inbox = Inbox::bounded(1, || {});
    let sender = inbox.sender();
    for timeout in [Duration::ZERO, Duration::from_millis(1)] {
        assert_eq!(sender.send_timeout(1, timeout), Ok(()));
        assert_eq!(sender.send_timeout(2, timeout), Err(SendError::Full(2)));
        assert!(inbox.drain().eq([1]));
    }
    drop(inbox);
    let closed = sender.send_timeout(3, Duration::MAX);
    assert_eq!(closed, Err(SendError::Closed(3)));
}

#[test]
fn every_value_is_received_dropped_or_handed_back() {
    const EACH: usize = 1_000;
    let dropped = Arc::new(AtomicUsize::new(0));

    struct Counted(Arc<AtomicUsize>);
    impl Drop for Counted {
        fn drop(&mut self) {
            self.0.fetch_add(1, Relaxed);
        }
    }

    for _ in 0..20 {
        dropped.store(0, Relaxed);
        let mut inbox = Inbox::bounded(usize::MAX, unpark());
        let senders = [(); SENDERS].map(|()| inbox.sender());
        thread::scope(|scope| {
            for inbox in senders {
                let dropped = &dropped;
                scope.spawn(move || {
                    for _ in 0..EACH {
                        let _ = inbox.send(Counted(Arc::clone(dropped)));
                    }
                });
            }
            wait_for_a_wake_up();
            inbox.drain().for_each(drop);
            drop(inbox);
        });
        assert_eq!(dropped.load(Relaxed), SENDERS * EACH);
    }
}
