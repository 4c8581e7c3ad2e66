//! Tests an inbox whose sender and receiver run in one thread.

use std::cell::Cell;
use std::mem;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

use evcore_posted::{Inbox, SendError, Sender};
use proptest::prelude::*;

/// Counts the calls that would end the receiver's wait.
#[derive(Clone, Default)]
struct Wakes(Arc<AtomicUsize>);

impl Wakes {
    fn wake(&self) -> impl Fn() + Send + Sync + 'static {
        let Self(count) = self.clone();
        move || {
            count.fetch_add(1, Relaxed);
        }
    }

    fn count(&self) -> usize {
        self.0.load(Relaxed)
    }
}

fn roomy<T>() -> (Inbox<T>, Sender<T>, Wakes) {
    let wakes = Wakes::default();
    let inbox = Inbox::bounded(1_000, wakes.wake());
    let sender = inbox.sender();
    (inbox, sender, wakes)
}

#[test]
fn sends_to_an_empty_inbox_wake_once() {
    let (mut inbox, sender, wakes) = roomy();
    for round in 1..4 {
        for value in 0..3 {
            sender.send(value).unwrap();
            assert_eq!(wakes.count(), round);
        }
        assert!(inbox.drain().eq(0..3));
    }
}

#[test]
fn a_drain_that_leaves_nothing_does_not_wake() {
    let (mut inbox, sender, wakes) = roomy();
    sender.send(1).unwrap();
    assert!(inbox.drain().take(1).eq([1]));
    assert!(inbox.drain().eq([]));
    assert_eq!(wakes.count(), 1);
}

#[test]
fn values_left_by_a_budget_wake_again_and_come_first() {
    let (mut inbox, sender, wakes) = roomy();
    (0..5).for_each(|value| sender.send(value).unwrap());
    assert!(inbox.drain().take(2).eq([0, 1]));
    assert_eq!(wakes.count(), 2);
    sender.send(5).unwrap();
    assert_eq!(wakes.count(), 2, "the receiver was woken already");
    assert!(inbox.drain().eq(2..6));
}

#[test]
fn a_value_sent_during_a_drain_waits_for_the_next_drain() {
    let (mut inbox, sender, wakes) = roomy();
    sender.send(1).unwrap();
    for value in inbox.drain() {
        sender.send(value + 1).unwrap();
    }
    assert_eq!((inbox.len(), wakes.count()), (1, 2));
    assert!(inbox.drain().eq([2]));
}

#[test]
fn a_forgotten_drain_loses_no_value() {
    let (mut inbox, sender, _) = roomy();
    (0..3).for_each(|value| sender.send(value).unwrap());
    let mut drain = inbox.drain();
    assert_eq!(drain.next(), Some(0));
    mem::forget(drain);
    sender.send(3).unwrap();
    assert_eq!(inbox.len(), 3);
    assert!(inbox.drain().eq(1..4));
}

#[test]
fn a_panic_during_a_drain_loses_only_its_own_value() {
    let (mut inbox, sender, wakes) = roomy();
    (0..3).for_each(|value| sender.send(value).unwrap());
    let handle = |value| assert_ne!(value, 0, "expected");
    let panicked = catch_unwind(AssertUnwindSafe(|| inbox.drain().for_each(handle)));
    assert!(panicked.is_err());
    assert_eq!(wakes.count(), 2, "the values that are left wake again");
    assert!(inbox.drain().eq([1, 2]));
}

#[test]
fn a_full_inbox_hands_values_back_until_one_is_yielded() {
    let mut inbox = Inbox::bounded(2, || {});
    let sender = inbox.sender();
    sender.send(1).unwrap();
    sender.send(2).unwrap();
    assert_eq!(sender.send(3), Err(SendError::Full(3)));

    let mut drain = inbox.drain();
    assert_eq!(sender.send(3), Err(SendError::Full(3)), "none was yielded");
    assert_eq!(drain.next(), Some(1));
    assert_eq!(sender.send(3), Ok(()), "there is room for one");
    assert_eq!(sender.send(4), Err(SendError::Full(4)));
    drop(drain);
    assert_eq!(sender.send(4), Err(SendError::Full(4)));
    assert!(inbox.drain().eq([2, 3]));
}

#[test]
#[should_panic(expected = "at least one value")]
fn an_inbox_with_a_limit_of_zero_is_refused() {
    drop(Inbox::<()>::bounded(0, || {}));
}

#[test]
fn a_dropped_inbox_drops_its_values_and_hands_back_the_rest() {
    let (mut inbox, sender, wakes) = roomy();
    let value = Arc::new(());
    (0..4).for_each(|_| sender.send(Arc::clone(&value)).unwrap());
    mem::forget(inbox.drain().skip(1));
    sender.send(Arc::clone(&value)).unwrap();
    let woken = wakes.count();

    assert!(!sender.is_closed());
    drop(inbox);
    assert!(sender.is_closed());
    assert_eq!(Arc::strong_count(&value), 1);
    assert_eq!(sender.send(value.clone()), Err(SendError::Closed(value)));
    assert_eq!(wakes.count(), woken, "there is no receiver to wake");
}

thread_local! {
    static DROPPED: Cell<u32> = const { Cell::new(0) };
}

/// Counts its drops, takes the lock of its own inbox when dropped, and panics if `panics` is set.
struct Awkward {
    back: Sender<Awkward>,
    panics: bool,
}

impl Drop for Awkward {
    fn drop(&mut self) {
        DROPPED.set(DROPPED.get() + 1);
        assert!(self.back.is_closed(), "dropped by an open inbox");
        assert!(!self.panics, "as expected");
    }
}

#[test]
fn a_value_that_panics_on_drop_does_not_leak_the_others() {
    let (inbox, sender, _) = roomy();
    for n in 0..5 {
        let (back, panics) = (sender.clone(), n == 1);
        sender.send(Awkward { back, panics }).unwrap();
    }
    let panicked = catch_unwind(AssertUnwindSafe(|| drop(inbox)));
    assert!(panicked.is_err());
    assert_eq!(DROPPED.get(), 5);
}

#[test]
fn values_need_not_be_debug_or_sync() {
    fn sendable<T: Send + Sync + Clone>(_: &T) {}
    fn movable<T: Send>(_: &T) {}
    struct Job(#[expect(dead_code, reason = "the field makes the type not `Sync`")] Cell<u32>);

    let mut inbox = Inbox::bounded(8, || {});
    let sender = inbox.sender();
    sendable(&sender);
    movable(&inbox);
    sender.send(Job(Cell::new(1))).unwrap();
    assert_eq!(format!("{inbox:?}"), "Inbox { len: 1, limit: 8, .. }");
    assert_eq!(format!("{sender:?}"), "Sender { closed: false, .. }");
    assert_eq!(format!("{:?}", inbox.drain()), "Drain { len: 1, .. }");
}

#[derive(Clone, Copy, Debug)]
enum Operation {
    Send,
    /// Takes `budget` values, and sends `answers` values for each.
    Drain {
        budget: usize,
        answers: usize,
    },
    Forget {
        budget: usize,
    },
}

fn operation() -> impl Strategy<Value = Operation> {
    prop_oneof![
        6 => Just(Operation::Send),
        3 => (0..6usize, 0..3usize)
            .prop_map(|(budget, answers)| Operation::Drain { budget, answers }),
        1 => (0..6usize).prop_map(|budget| Operation::Forget { budget }),
    ]
}

struct Oracle {
    in_hand: Vec<u32>,
    waiting: Vec<u32>,
    limit: usize,
    wakes: usize,
}

impl Oracle {
    fn send(&mut self, value: u32) -> Result<(), SendError<u32>> {
        if self.in_hand.len() + self.waiting.len() >= self.limit {
            return Err(SendError::Full(value));
        }
        self.wakes += usize::from(self.waiting.is_empty());
        self.waiting.push(value);
        Ok(())
    }

    fn take(&mut self) {
        self.in_hand.append(&mut self.waiting);
    }

    fn next(&mut self) -> Option<u32> {
        (!self.in_hand.is_empty()).then(|| self.in_hand.remove(0))
    }

    fn put_back(&mut self) {
        self.wakes += usize::from(self.waiting.is_empty() && !self.in_hand.is_empty());
        self.in_hand.append(&mut self.waiting);
        mem::swap(&mut self.in_hand, &mut self.waiting);
    }
}

proptest! {
    #[test]
    fn an_inbox_agrees_with_the_oracle(
        limit in prop_oneof![1..8usize, Just(usize::MAX)],
        operations in prop::collection::vec(operation(), 0..100),
    ) {
        let wakes = Wakes::default();
        let mut inbox = Inbox::bounded(limit, wakes.wake());
        let mut oracle = Oracle { in_hand: vec![], waiting: vec![], limit, wakes: 0 };
        let sender = inbox.sender();
        let mut values = 0..;
        for operation in operations {
            match operation {
                Operation::Send => {
                    let value = values.next().expect("an unlimited range");
                    prop_assert_eq!(sender.send(value), oracle.send(value));
                }
                Operation::Drain { budget, answers } => {
                    oracle.take();
                    let mut drain = inbox.drain();
                    prop_assert_eq!(drain.len(), oracle.in_hand.len());
                    for _ in 0..budget {
                        prop_assert_eq!(drain.next(), oracle.next());
                        for value in values.by_ref().take(answers) {
                            prop_assert_eq!(sender.send(value), oracle.send(value));
                        }
                    }
                    drop(drain);
                    oracle.put_back();
                }
                Operation::Forget { budget } => {
                    oracle.take();
                    let mut drain = inbox.drain();
                    for _ in 0..budget {
                        prop_assert_eq!(drain.next(), oracle.next());
                    }
                    mem::forget(drain);
                }
            }
            prop_assert_eq!(wakes.count(), oracle.wakes);
            let waiting = oracle.in_hand.len() + oracle.waiting.len();
            prop_assert_eq!(inbox.len(), waiting);
            prop_assert_eq!(inbox.is_empty(), waiting == 0);
        }
        oracle.take();
        prop_assert!(inbox.drain().eq(oracle.in_hand));
    }
}
