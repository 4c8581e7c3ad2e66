//! Real threads: each value is seen once, and those of one sender in their order.

use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::thread::{self, park_timeout};
use std::time::{Duration, Instant};

use evcore_posted::{Inbox, SendError, Sender};

const SENDERS: usize = 4;
const VALUES: u32 = 100_000;

/// Far more than any wake-up takes.
const LOST: Duration = Duration::from_secs(60);

type Value = (usize, u32);

fn wait_for_a_wake_up() {
    let begun = Instant::now();
    park_timeout(LOST);
    assert!(begun.elapsed() < LOST, "a wake-up was lost");
}

/// Sends a range from each of the senders, and receives it all, at most `budget` at a time.
fn all_arrives(mut inbox: Inbox<Value>, budget: usize, send: fn(&Sender<Value>, Value)) {
    let senders = [(); SENDERS].map(|()| inbox.sender());
    thread::scope(|scope| {
        for (me, inbox) in senders.into_iter().enumerate() {
            scope.spawn(move || (0..VALUES).for_each(|n| send(&inbox, (me, n))));
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
    inbox.send(value).expect("an inbox without a bound");
}

fn send_until_taken(inbox: &Sender<Value>, mut value: Value) {
    while let Err(refused) = inbox.send(value) {
        assert!(matches!(refused, SendError::Full(_)));
        value = refused.into_value();
        thread::yield_now();
    }
}

/// A call that ends the wait of the thread that makes it.
fn unpark() -> impl Fn() + Send + Sync + 'static {
    let this = thread::current();
    move || this.unpark()
}

#[test]
fn four_senders_fill_an_inbox_without_a_bound() {
    all_arrives(Inbox::bounded(usize::MAX, unpark()), usize::MAX, must_send);
}

#[test]
fn four_senders_meet_a_receiver_with_a_budget() {
    all_arrives(Inbox::bounded(usize::MAX, unpark()), 64, must_send);
}

#[test]
fn four_senders_try_again_where_there_is_a_bound() {
    all_arrives(Inbox::bounded(100, unpark()), 64, send_until_taken);
}

#[test]
fn a_value_is_received_or_dropped_or_handed_back() {
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
