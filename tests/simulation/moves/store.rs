//! Descriptor stores. Each keeps the idle connections of one worker if that worker is killed, and
//! hands them on to its successor.
//!
//! The loop that sets the marks (bytes that show a store which connections are idle), and the
//! `HandingOn` that hands connections to the successor, are the shipped code. The store itself is a
//! simulated process, which faults kill like other processes.

use std::{
    cell::{Cell, RefCell},
    collections::VecDeque,
    sync::atomic::{AtomicU8, Ordering::Relaxed},
};

use evcore::{EventLoop, Handle, Step, Timer, Token};
use evcore_sim::{App, Process, SimDescriptor, SimListener, SimStream};

use crate::{Server, echo::VERSION, handing_on::HandingOn};

/// The first number of a simulated descriptor, and the number of descriptors that a worker may
/// have.
const NUMBERS: (usize, usize) = (1 << 20, 4096);

const DUE: Timer = Timer::new(0);

pub(crate) struct Marks(&'static [AtomicU8]);

thread_local! {
    /// Marks of earlier runs, which later runs use again.
    static UNUSED: RefCell<Vec<&'static [AtomicU8]>> = const { RefCell::new(Vec::new()) };
}

impl Marks {
    fn new() -> Self {
        let new = || {
            let marks = (0..NUMBERS.0 + NUMBERS.1).map(|_| AtomicU8::new(0));
            &*Box::leak(marks.collect::<Box<[_]>>())
        };
        let marks = UNUSED.with_borrow_mut(Vec::pop).unwrap_or_else(new);
        marks[NUMBERS.0..]
            .iter()
            .for_each(|mark| mark.store(0, Relaxed));
        Self(marks)
    }
}

impl Drop for Marks {
    fn drop(&mut self) {
        // The thread may be ending.
        let _ = UNUSED.try_with(|unused| unused.borrow_mut().push(self.0));
    }
}

#[derive(Default)]
pub(crate) struct Slot {
    worker: RefCell<Option<(Process, &'static [AtomicU8])>>,
    store: RefCell<Option<(Process, Handle)>>,
    /// The marks of the slot's workers. They outlive the workers.
    marks: RefCell<Vec<Marks>>,
}

impl Slot {
    /// Makes the marks of a worker that begins, and connects it with the store of its slot.
    pub(crate) fn begin_worker(&self, process: &Process) -> &'static [AtomicU8] {
        let marks = Marks::new();
        let of_worker = marks.0;
        self.marks.borrow_mut().push(marks);
        *self.worker.borrow_mut() = Some((process.clone(), of_worker));
        self.join();
        of_worker
    }

    fn join(&self) {
        if let (Some((worker, marks)), Some((store, _))) =
            (&*self.worker.borrow(), &*self.store.borrow())
        {
            worker.set_store(store, marks);
        }
    }

    pub(crate) fn wake_store(&self) {
        if let Some((_, handle)) = &*self.store.borrow() {
            handle.wake();
        }
    }
}

/// Number of connections that stores have kept, and number of them that successors have taken.
#[derive(Debug, Default)]
pub(crate) struct Kept {
    pub(crate) all: Cell<usize>,
    pub(crate) taken: Cell<usize>,
}

pub(crate) struct Store {
    ev: EventLoop<SimListener>,
    process: Process,
    own: Token,
    to_successor: SimDescriptor,
    waiting: VecDeque<Vec<SimDescriptor>>,
    handing_on: Option<HandingOn<SimDescriptor>>,
    /// The channel of `handing_on`.
    channel: Option<Token>,
    server: Server,
}

impl Store {
    pub(crate) fn new(process: &Process, index: usize, server: &Server) -> Self {
        let mut ev = process.builder().build().expect("a valid loop");
        let slot = &server.slots[index];
        *slot.store.borrow_mut() = Some((process.clone(), ev.handle()));
        slot.join();
        let (to_successor, _) = &server.mailboxes.successors[index % server.workers];
        Self {
            own: ev.add_unwatched().expect("there is room"),
            ev,
            process: process.clone(),
            to_successor: process.inherit(to_successor),
            waiting: VecDeque::new(),
            handing_on: None,
            channel: None,
            server: server.clone(),
        }
    }

    fn progress(&mut self) {
        let kept = self.process.take_kept();
        if !kept.is_empty() {
            let all = &self.server.totals.kept.all;
            all.set(all.get() + kept.len());
            self.waiting.push_back(kept);
        }
        if let Some(channel) = self.channel.take() {
            self.ev.remove(channel);
        }
        let now = self.ev.clock().instant();
        loop {
            if self.handing_on.is_none() {
                let Some(kept) = self.waiting.pop_front() else {
                    return;
                };
                self.handing_on = Some(HandingOn::new(kept, VERSION, b"", now));
            }
            let handing_on = self.handing_on.as_mut().expect("just made");
            if let Some(due) = handing_on.turn(&self.to_successor, now) {
                let channel = handing_on.descriptor();
                // This fails if the store was killed within the turn.
                self.channel = channel.and_then(|channel| self.ev.add_background(channel).ok());
                self.ev.timers().arm_at(self.own, DUE, due);
                return;
            }
            self.end();
        }
    }

    /// Ends the present [`HandingOn`], and closes the connections that no successor has taken.
    fn end(&mut self) {
        let (taken, left) = self.handing_on.take().expect("it has begun").end();
        let totals = &self.server.totals;
        totals.kept.taken.set(totals.kept.taken.get() + taken);
        for connection in left {
            if let Ok(peer) = SimStream::from(connection.descriptor).peer_addr() {
                totals.closed.borrow_mut().insert(peer.to_string());
            }
        }
    }
}

impl App for Store {
    fn event_loop(&mut self) -> &mut EventLoop<SimListener> {
        &mut self.ev
    }

    fn on_step(&mut self, _: Step<SimStream>) {}

    fn on_turn_end(&mut self) {
        self.progress();
    }

    fn on_turn_abandoned(&mut self) {
        self.progress();
    }
}
