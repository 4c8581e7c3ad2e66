//! Every interleaving of an inbox's senders with its receiver: the file that ships, over loom's
//! lock.
//!
//! Senders send, and a receiver sleeps until it is woken and then drains, until it has all.
//! A wake-up that is lost, or a value, leaves it asleep for ever, which loom reports as a deadlock.
//! Each mutant does one step in the wrong place, and must be caught.

#![cfg(evcore_loom)]

#[path = "../src/mailbox.rs"]
mod mailbox;
#[path = "../src/send_error.rs"]
#[allow(unreachable_pub, reason = "public where it ships")]
mod send_error;
#[path = "../src/sync.rs"]
mod sync;

// The standard library's `Arc`: loom's panics in its `drop` after a deadlock, which aborts.
use std::collections::VecDeque;
use std::mem;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;

use evcore_posted::Inbox;
use loom::sync::{Condvar, Mutex};
use loom::thread;
use send_error::SendError;

/// What the receiver sleeps on: rung until a wait has seen it.
#[derive(Default)]
struct Bell {
    rung: Mutex<bool>,
    changed: Condvar,
    /// How often it was rung. The standard library's, so that it orders nothing.
    rings: std::sync::atomic::AtomicUsize,
}

impl Bell {
    fn ring(&self) {
        self.rings.fetch_add(1, Relaxed);
        *self.rung.lock().unwrap() = true;
        self.changed.notify_one();
    }

    fn wait(&self) {
        let mut rung = self.rung.lock().unwrap();
        while !*rung {
            rung = self.changed.wait(rung).unwrap();
        }
        *rung = false;
    }

    fn rings(&self) -> usize {
        self.rings.load(Relaxed)
    }
}

type Mailbox = mailbox::Mailbox<u32, Box<dyn Fn() + Send + Sync>>;
type Sent = Result<(), SendError<u32>>;

fn mailbox(limit: usize, bell: &Arc<Bell>) -> Arc<Mailbox> {
    let bell = Arc::clone(bell);
    let wake = move || bell.ring();
    Arc::new(Mailbox::new(limit, Box::new(wake)))
}

/// The steps of both sides: those that ship, or with one of them done wrongly.
#[derive(Clone, Copy)]
struct Steps {
    send: fn(&Mailbox, u32) -> Sent,
    take: fn(&Mailbox, &mut VecDeque<u32>),
    put_back: fn(&Mailbox, &mut VecDeque<u32>),
    close: fn(&Mailbox) -> VecDeque<u32>,
}

const SOUND: Steps = Steps {
    send: |mailbox, value| mailbox.send(value),
    take: |mailbox, batch| mailbox.take(batch),
    put_back: |mailbox, batch| mailbox.put_back(batch),
    close: |mailbox| mailbox.close(),
};

/// What a model does: so many senders, of so many values each, to a receiver with a budget.
#[derive(Clone, Copy)]
struct Model {
    senders: u32,
    values: u32,
    limit: usize,
    /// How many values the receiver handles each time it is woken.
    budget: usize,
}

const UNBOUNDED: Model = Model {
    senders: 2,
    values: 2,
    limit: usize::MAX,
    budget: usize::MAX,
};

/// The receiver handles one value at a time, so that it puts some back.
const WITH_BUDGET: Model = Model {
    budget: 1,
    ..UNBOUNDED
};

/// Two places, so that the receiver has values in hand while others come.
const BOUNDED: Model = Model {
    limit: 2,
    ..UNBOUNDED
};

/// Value `n`, from 0, of a sender.
fn value(sender: u32, n: u32) -> u32 {
    10 * sender + n
}

/// Each sender's values, in the order they came.
fn by_sender(got: &[u32], sender: u32) -> Vec<u32> {
    let mine = got.iter().filter(|value| **value / 10 == sender);
    mine.copied().collect()
}

/// Whether a value was taken; if not, it must have been handed back.
fn is_taken(value: u32, sent: Sent) -> bool {
    sent.map_err(|refused| assert_eq!(refused.into_value(), value))
        .is_ok()
}

impl Model {
    /// Runs the model in all interleavings where that takes seconds, else in those with few enough
    /// preemptions.
    fn check(self, body: impl Fn() + Sync + Send + 'static) {
        let mut model = loom::model::Builder::new();
        model.preemption_bound = (self.values > 1).then_some(3);
        model.check(body);
    }

    fn spawn(self, mailbox: &Arc<Mailbox>, send: fn(&Mailbox, u32) -> Sent) -> Vec<Sending> {
        let sending = |sender| {
            let mailbox = Arc::clone(mailbox);
            let values = (0..self.values).map(move |n| value(sender, n));
            thread::spawn(move || {
                values
                    .filter(|v| is_taken(*v, send(&mailbox, *v)))
                    .collect()
            })
        };
        (0..self.senders).map(sending).collect()
    }

    fn count(self) -> usize {
        (self.senders * self.values) as usize
    }

    /// An unbounded inbox brings everything once, in order, to a receiver that sleeps in between.
    fn all_arrives(self, steps: Steps) {
        self.check(move || {
            let bell = Arc::new(Bell::default());
            let mailbox = mailbox(self.limit, &bell);
            let senders = self.spawn(&mailbox, steps.send);

            let (mut got, mut batch, mut drains) = (Vec::new(), VecDeque::new(), 0);
            while got.len() < self.count() {
                bell.wait();
                assert!(bell.rings() <= drains + 1, "woken more often than once");
                (steps.take)(&mailbox, &mut batch);
                for _ in 0..self.budget {
                    got.extend(mailbox.next(&mut batch));
                    if batch.is_empty() {
                        break;
                    }
                }
                (steps.put_back)(&mailbox, &mut batch);
                drains += 1;
            }

            for (sender, sending) in (0..).zip(senders) {
                let sent = sending.join().unwrap();
                assert_eq!(by_sender(&got, sender), sent, "not as it was sent");
            }
        });
    }

    /// Whatever a bounded inbox takes arrives, and it holds no more than it may.
    fn what_is_taken_arrives(self, steps: Steps) {
        self.check(move || {
            let bell = Arc::new(Bell::default());
            let mailbox = mailbox(self.limit, &bell);
            let senders = self.spawn(&mailbox, steps.send);

            let (mut got, mut batch) = (Vec::new(), VecDeque::new());
            for _ in 0..2 {
                (steps.take)(&mailbox, &mut batch);
                self.assert_room(&mailbox, &batch);
                got.extend(mailbox.next(&mut batch));
                self.assert_room(&mailbox, &batch);
                (steps.put_back)(&mailbox, &mut batch);
                self.assert_room(&mailbox, &batch);
            }

            let sent: Vec<_> = senders.into_iter().map(|s| s.join().unwrap()).collect();
            self.assert_room(&mailbox, &batch);
            mailbox.take(&mut batch);
            got.extend(batch);
            for (sender, sent) in (0..).zip(sent) {
                assert_eq!(by_sender(&got, sender), sent, "not as it was sent");
            }
        });
    }

    fn assert_room(self, mailbox: &Mailbox, batch: &VecDeque<u32>) {
        let held = mailbox.queue.lock().waiting.len() + batch.len();
        assert!(held <= self.limit, "more than it may hold");
    }

    /// A value that is sent while the receiver leaves is handed back or dropped with the inbox.
    fn nothing_is_left_behind(self, steps: Steps) {
        self.check(move || {
            let mailbox = mailbox(self.limit, &Arc::default());
            let senders = self.spawn(&mailbox, steps.send);
            let mut dropped: Vec<_> = (steps.close)(&mailbox).into();
            let sent = senders.into_iter().flat_map(|s| s.join().unwrap());
            let mut sent: Vec<_> = sent.collect();
            sent.sort_unstable();
            dropped.sort_unstable();
            assert_eq!(dropped, sent, "left behind");
        });
    }
}

/// A sender at work; gives the values that were taken from it.
type Sending = thread::JoinHandle<Vec<u32>>;

#[test]
fn two_senders_reach_a_receiver_that_sleeps() {
    for values in [1, 2] {
        let model = Model {
            values,
            ..UNBOUNDED
        };
        model.all_arrives(SOUND);
    }
}

#[test]
fn a_receiver_that_handles_one_value_at_a_time_gets_all() {
    for values in [1, 2] {
        let model = Model {
            values,
            ..WITH_BUDGET
        };
        model.all_arrives(SOUND);
    }
}

#[test]
fn a_bounded_inbox_hands_back_what_it_does_not_take() {
    for limit in [1, 2] {
        let model = Model { limit, ..UNBOUNDED };
        model.what_is_taken_arrives(SOUND);
    }
}

#[test]
fn a_receiver_that_leaves_leaves_nothing_behind() {
    UNBOUNDED.nothing_is_left_behind(SOUND);
}

#[test]
fn the_public_types_put_the_steps_together_as_they_should_be() {
    UNBOUNDED.check(|| {
        let bell = Arc::new(Bell::default());
        let ring = Arc::clone(&bell);
        let mut inbox = Inbox::bounded(4, move || ring.ring());
        let senders = [0, 1].map(|sender| {
            let inbox = inbox.sender();
            thread::spawn(move || {
                assert!(inbox.send(value(sender, 0)).is_ok());
                assert!(inbox.send(value(sender, 1)).is_ok());
            })
        });
        let mut got = Vec::new();
        while got.len() < 4 {
            bell.wait();
            got.extend(inbox.drain().take(1));
        }
        for (sender, sending) in (0..).zip(senders) {
            sending.join().unwrap();
            let sent = [value(sender, 0), value(sender, 1)];
            assert_eq!(by_sender(&got, sender), sent);
        }
    });
}

#[test]
#[should_panic(expected = "deadlock")]
fn a_sender_must_not_wake_before_it_has_queued() {
    UNBOUNDED.all_arrives(Steps {
        send: |mailbox, value| {
            if mailbox.queue.lock().waiting.is_empty() {
                (mailbox.wake)();
            }
            mailbox.push(value).map(drop)
        },
        ..SOUND
    });
}

#[test]
#[should_panic(expected = "deadlock")]
fn a_sender_must_see_under_the_same_lock_whether_it_is_the_first() {
    UNBOUNDED.all_arrives(Steps {
        send: |mailbox, value| {
            let first = mailbox.queue.lock().waiting.is_empty();
            mailbox.push(value)?;
            if first {
                (mailbox.wake)();
            }
            Ok(())
        },
        ..SOUND
    });
}

#[test]
#[should_panic(expected = "deadlock")]
fn a_sender_must_not_look_after_it_has_let_go_whether_it_was_the_first() {
    let model = Model {
        values: 1,
        ..UNBOUNDED
    };
    model.all_arrives(Steps {
        send: |mailbox, value| {
            mailbox.push(value)?;
            if mailbox.queue.lock().waiting.len() == 1 {
                (mailbox.wake)();
            }
            Ok(())
        },
        ..SOUND
    });
}

#[test]
#[should_panic(expected = "woken more often than once")]
fn a_sender_must_not_wake_for_every_value() {
    UNBOUNDED.all_arrives(Steps {
        send: |mailbox, value| {
            mailbox.push(value)?;
            (mailbox.wake)();
            Ok(())
        },
        ..SOUND
    });
}

#[test]
#[should_panic(expected = "deadlock")]
fn a_receiver_that_puts_values_back_must_wake_itself() {
    WITH_BUDGET.all_arrives(Steps {
        put_back: |mailbox, batch| {
            if !batch.is_empty() {
                mailbox.push_front(batch);
            }
        },
        ..SOUND
    });
}

#[test]
#[should_panic(expected = "not as it was sent")]
fn what_is_put_back_must_go_before_what_has_come_since() {
    WITH_BUDGET.all_arrives(Steps {
        put_back: |mailbox, batch| {
            let mut queue = mailbox.queue.lock();
            let first = queue.waiting.is_empty() && !batch.is_empty();
            queue.waiting.append(batch);
            drop(queue);
            if first {
                (mailbox.wake)();
            }
        },
        ..SOUND
    });
}

#[test]
#[should_panic(expected = "woken more often than once")]
fn a_receiver_must_not_wake_itself_when_values_have_come_since() {
    WITH_BUDGET.all_arrives(Steps {
        put_back: |mailbox, batch| {
            if !batch.is_empty() {
                mailbox.push_front(batch);
                (mailbox.wake)();
            }
        },
        ..SOUND
    });
}

#[test]
#[should_panic(expected = "deadlock")]
fn a_queue_must_be_taken_in_one_step() {
    UNBOUNDED.all_arrives(Steps {
        take: |mailbox, batch| {
            batch.extend(mailbox.queue.lock().waiting.iter());
            mailbox.queue.lock().waiting.clear();
        },
        ..SOUND
    });
}

#[test]
#[should_panic(expected = "more than it may hold")]
fn a_sender_must_look_for_a_place_and_take_it_in_one_step() {
    BOUNDED.what_is_taken_arrives(Steps {
        send: |mailbox, value| {
            let held = mailbox.queue.lock().waiting.len() + mailbox.in_hand.load(Relaxed);
            if held >= mailbox.limit {
                return Err(SendError::Full(value));
            }
            mailbox.queue.lock().waiting.push_back(value);
            Ok(())
        },
        ..SOUND
    });
}

#[test]
#[should_panic(expected = "more than it may hold")]
fn a_sender_must_see_under_the_lock_what_is_in_hand() {
    BOUNDED.what_is_taken_arrives(Steps {
        send: |mailbox, value| {
            let in_hand = mailbox.in_hand.load(Relaxed);
            let mut queue = mailbox.queue.lock();
            if queue.waiting.len() + in_hand >= mailbox.limit {
                return Err(SendError::Full(value));
            }
            queue.waiting.push_back(value);
            Ok(())
        },
        ..SOUND
    });
}

#[test]
#[should_panic(expected = "more than it may hold")]
fn what_is_taken_in_hand_must_be_counted_under_the_lock() {
    BOUNDED.what_is_taken_arrives(Steps {
        take: |mailbox, batch| {
            mem::swap(batch, &mut mailbox.queue.lock().waiting);
            mailbox.in_hand.store(batch.len(), Relaxed);
        },
        ..SOUND
    });
}

#[test]
#[should_panic(expected = "more than it may hold")]
fn what_is_put_back_must_be_counted_until_it_is_there() {
    BOUNDED.what_is_taken_arrives(Steps {
        put_back: |mailbox, batch| {
            mailbox.in_hand.store(0, Relaxed);
            mailbox.put_back(batch);
        },
        ..SOUND
    });
}

#[test]
#[should_panic(expected = "left behind")]
fn a_sender_must_see_under_the_same_lock_whether_the_receiver_is_there() {
    UNBOUNDED.nothing_is_left_behind(Steps {
        send: |mailbox, value| {
            if mailbox.queue.lock().closed {
                return Err(SendError::Closed(value));
            }
            mailbox.queue.lock().waiting.push_back(value);
            Ok(())
        },
        ..SOUND
    });
}

#[test]
#[should_panic(expected = "left behind")]
fn a_receiver_must_close_and_empty_in_one_step() {
    UNBOUNDED.nothing_is_left_behind(Steps {
        close: |mailbox| {
            let dropped = mem::take(&mut mailbox.queue.lock().waiting);
            mailbox.queue.lock().closed = true;
            dropped
        },
        ..SOUND
    });
}
