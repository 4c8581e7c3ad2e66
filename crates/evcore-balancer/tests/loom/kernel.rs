//! Imitates the part of the kernel that the workers of a loom model use: one listener with
//! exclusive wake-ups, and a notifier for each worker.
//!
//! A call is one step without interruption. All calls change one word, so that loom tries them in
//! each order. A call makes no store visible to another thread, which is less than a real kernel
//! promises. Models of the lock policy are an exception: that policy does not sync without a
//! notification, so it needs to see the word of the notification that has ended its wait.

use std::sync::{Mutex, PoisonError};

use loom::{
    sync::atomic::{AtomicU32, Ordering},
    thread::{self, ThreadId},
};

use crate::sync::is_alive;

pub(crate) struct Kernel {
    calls: AtomicU32,
    order: Ordering,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    clients: usize,
    /// The registrations, in the order in which the kernel looks for one to wake.
    queue: Vec<Registration>,
    workers: [Worker; 3],
    /// The thread whose notifications are lost.
    mute: Option<ThreadId>,
}

#[derive(Clone, Copy, PartialEq)]
pub(crate) struct Registration {
    pub(crate) slot: usize,
    pub(crate) exclusive: bool,
    /// True if the registration reports a client once, and not again while that client waits.
    pub(crate) edge_triggered: bool,
}

#[derive(Clone, Copy, Default)]
struct Worker {
    /// True if the worker follows a plan to listen, also between two registrations.
    listens: bool,
    /// True if the worker's poller has an event of the listener.
    reported: bool,
    notified: bool,
    asleep: bool,
}

#[derive(Clone, Copy, Default)]
pub(crate) struct Woken {
    pub(crate) by_client: bool,
    pub(crate) by_notification: bool,
}

impl Kernel {
    pub(crate) fn new(is_ordered: bool) -> Self {
        Self {
            calls: AtomicU32::new(0),
            order: if is_ordered {
                Ordering::AcqRel
            } else {
                Ordering::Relaxed
            },
            state: Mutex::default(),
        }
    }

    pub(crate) fn register(&self, new: Registration) {
        self.call(|state| state.register(new));
    }

    /// Ends the registration of a worker that registers again at once.
    pub(crate) fn register_again(&self, slot: usize) {
        self.call(|state| state.deregister(slot));
    }

    /// Ends the registration of a worker that stops. Returns whether another one listens.
    pub(crate) fn deregister(&self, slot: usize) -> bool {
        let others_listen = self.call(|state| {
            state.deregister(slot);
            state.workers[slot].listens = false;
            state.workers.iter().any(|worker| worker.listens)
        });
        // A dead worker does not use the answer.
        others_listen.unwrap_or(true)
    }

    /// Lets a worker wait. If there is no event for it, it sleeps, or returns if `sleeps` is false.
    pub(crate) fn wait(&self, slot: usize, sleeps: bool) -> Woken {
        self.call(|state| state.wait(slot, sleeps))
            .unwrap_or_default()
    }

    pub(crate) fn accept(&self, at_most: usize) -> (usize, bool) {
        let accepted = self.call(|state| {
            let accepted = state.clients.min(at_most);
            state.clients -= accepted;
            (accepted, state.clients > 0)
        });
        accepted.unwrap_or_default()
    }

    /// Loses the notifications of this thread from now on if `is_mute` is true, and delivers them
    /// otherwise.
    pub(crate) fn mute_this_thread(&self, is_mute: bool) {
        let this = thread::current().id();
        self.with(|state| state.mute = is_mute.then_some(this));
    }

    pub(crate) fn notify(&self, slot: usize) {
        self.call(|state| {
            if state.mute == Some(thread::current().id()) {
                return;
            }
            state.workers[slot].notified = true;
            state.workers[slot].asleep = false;
        });
    }

    pub(crate) fn clear(&self, slot: usize) {
        self.call(|state| state.workers[slot].notified = false);
    }

    pub(crate) fn connect(&self) {
        self.call(State::connect);
    }

    /// Ends a process, and with it its descriptors, at any time after its last call.
    pub(crate) fn end_process(&self, slot: usize) {
        self.calls.fetch_add(1, self.order);
        self.with(|state| {
            state.deregister(slot);
            state.workers[slot].listens = false;
            state.workers[slot].asleep = false;
        });
    }

    pub(crate) fn wakes(&self, slot: usize) -> bool {
        self.with(|state| state.workers[slot].notified || state.has_client_for(slot))
    }

    pub(crate) fn clients(&self) -> usize {
        self.with(|state| state.clients)
    }

    /// Makes a call. Returns `None` if the worker has died before.
    fn call<R>(&self, call: impl FnOnce(&mut State) -> R) -> Option<R> {
        if !is_alive() {
            return None;
        }
        self.calls.fetch_add(1, self.order);
        Some(self.with(call))
    }

    fn with<R>(&self, call: impl FnOnce(&mut State) -> R) -> R {
        // A test that fails poisons the lock. The poison is ignored, because the test prints its
        // own message.
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        call(&mut state)
    }
}

impl State {
    fn register(&mut self, new: Registration) {
        // Linux puts exclusive registrations behind the others.
        let at = if new.exclusive { self.queue.len() } else { 0 };
        self.queue.insert(at, new);
        self.workers[new.slot].listens = true;
        self.workers[new.slot].reported = self.clients > 0;
    }

    fn deregister(&mut self, slot: usize) {
        self.queue.retain(|entry| entry.slot != slot);
        self.workers[slot].reported = false;
    }

    /// Connects a client, and reports it to each registration, up to the first exclusive one whose
    /// worker sleeps. A worker that does not sleep does not end the search, as with
    /// `EPOLLEXCLUSIVE`.
    fn connect(&mut self) {
        self.clients += 1;
        for Registration {
            slot, exclusive, ..
        } in self.queue.clone()
        {
            let worker = &mut self.workers[slot];
            worker.reported = true;
            let slept = std::mem::take(&mut worker.asleep);
            if exclusive && slept {
                return;
            }
        }
    }

    fn wait(&mut self, slot: usize, sleeps: bool) -> Woken {
        let by_client = self.has_client_for(slot);
        let is_edge = |entry: &Registration| entry.slot == slot && entry.edge_triggered;
        let reports_once = self.queue.iter().any(is_edge);
        let worker = &mut self.workers[slot];
        let by_notification = worker.notified;
        // A level-triggered registration reports the event again while a client waits.
        worker.reported = by_client && !reports_once;
        worker.asleep = sleeps && !by_client && !by_notification;
        Woken {
            by_client,
            by_notification,
        }
    }

    fn has_client_for(&self, slot: usize) -> bool {
        self.workers[slot].reported && self.clients > 0
    }
}
