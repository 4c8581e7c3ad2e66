//! Tests interleavings of the senders and the receiver of an inbox. The shipped files run over
//! loom's lock.
//!
//! Senders send. The receiver sleeps until it is woken, drains, and repeats this until it has all
//! values. A lost wake-up or a lost value leaves it asleep for ever, which loom reports as a
//! deadlock. Each mutant has one wrong step, which loom must find.

#![cfg(evcore_loom)]

#[path = "../src/channel.rs"]
mod channel;
#[path = "../src/send_error.rs"]
pub mod send_error;
#[path = "../src/sync.rs"]
#[allow(dead_code, unused_imports, reason = "the crate uses the rest")]
mod sync;

// These tests use the `Arc` of the standard library. loom's `Arc` panics if it is dropped after a
// deadlock, and that panic aborts the test.
use std::collections::VecDeque;
use std::mem;
use std::sync::Arc;
use std::sync::atomic::Ordering::{Relaxed, SeqCst};

use evcore_posted::Inbox;
use loom::sync::atomic::fence;
use loom::sync::{Condvar, Mutex};
use loom::thread;
use send_error::SendError;

/// The place where the receiver sleeps. A wake-up lasts until a wait has consumed it.
#[derive(Default)]
struct Parker {
    woken: Mutex<bool>,
    changed: Condvar,
    /// This is an atomic of the standard library, which orders nothing for loom.
    wakes: std::sync::atomic::AtomicUsize,
}

impl Parker {
    fn wake(&self) {
        self.wakes.fetch_add(1, Relaxed);
        *self.woken.lock().unwrap() = true;
        self.changed.notify_one();
    }

    fn wait(&self) {
        let mut woken = self.woken.lock().unwrap();
        while !*woken {
            woken = self.changed.wait(woken).unwrap();
        }
        *woken = false;
    }

    fn wakes(&self) -> usize {
        self.wakes.load(Relaxed)
    }
}

type Channel = channel::Channel<u32, Box<dyn Fn() + Send + Sync>>;
type Sent = Result<(), SendError<u32>>;

fn channel(limit: usize, parker: &Arc<Parker>) -> Arc<Channel> {
    let parker = Arc::clone(parker);
    let wake = move || parker.wake();
    Arc::new(Channel::new(limit, Box::new(wake)))
}

/// The steps of both sides. A mutant has one wrong step.
#[derive(Clone, Copy)]
struct Steps {
    send: fn(&Channel, u32) -> Sent,
    take: fn(&Channel, &mut VecDeque<u32>),
    put_back: fn(&Channel, &mut VecDeque<u32>),
    close: fn(&Channel) -> VecDeque<u32>,
}

const SOUND: Steps = Steps {
    send: |channel, value| channel.send(value),
    take: |channel, batch| channel.take(batch),
    put_back: |channel, batch| channel.put_back(batch),
    close: |channel| channel.close(),
};

/// Senders that send `values` values each to a receiver with a budget.
#[derive(Clone, Copy)]
struct Model {
    senders: u32,
    values: u32,
    limit: usize,
    /// Number of values that the receiver handles each time it is woken.
    budget: usize,
}

const ROOMY: Model = Model {
    senders: 2,
    values: 2,
    limit: usize::MAX,
    budget: usize::MAX,
};

/// The receiver handles one value per drain, and puts the others back.
const WITH_BUDGET: Model = Model { budget: 1, ..ROOMY };

/// Room for two values, so that the receiver has values in hand while others are sent.
const BOUNDED: Model = Model { limit: 2, ..ROOMY };

/// Room for one value, so that senders have to wait for room.
const WAITING: Model = Model {
    values: 1,
    limit: 1,
    ..ROOMY
};

const PATIENT: Steps = Steps {
    send: |channel, value| channel.send_until(value, None),
    ..SOUND
};

fn value(sender: u32, n: u32) -> u32 {
    10 * sender + n
}

fn by_sender(received: &[u32], sender: u32) -> Vec<u32> {
    let of_sender = received.iter().filter(|value| **value / 10 == sender);
    of_sender.copied().collect()
}

/// Returns whether a value was sent. Asserts that a refused value was handed back.
fn was_sent(value: u32, sent: Sent) -> bool {
    sent.map_err(|refused| assert_eq!(refused.into_value(), value))
        .is_ok()
}

impl Model {
    /// Runs the model in all interleavings if that takes only seconds, and otherwise in those with
    /// at most 3 preemptions. (CI sets `LOOM_MAX_PREEMPTIONS=3`, which limits every model.)
    fn check(self, body: impl Fn() + Sync + Send + 'static) {
        let mut model = loom::model::Builder::new();
        if self.values > 1 {
            model.preemption_bound = Some(3);
        }
        model.check(body);
    }

    fn spawn(self, channel: &Arc<Channel>, send: fn(&Channel, u32) -> Sent) -> Vec<Sending> {
        let sending = |sender| {
            let channel = Arc::clone(channel);
            let values = (0..self.values).map(move |n| value(sender, n));
            thread::spawn(move || {
                values
                    .filter(|v| was_sent(*v, send(&channel, *v)))
                    .collect()
            })
        };
        (0..self.senders).map(sending).collect()
    }

    fn count(self) -> usize {
        (self.senders * self.values) as usize
    }

    /// Every value arrives once and in order at a receiver that sleeps in between.
    fn assert_all_arrive(self, steps: Steps) {
        self.check(move || {
            let parker = Arc::new(Parker::default());
            let channel = channel(self.limit, &parker);
            let senders = self.spawn(&channel, steps.send);

            let (mut received, mut batch, mut drains) = (Vec::new(), VecDeque::new(), 0);
            while received.len() < self.count() {
                parker.wait();
                assert!(parker.wakes() <= drains + 1, "woken more than once");
                (steps.take)(&channel, &mut batch);
                for _ in 0..self.budget {
                    received.extend(channel.next(&mut batch));
                    if batch.is_empty() {
                        break;
                    }
                }
                (steps.put_back)(&channel, &mut batch);
                drains += 1;
            }

            for (sender, sending) in (0..).zip(senders) {
                let sent = sending.join().unwrap();
                assert_eq!(
                    by_sender(&received, sender),
                    sent,
                    "not in the order of sending"
                );
            }
        });
    }

    /// Every value that a full inbox did not hand back arrives, and the inbox keeps to its limit.
    fn assert_sent_values_arrive(self, steps: Steps) {
        self.check(move || {
            let parker = Arc::new(Parker::default());
            let channel = channel(self.limit, &parker);
            let senders = self.spawn(&channel, steps.send);

            let (mut received, mut batch) = (Vec::new(), VecDeque::new());
            for _ in 0..2 {
                (steps.take)(&channel, &mut batch);
                self.assert_limit(&channel, &batch);
                received.extend(channel.next(&mut batch));
                self.assert_limit(&channel, &batch);
                (steps.put_back)(&channel, &mut batch);
                self.assert_limit(&channel, &batch);
            }

            let sent: Vec<_> = senders.into_iter().map(|s| s.join().unwrap()).collect();
            self.assert_limit(&channel, &batch);
            channel.take(&mut batch);
            received.extend(batch);
            for (sender, sent) in (0..).zip(sent) {
                assert_eq!(
                    by_sender(&received, sender),
                    sent,
                    "not in the order of sending"
                );
            }
        });
    }

    fn assert_limit(self, channel: &Channel, batch: &VecDeque<u32>) {
        let held = channel.queue.lock().waiting.len() + batch.len();
        assert!(held <= self.limit, "above the limit");
    }

    /// A value that is sent while the inbox is dropped is handed back or dropped with it.
    fn assert_no_value_leaks(self, steps: Steps) {
        self.check(move || {
            let channel = channel(self.limit, &Arc::default());
            let senders = self.spawn(&channel, steps.send);
            let mut dropped: Vec<_> = (steps.close)(&channel).into();
            let sent = senders.into_iter().flat_map(|s| s.join().unwrap());
            let mut sent: Vec<_> = sent.collect();
            sent.sort_unstable();
            dropped.sort_unstable();
            assert_eq!(dropped, sent, "a value leaked");
        });
    }
}

/// A running sender; returns the values that were not handed back.
type Sending = thread::JoinHandle<Vec<u32>>;

#[test]
fn two_senders_reach_a_sleeping_receiver() {
    for values in [1, 2] {
        let model = Model { values, ..ROOMY };
        model.assert_all_arrive(SOUND);
    }
}

#[test]
fn a_receiver_with_a_budget_of_one_receives_all() {
    for values in [1, 2] {
        let model = Model {
            values,
            ..WITH_BUDGET
        };
        model.assert_all_arrive(SOUND);
    }
}

#[test]
fn a_full_inbox_hands_back_the_values_that_it_refuses() {
    for limit in [1, 2] {
        let model = Model { limit, ..ROOMY };
        model.assert_sent_values_arrive(SOUND);
    }
}

#[test]
fn a_sender_that_waits_for_room_gets_a_place() {
    WAITING.assert_all_arrive(PATIENT);
    let alone = Model {
        senders: 1,
        values: 2,
        budget: 1,
        ..WAITING
    };
    alone.assert_all_arrive(PATIENT);
}

#[test]
fn closing_an_inbox_leaks_no_value() {
    ROOMY.assert_no_value_leaks(SOUND);
}

#[test]
fn closing_an_inbox_ends_the_wait_for_room() {
    WAITING.assert_no_value_leaks(PATIENT);
}

#[test]
fn the_public_types_combine_the_steps_correctly() {
    ROOMY.check(|| {
        let parker = Arc::new(Parker::default());
        let wake = Arc::clone(&parker);
        let mut inbox = Inbox::bounded(4, move || wake.wake());
        let senders = [0, 1].map(|sender| {
            let inbox = inbox.sender();
            thread::spawn(move || {
                assert!(inbox.send(value(sender, 0)).is_ok());
                assert!(inbox.send(value(sender, 1)).is_ok());
            })
        });
        let mut received = Vec::new();
        while received.len() < 4 {
            parker.wait();
            received.extend(inbox.drain().take(1));
        }
        for (sender, sending) in (0..).zip(senders) {
            sending.join().unwrap();
            let sent = [value(sender, 0), value(sender, 1)];
            assert_eq!(by_sender(&received, sender), sent);
        }
    });
}

#[test]
#[should_panic(expected = "deadlock")]
fn a_sender_must_not_wake_before_it_has_queued() {
    ROOMY.assert_all_arrive(Steps {
        send: |channel, value| {
            if channel.queue.lock().waiting.is_empty() {
                (channel.wake)();
            }
            channel.push(value).map(drop)
        },
        ..SOUND
    });
}

#[test]
#[should_panic(expected = "deadlock")]
fn a_sender_must_check_before_queueing_under_the_same_lock() {
    ROOMY.assert_all_arrive(Steps {
        send: |channel, value| {
            let must_wake = channel.queue.lock().waiting.is_empty();
            channel.push(value)?;
            if must_wake {
                (channel.wake)();
            }
            Ok(())
        },
        ..SOUND
    });
}

#[test]
#[should_panic(expected = "deadlock")]
fn a_sender_must_check_after_queueing_under_the_same_lock() {
    let model = Model { values: 1, ..ROOMY };
    model.assert_all_arrive(Steps {
        send: |channel, value| {
            channel.push(value)?;
            if channel.queue.lock().waiting.len() == 1 {
                (channel.wake)();
            }
            Ok(())
        },
        ..SOUND
    });
}

#[test]
#[should_panic(expected = "woken more than once")]
fn a_sender_must_not_wake_for_every_value() {
    ROOMY.assert_all_arrive(Steps {
        send: |channel, value| {
            channel.push(value)?;
            (channel.wake)();
            Ok(())
        },
        ..SOUND
    });
}

#[test]
#[should_panic(expected = "deadlock")]
fn a_receiver_that_puts_values_back_must_wake() {
    WITH_BUDGET.assert_all_arrive(Steps {
        put_back: |channel, batch| {
            if !batch.is_empty() {
                channel.push_front(batch);
            }
        },
        ..SOUND
    });
}

#[test]
#[should_panic(expected = "not in the order of sending")]
fn values_put_back_must_go_before_newer_ones() {
    WITH_BUDGET.assert_all_arrive(Steps {
        put_back: |channel, batch| {
            let mut queue = channel.queue.lock();
            let must_wake = queue.waiting.is_empty() && !batch.is_empty();
            queue.waiting.append(batch);
            drop(queue);
            if must_wake {
                (channel.wake)();
            }
        },
        ..SOUND
    });
}

#[test]
#[should_panic(expected = "woken more than once")]
fn a_receiver_must_not_wake_when_newer_values_are_queued() {
    WITH_BUDGET.assert_all_arrive(Steps {
        put_back: |channel, batch| {
            if !batch.is_empty() {
                channel.push_front(batch);
                (channel.wake)();
            }
        },
        ..SOUND
    });
}

#[test]
#[should_panic(expected = "deadlock")]
fn the_queue_must_be_taken_under_one_lock() {
    ROOMY.assert_all_arrive(Steps {
        take: |channel, batch| {
            batch.extend(channel.queue.lock().waiting.iter());
            channel.queue.lock().waiting.clear();
        },
        ..SOUND
    });
}

#[test]
#[should_panic(expected = "above the limit")]
fn a_sender_must_check_the_limit_under_the_same_lock() {
    BOUNDED.assert_sent_values_arrive(Steps {
        send: |channel, value| {
            let held = channel.queue.lock().waiting.len() + channel.in_hand.load(Relaxed);
            if held >= channel.limit {
                return Err(SendError::Full(value));
            }
            channel.queue.lock().waiting.push_back(value);
            Ok(())
        },
        ..SOUND
    });
}

#[test]
#[should_panic(expected = "above the limit")]
fn a_sender_must_read_in_hand_under_the_lock() {
    BOUNDED.assert_sent_values_arrive(Steps {
        send: |channel, value| {
            let in_hand = channel.in_hand.load(Relaxed);
            let mut queue = channel.queue.lock();
            if queue.waiting.len() + in_hand >= channel.limit {
                return Err(SendError::Full(value));
            }
            queue.waiting.push_back(value);
            Ok(())
        },
        ..SOUND
    });
}

#[test]
#[should_panic(expected = "above the limit")]
fn values_taken_must_be_counted_under_the_lock() {
    BOUNDED.assert_sent_values_arrive(Steps {
        take: |channel, batch| {
            mem::swap(batch, &mut channel.queue.lock().waiting);
            channel.in_hand.store(batch.len(), Relaxed);
        },
        ..SOUND
    });
}

#[test]
#[should_panic(expected = "above the limit")]
fn values_put_back_must_be_counted_until_they_are_queued() {
    BOUNDED.assert_sent_values_arrive(Steps {
        put_back: |channel, batch| {
            channel.in_hand.store(0, Relaxed);
            channel.put_back(batch);
        },
        ..SOUND
    });
}

#[test]
#[should_panic(expected = "a value leaked")]
fn a_sender_must_check_for_closing_under_the_same_lock() {
    ROOMY.assert_no_value_leaks(Steps {
        send: |channel, value| {
            if channel.queue.lock().closed {
                return Err(SendError::Closed(value));
            }
            channel.queue.lock().waiting.push_back(value);
            Ok(())
        },
        ..SOUND
    });
}

#[test]
#[should_panic(expected = "a value leaked")]
fn the_inbox_must_close_and_empty_under_one_lock() {
    ROOMY.assert_no_value_leaks(Steps {
        close: |channel| {
            let dropped = mem::take(&mut channel.queue.lock().waiting);
            channel.queue.lock().closed = true;
            dropped
        },
        ..SOUND
    });
}

#[test]
#[should_panic(expected = "deadlock")]
fn a_sender_must_look_for_room_after_setting_the_flag() {
    WAITING.assert_all_arrive(Steps {
        send: |channel, value| {
            let mut queue = channel.queue.lock();
            while channel.is_full(&queue) {
                channel.has_waiting.store(true, Relaxed);
                fence(SeqCst);
                (queue, _) = channel.room.wait(queue, None);
            }
            channel.push_locked(&mut queue, value)?;
            drop(queue);
            (channel.wake)();
            Ok(())
        },
        ..PATIENT
    });
}

#[test]
#[should_panic(expected = "deadlock")]
fn a_receiver_must_look_for_waiting_senders_after_a_fence() {
    WAITING.assert_all_arrive(Steps {
        put_back: |channel, batch| {
            assert!(batch.is_empty());
            if channel.has_waiting.load(Relaxed) {
                channel.notify_room();
            }
        },
        ..PATIENT
    });
}

#[test]
#[should_panic(expected = "deadlock")]
fn a_receiver_must_not_notify_before_a_sender_waits() {
    WAITING.assert_all_arrive(Steps {
        put_back: |channel, batch| {
            assert!(batch.is_empty());
            fence(SeqCst);
            if channel.has_waiting.load(Relaxed) {
                channel.has_waiting.store(false, Relaxed);
                channel.room.notify_all();
            }
        },
        ..PATIENT
    });
}

#[test]
#[should_panic(expected = "deadlock")]
fn the_inbox_must_notify_waiting_senders_when_it_closes() {
    WAITING.assert_no_value_leaks(Steps {
        close: |channel| {
            let mut queue = channel.queue.lock();
            queue.closed = true;
            mem::take(&mut queue.waiting)
        },
        ..PATIENT
    });
}
