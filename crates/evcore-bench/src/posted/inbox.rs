//! Values for a thread that sleeps in a poller: each way with an eventfd that ends its wait.
//!
//! Sent and received in one thread, so that what is measured is the work and not two threads'
//! scheduling. The peers write to the eventfd once for values that come to wait where none did, as
//! the inbox does by itself.

use std::hint::black_box;
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc;

use evcore::posted::Inbox;
use rustix::event::{EventfdFlags, eventfd};

use super::Peer;

/// The peers, the baseline first.
pub(super) fn peers(batch: usize) -> Vec<Peer> {
    vec![std_mpsc(batch), crossbeam(batch), inbox(batch)]
}

fn std_mpsc(batch: usize) -> Peer {
    let (sender, receiver) = mpsc::channel();
    with_bell(
        "mpsc + eventfd",
        batch,
        move |value| sender.send(value).expect("the receiver is here"),
        move || receiver.try_iter().for_each(|value| _ = black_box(value)),
    )
}

fn crossbeam(batch: usize) -> Peer {
    let (sender, receiver) = crossbeam_channel::unbounded();
    with_bell(
        "crossbeam-channel + eventfd",
        batch,
        move |value| sender.send(value).expect("the receiver is here"),
        move || receiver.try_iter().for_each(|value| _ = black_box(value)),
    )
}

/// A channel that does not wake its receiver: `send` one value, and `drain` all values.
fn with_bell(
    name: &'static str,
    batch: usize,
    send: impl Fn(usize) + 'static,
    drain: impl Fn() + 'static,
) -> Peer {
    let bell = FlaggedBell::new();
    Peer::new(name, move |operations| {
        for _ in 0..operations / batch {
            for value in 0..batch {
                send(value);
                bell.ring();
            }
            bell.silence();
            drain();
        }
    })
}

fn inbox(batch: usize) -> Peer {
    let bell = Arc::new(Bell::new());
    let rung = Arc::clone(&bell);
    let mut inbox = Inbox::bounded(batch, move || rung.ring());
    let sender = inbox.sender();
    Peer::new("Inbox", move |operations| {
        for _ in 0..operations / batch {
            for value in 0..batch {
                sender.send(value).expect("the receiver is here");
            }
            bell.silence();
            inbox.drain().for_each(|value| _ = black_box(value));
        }
    })
}

/// An eventfd.
struct Bell(OwnedFd);

impl Bell {
    fn new() -> Bell {
        Bell(eventfd(0, EventfdFlags::NONBLOCK).expect("there is a descriptor left"))
    }

    fn ring(&self) {
        rustix::io::write(&self.0, &1u64.to_ne_bytes()).expect("it is far from full");
    }

    fn silence(&self) {
        rustix::io::read(&self.0, &mut [0; 8]).expect("it was rung");
    }
}

/// One that is rung once until it is silenced.
struct FlaggedBell {
    bell: Bell,
    is_rung: AtomicBool,
}

impl FlaggedBell {
    fn new() -> FlaggedBell {
        FlaggedBell {
            bell: Bell::new(),
            is_rung: AtomicBool::new(false),
        }
    }

    fn ring(&self) {
        if !self.is_rung.swap(true, Ordering::AcqRel) {
            self.bell.ring();
        }
    }

    /// Before the values are taken, or a value sent meanwhile would not wake the receiver.
    fn silence(&self) {
        self.bell.silence();
        self.is_rung.store(false, Ordering::Release);
    }
}
