//! What an executor shares with the futures that it polls: a slot for each token of theirs.
//!
//! No slot is borrowed while a future, a waker or a destructor of the application runs.

use std::any::Any;
use std::cell::{Cell, RefCell};
use std::mem;
use std::panic::Location;
use std::rc::{Rc, Weak};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::task::Waker;

use evcore::token::SecondaryMap;
use evcore::{Acceptor, EventLoop, Handle, Ready, Token};

use crate::context::{enter, has_entered, with};
use crate::slot::{Reaction, Slot};
use crate::task::{Body, Task};
use crate::waker::{Remote, TaskWaker};

/// The number of calls of streams that a task makes in one poll. The other tasks wait for them.
const CALLS_MAX: u32 = 128;

/// The most bytes that hyper receives in one call.
#[cfg(feature = "hyper")]
const SCRATCH: usize = 64 * 1024;

/// The state of an executor.
pub(crate) struct Shared {
    remote: Arc<Remote>,
    slots: RefCell<SecondaryMap<Slot>>,
    /// Tokens that have ended while the loop was not lent, with the descriptors that they watch.
    orphans: RefCell<Vec<(Token, Box<dyn Any>)>>,
    /// Where the task of each token was spawned, also after its end.
    locations: RefCell<SecondaryMap<&'static Location<'static>>>,
    /// Wakers of tasks that have ended, for later ones.
    spare_wakers: RefCell<Vec<Arc<TaskWaker>>>,
    /// Wakers of listeners that wait until the loop has room for a connection.
    awaiting_room: RefCell<Vec<Waker>>,
    /// Number of tasks that have not ended, and its limit.
    tasks: Cell<usize>,
    pub(crate) tasks_max: Cell<usize>,
    /// The rest of the calls of the task that is polled.
    calls_left: Cell<u32>,
    /// Pools of threads, which wake the loop when they have results.
    announced: RefCell<Vec<Weak<dyn Announced>>>,
    #[cfg(feature = "hyper")]
    scratch: RefCell<Box<[u8]>>,
    /// A panic of a task is a panic of its executor.
    pub(crate) resumes_panics: Cell<bool>,
}

impl Shared {
    pub(crate) fn new(handle: Handle) -> Self {
        static IDS: AtomicU64 = AtomicU64::new(1);
        Self {
            remote: Arc::new(Remote {
                id: IDS.fetch_add(1, Relaxed),
                handle,
            }),
            slots: RefCell::default(),
            orphans: RefCell::default(),
            locations: RefCell::default(),
            spare_wakers: RefCell::default(),
            awaiting_room: RefCell::default(),
            tasks: Cell::new(0),
            tasks_max: Cell::new(usize::MAX),
            calls_left: Cell::new(CALLS_MAX),
            announced: RefCell::default(),
            #[cfg(feature = "hyper")]
            scratch: RefCell::default(),
            resumes_panics: Cell::new(false),
        }
    }

    /// Not 0, and different for each executor of the process.
    #[inline]
    pub(crate) fn id(&self) -> u64 {
        self.remote.id
    }

    /// The handle of the loop.
    pub(crate) fn handle(&self) -> &Handle {
        &self.remote.handle
    }

    /// Keeps a slot under a token.
    pub(crate) fn insert(&self, token: Token, slot: Slot) {
        self.slots.borrow_mut().insert(token, slot);
    }

    /// Uses the slot of a token; `None` if it has none here.
    #[inline]
    pub(crate) fn with_slot<R>(
        &self,
        token: Token,
        call: impl FnOnce(&mut Slot) -> R,
    ) -> Option<R> {
        self.slots.borrow_mut().get_mut(token).map(call)
    }

    /// Ends a token, with the owner of its descriptor. Nothing wakes by it any more.
    pub(crate) fn end(&self, token: Token, owner: impl Any) {
        let slot = self.slots.borrow_mut().remove(token);
        if has_entered(self.id()) {
            with(|lent| lent.remove(token));
            drop(owner);
        } else {
            // The descriptor stays open until the poller has lost it.
            self.orphans.borrow_mut().push((token, Box::new(owner)));
        }
        drop(slot);
    }

    /// Ends the tokens whose end is pending. The loop is lent.
    pub(crate) fn end_orphans(&self) {
        loop {
            let orphan = self.orphans.borrow_mut().pop();
            let Some((token, owner)) = orphan else { break };
            with(|lent| lent.remove(token));
            drop(owner);
        }
    }

    /// Returns whether the end of a token is pending.
    #[inline]
    pub(crate) fn has_orphans(&self) -> bool {
        !self.orphans.borrow().is_empty()
    }

    /// A waker that posts a token.
    pub(crate) fn waker(&self, token: Token) -> Arc<TaskWaker> {
        let spare = self.spare_wakers.borrow_mut().pop();
        let mut waker = spare.unwrap_or_else(|| TaskWaker::new(token, &self.remote));
        Arc::get_mut(&mut waker).expect("it is spare").token = token;
        waker
    }

    /// The state of the executor that has lent its loop.
    ///
    /// # Panics
    ///
    /// If none has.
    pub(crate) fn current() -> Rc<Self> {
        with(|lent| {
            let executor = lent.executor().downcast_ref::<Rc<Self>>();
            Rc::clone(executor.expect("only executors lend loops"))
        })
    }

    /// Lends a loop to `call`, and to what it calls.
    pub(crate) fn enter<L: Acceptor, R>(
        self: &Rc<Self>,
        ev: &mut EventLoop<L>,
        call: impl FnOnce() -> R,
    ) -> R {
        enter(ev, (self.id(), self), call)
    }

    /// Counts a task that begins.
    pub(crate) fn begin_task(&self, token: Token, task: Task, at: &'static Location<'static>) {
        self.tasks.set(self.tasks.get() + 1);
        self.locations.borrow_mut().insert(token, at);
        self.insert(token, Slot::Task(task));
    }

    /// Polls a task, unless it has ended. The loop is lent.
    fn poll_task(&self, token: Token) {
        let body = self.with_slot(token, |slot| match slot {
            Slot::Task(task) if !task.is_done => task.body.take(),
            _ => None,
        });
        if let Some(Some(mut body)) = body {
            self.begin_poll();
            let is_done = body.poll(self.resumes_panics.get());
            self.keep_body(token, body, is_done);
        }
    }

    /// Puts the body of a task back after a poll or an abort.
    pub(crate) fn keep_body(&self, token: Token, mut body: Body, mut is_done: bool) {
        let aborts = |slot: &mut Slot| matches!(slot, Slot::Task(task) if task.is_aborted);
        if !is_done && self.with_slot(token, aborts) != Some(false) {
            body.future.as_mut().abort();
            is_done = true;
        }
        let mut body = Some(body);
        let joiner = self.with_slot(token, |slot| match slot {
            Slot::Task(task) if !is_done || task.is_joined => {
                task.is_done = is_done;
                task.body = body.take();
                if is_done { task.joiner.take() } else { None }
            }
            _ => None,
        });
        if let Some(Some(joiner)) = joiner {
            joiner.wake();
        }
        if let Some(body) = body {
            self.end_task(token, body);
        }
    }

    /// Ends a task whose output nothing waits for.
    pub(crate) fn end_task(&self, token: Token, body: Body) {
        self.tasks.set(self.tasks.get() - 1);
        self.end(token, ());
        let mut waker = body.into_waker();
        // Unless somebody may still call it.
        if Arc::get_mut(&mut waker).is_some() {
            self.spare_wakers.borrow_mut().push(waker);
        }
    }

    /// Number of tasks whose end has not been noticed: those that run, and those whose output waits.
    pub(crate) fn tasks(&self) -> usize {
        self.tasks.get()
    }

    pub(crate) fn location(&self, token: Token) -> Option<&'static Location<'static>> {
        self.locations.borrow().get(token).copied()
    }

    /// Begins the poll of a future, which has all its calls.
    #[inline]
    pub(crate) fn begin_poll(&self) {
        self.calls_left.set(CALLS_MAX);
    }

    /// Counts a call of a stream. Returns false if the task has made enough of them in this poll: it is
    /// woken, and its other calls wait.
    #[inline]
    pub(crate) fn may_call(&self, waker: &Waker) -> bool {
        match self.calls_left.get() {
            0 => {
                waker.wake_by_ref();
                false
            }
            left => {
                self.calls_left.set(left - 1);
                true
            }
        }
    }

    /// Memory for a received piece, of a fixed size.
    #[cfg(feature = "hyper")]
    pub(crate) fn take_scratch(&self) -> Box<[u8]> {
        let kept = mem::take(&mut *self.scratch.borrow_mut());
        if kept.is_empty() {
            vec![0; SCRATCH].into()
        } else {
            kept
        }
    }

    #[cfg(feature = "hyper")]
    pub(crate) fn keep_scratch(&self, scratch: Box<[u8]>) {
        *self.scratch.borrow_mut() = scratch;
    }

    /// Wakes this waker when the loop has room for a connection.
    pub(crate) fn await_room(&self, waker: Waker) {
        self.awaiting_room.borrow_mut().push(waker);
    }

    /// A connection has ended.
    pub(crate) fn wake_for_room(&self) {
        if self.awaiting_room.borrow().is_empty() {
            return;
        }
        for waker in mem::take(&mut *self.awaiting_room.borrow_mut()) {
            waker.wake();
        }
    }

    /// Handles what the loop reports for a token. Returns false if the token has no slot here. The loop
    /// is lent.
    pub(crate) fn on_ready(&self, token: Token, ready: Ready) -> bool {
        match self.with_slot(token, |slot| slot.on_ready(ready)) {
            None => return false,
            Some(Reaction::Poll) => self.poll_task(token),
            Some(Reaction::Wake(wakers)) => wakers.into_iter().flatten().for_each(Waker::wake),
        }
        true
    }

    /// Handles the end of a timer as [`on_ready`](Self::on_ready) does.
    pub(crate) fn on_expired(&self, token: Token) -> bool {
        let Some(waker) = self.with_slot(token, Slot::on_expired) else {
            return false;
        };
        waker.into_iter().for_each(Waker::wake);
        true
    }

    /// Wakes the futures that wait for a shutdown, which has begun. The loop is lent.
    pub(crate) fn on_shutting_down(&self) {
        let mut wakers = Vec::new();
        for (_, slot) in self.slots.borrow_mut().iter_mut() {
            wakers.extend(slot.on_shutting_down());
        }
        wakers.into_iter().for_each(Waker::wake);
    }

    /// Takes results from here when the loop is woken, until it is dropped.
    pub(crate) fn keep_announced(&self, announced: &Rc<dyn Announced>) {
        let mut all = self.announced.borrow_mut();
        all.retain(|announced| announced.strong_count() > 0);
        all.push(Rc::downgrade(announced));
    }

    /// Takes the results that a wake-up of the loop has announced. The loop is lent.
    pub(crate) fn take_results(&self) {
        let living = self
            .announced
            .borrow()
            .iter()
            .filter_map(Weak::upgrade)
            .collect::<Vec<_>>();
        for announced in living {
            announced.take_results(self);
        }
    }

    /// Takes out every task, for the end of the executor.
    pub(crate) fn take_tasks(&self) -> Vec<(Token, Body)> {
        let mut slots = self.slots.borrow_mut();
        let bodies = slots.iter_mut().filter_map(|(token, slot)| match slot {
            Slot::Task(task) => Some((token, task.body.take()?)),
            _ => None,
        });
        bodies.collect()
    }
}

/// Something that wakes the loop when it has results.
pub(crate) trait Announced {
    /// Gives each result to its slot, and wakes what waits for it. The loop is lent.
    fn take_results(&self, shared: &Shared);
}
