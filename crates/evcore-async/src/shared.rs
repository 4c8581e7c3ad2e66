//! The state that an executor shares with the futures that it polls: a *slot* (the state of one
//! token) for each of their tokens.
//!
//! No slot is borrowed while a future, a waker or a destructor of the application runs. A loop is
//! *lent* while the code of a future may use it (see `context`).

use std::any::Any;
use std::cell::{Cell, OnceCell, RefCell};
use std::future::Future;
use std::mem;
use std::panic::{AssertUnwindSafe, Location, catch_unwind, resume_unwind};
use std::rc::{Rc, Weak};
use std::sync::Arc;
use std::task::Waker;
use std::thread;

use evcore::token::SecondaryMap;
use evcore::{Acceptor, EventLoop, Handle, Ready, Token};

use crate::context::{enter, has_entered, with};
use crate::run_queue::RunQueue;
use crate::slot::{Reaction, Slot};
use crate::stuck::{Watch, Watched};
use crate::task::Task;
use crate::wait_queue::WaitQueue;
use crate::waker::{MainWaker, Remote, TaskWaker};

/// Maximum number of stream calls that a task may make in one poll, because the other tasks wait
/// meanwhile.
const CALLS_MAX: u32 = 128;

/// Maximum number of polls from the run queue in a turn (one iteration of the loop), the same as
/// the default of `Budgets::posted`.
const POLLS_MAX: usize = 256;

/// Maximum number of bytes that hyper receives in one call.
#[cfg(feature = "hyper")]
const SCRATCH: usize = 64 * 1024;

pub(crate) type Panic = Box<dyn Any + Send>;

pub(crate) struct Shared {
    remote: Arc<Remote>,
    run_queue: RunQueue,
    slots: RefCell<SecondaryMap<Slot>>,
    /// The tokens that ended while the loop was not lent, with their slots and descriptors. The
    /// loop still has these tokens.
    orphans: RefCell<Vec<(Token, Box<dyn Any>)>>,
    /// True if the executor is dropped, so that nothing removes orphans from the loop.
    is_gone: Cell<bool>,
    /// The place where the task of each token was spawned, kept after the task has ended.
    locations: RefCell<SecondaryMap<&'static Location<'static>>>,
    /// Tasks that have ended, whose memory later tasks use.
    spare_tasks: RefCell<Vec<Rc<Task>>>,
    /// The token of a sleep that has ended, which the next sleep uses. hyper ends a sleep and
    /// begins another one for each request.
    spare_sleep: Cell<Option<Token>>,
    /// The tasks whose `accept` waits until the loop has room for a connection. When a connection
    /// of this executor ends, all of them are woken, because the listener of the first task may
    /// have no client.
    pub(crate) awaiting_room: WaitQueue,
    tasks: Cell<usize>,
    pub(crate) tasks_max: Cell<usize>,
    /// Number of stream calls that the task being polled may still make.
    calls_left: Cell<u32>,
    result_sources: RefCell<Vec<Weak<dyn ResultSource>>>,
    #[cfg(feature = "hyper")]
    scratch: RefCell<Box<[u8]>>,
    /// The thread that reports stuck polls.
    pub(crate) watch: OnceCell<Watch>,
    /// True if the panic of a task unwinds through the executor (`set_resumes_panics`).
    pub(crate) resumes_panics: Cell<bool>,
}

impl Shared {
    pub(crate) fn new(handle: Handle, run_queue: RunQueue) -> Self {
        Self {
            remote: Arc::new(Remote {
                id: run_queue.id,
                handle,
            }),
            run_queue,
            slots: RefCell::default(),
            orphans: RefCell::default(),
            is_gone: Cell::new(false),
            locations: RefCell::default(),
            spare_tasks: RefCell::default(),
            spare_sleep: Cell::default(),
            awaiting_room: WaitQueue::default(),
            tasks: Cell::new(0),
            tasks_max: Cell::new(usize::MAX),
            calls_left: Cell::new(CALLS_MAX),
            result_sources: RefCell::default(),
            #[cfg(feature = "hyper")]
            scratch: RefCell::default(),
            watch: OnceCell::new(),
            resumes_panics: Cell::new(false),
        }
    }

    #[inline]
    pub(crate) fn id(&self) -> u64 {
        self.run_queue.id
    }

    pub(crate) fn handle(&self) -> &Handle {
        &self.remote.handle
    }

    pub(crate) fn insert(&self, token: Token, slot: Slot) {
        self.slots.borrow_mut().insert(token, slot);
    }

    /// Passes the slot of a token to `call`. Returns `None` if the token has no slot.
    #[inline]
    pub(crate) fn with_slot<R>(
        &self,
        token: Token,
        call: impl FnOnce(&mut Slot) -> R,
    ) -> Option<R> {
        self.slots.borrow_mut().get_mut(token).map(call)
    }

    /// Removes a token from the loop, and then drops the owner of its descriptor. If the loop is
    /// not lent, token and owner become an *orphan*, which wakes no task, and which the next step
    /// of the loop removes. If the executor was dropped, the owner is dropped at once, and the
    /// token stays in the loop.
    pub(crate) fn end(&self, token: Token, owner: impl Any) {
        let slot = self.slots.borrow_mut().remove(token);
        if has_entered(self.id()) {
            with(|lent| lent.remove(token));
            drop((slot, owner));
        } else if !self.is_gone.get() {
            // The descriptor stays open until it is removed from the poller.
            let owner = Box::new((slot, owner));
            self.insert(token, Slot::Orphan);
            self.orphans.borrow_mut().push((token, owner));
            // Any step of the loop ends the orphans, so this post causes a step.
            self.remote.post(self.run_queue.runner);
        }
    }

    /// When a sleep ends, keeps its token for the next sleep. Returns false if the token does not
    /// belong to a sleep, if another token is kept, or if the loop is not lent.
    pub(crate) fn keep_sleep(&self, token: Token) -> bool {
        if self.spare_sleep.get().is_some() || !has_entered(self.id()) {
            return false;
        }
        let event = self.with_slot(token, |slot| match slot {
            Slot::Sleep(event) => Some(mem::take(event)),
            _ => None,
        });
        let Some(Some(event)) = event else {
            return false;
        };
        with(|lent| lent.disarm(token));
        self.spare_sleep.set(Some(token));
        drop(event); // a waker is dropped here, when no slot is borrowed
        true
    }

    /// Removes the kept token from the loop, which must be lent.
    pub(crate) fn end_spare_sleep(&self) {
        if let Some(token) = self.take_spare_sleep() {
            self.end(token, ());
        }
    }

    #[inline]
    pub(crate) fn take_spare_sleep(&self) -> Option<Token> {
        self.spare_sleep.take()
    }

    /// Closes the descriptors of the orphans. Their tokens stay in the loop.
    pub(crate) fn on_executor_dropped(&self) {
        self.is_gone.set(true);
        drop(self.orphans.take());
    }

    /// Removes the orphans from the loop, which must be lent.
    pub(crate) fn end_orphans(&self) {
        loop {
            let orphan = self.orphans.borrow_mut().pop();
            let Some((token, owner)) = orphan else { break };
            with(|lent| lent.remove(token));
            self.slots.borrow_mut().remove(token); // it owns nothing
            drop(owner);
        }
    }

    #[inline]
    pub(crate) fn has_orphans(&self) -> bool {
        !self.orphans.borrow().is_empty()
    }

    pub(crate) fn main_waker(&self, token: Token) -> Waker {
        let remote = Arc::clone(&self.remote);
        Waker::from(Arc::new(MainWaker { token, remote }))
    }

    /// The state of the executor that has lent its loop.
    ///
    /// # Panics
    ///
    /// If no executor has lent its loop.
    pub(crate) fn current() -> Rc<Self> {
        with(|lent| {
            let executor = lent.executor().downcast_ref::<Rc<Self>>();
            Rc::clone(executor.expect("only executors lend loops"))
        })
    }

    pub(crate) fn enter<L: Acceptor, R>(
        self: &Rc<Self>,
        ev: &mut EventLoop<L>,
        call: impl FnOnce() -> R,
    ) -> R {
        enter(ev, (&self.run_queue, self), call)
    }

    /// Begins a task, which is due at once. The loop must be lent.
    pub(crate) fn begin_task<F>(
        &self,
        token: Token,
        future: F,
        at: &'static Location<'static>,
    ) -> Rc<Task>
    where
        F: Future<Output: 'static> + 'static,
    {
        let spare = self.spare_tasks.borrow_mut().pop();
        let mut task = spare.unwrap_or_else(|| Task::new(TaskWaker::new(token, &self.remote)));
        let new = Rc::get_mut(&mut task).expect("nothing else uses a spare task");
        new.begin(token, future);
        task.wake();
        self.tasks.set(self.tasks.get() + 1);
        self.locations.borrow_mut().insert(token, at);
        self.insert(token, Slot::Task(Rc::clone(&task)));
        task
    }

    /// Polls the tasks of the run queue. The loop must be lent.
    fn run_due(&self, turn: u64) {
        /// Ends the runner's step, even if a task panics.
        struct Pause<'a>(&'a RunQueue);
        impl Drop for Pause<'_> {
            fn drop(&mut self) {
                let Self(queue) = *self;
                if queue.pause() {
                    with(|lent| match queue.may_poll() {
                        true => lent.post(queue.runner),
                        false => lent.post_next(queue.runner),
                    });
                }
            }
        }
        let pause = Pause(&self.run_queue);
        self.run_queue.begin_turn(turn, POLLS_MAX);
        while let Some(task) = self.run_queue.pop() {
            self.poll_task(task);
        }
        drop(pause);
    }

    /// Polls a task, unless it has ended. The loop must be lent.
    fn poll_task(&self, token: Token) {
        let task = match self.slots.borrow().get(token) {
            Some(Slot::Task(task)) => Rc::clone(task),
            _ => return,
        };
        let watched = self.begin_poll(|| self.location(token));
        let is_over = task.poll();
        drop(watched);
        if is_over {
            self.end_task(&task);
            // If the task has no handle, its output is dropped here.
            let recycled = catch_unwind(AssertUnwindSafe(|| self.recycle(task)));
            self.resume(recycled.err());
        }
    }

    /// Resumes a panic if panics unwind through the executor. If the thread already panics, drops
    /// the payload, because a second panic would abort the process.
    pub(crate) fn resume(&self, panic: Option<Panic>) {
        let panic = panic.filter(|_| self.resumes_panics.get() && !thread::panicking());
        if let Some(panic) = panic {
            resume_unwind(panic);
        }
    }

    /// Ends a task, and wakes the task that waits for its output.
    ///
    /// # Panics
    ///
    /// With the panic of the task, as [`resume`](Self::resume) does.
    fn end_task(&self, task: &Task) {
        self.tasks.set(self.tasks.get() - 1);
        let joiner = task.end();
        self.end(task.token(), ());
        joiner.into_iter().for_each(Waker::wake);
        let panic = self.resumes_panics.get().then(|| task.take_panic());
        self.resume(panic.flatten());
    }

    /// Aborts a task, unless it has ended. A task that is being polled ends after the poll.
    pub(crate) fn abort(&self, task: &Task) {
        if !task.is_over() && task.abort() {
            self.end_task(task);
        }
    }

    /// Keeps the memory of a task for a later one, unless the task's handle, slot or waker exists.
    #[inline]
    pub(crate) fn recycle(&self, mut task: Rc<Task>) {
        let is_spare = Rc::get_mut(&mut task).is_some_and(Task::clear);
        if is_spare {
            self.spare_tasks.borrow_mut().push(task);
        }
    }

    pub(crate) fn tasks(&self) -> usize {
        self.tasks.get()
    }

    pub(crate) fn location(&self, token: Token) -> Option<&'static Location<'static>> {
        self.locations.borrow().get(token).copied()
    }

    /// Begins the poll of a future, which the thread for stuck polls watches until the result is
    /// dropped.
    #[inline]
    pub(crate) fn begin_poll(
        &self,
        at: impl FnOnce() -> Option<&'static Location<'static>>,
    ) -> Option<Watched<'_>> {
        self.reset_calls();
        self.watch.get().map(|watch| watch.begin(at()))
    }

    #[inline]
    pub(crate) fn reset_calls(&self) {
        self.calls_left.set(CALLS_MAX);
    }

    /// Counts a stream call. If the task has used up the calls of this poll, returns false and
    /// wakes the task, which goes on in its next poll.
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

    /// Takes back the count of a call that waits for its side.
    #[inline]
    pub(crate) fn give_back_call(&self) {
        self.calls_left.set(self.calls_left.get() + 1);
    }

    /// Takes the buffer of [`SCRATCH`] bytes into which hyper's stream receives.
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

    /// Handles a `Step::Ready`. Returns false if the token is not this executor's. The loop must be
    /// lent.
    pub(crate) fn on_ready(&self, token: Token, ready: Ready, turn: u64) -> bool {
        if token == self.run_queue.runner {
            self.run_due(turn);
            return true;
        }
        match self.with_slot(token, |slot| slot.on_ready(ready)) {
            None => return false,
            Some(Reaction::Poll) => self.poll_task(token),
            Some(Reaction::Wake(wakers)) => wakers.into_iter().flatten().for_each(Waker::wake),
        }
        true
    }

    /// Wakes the task whose timer has expired. Returns false if the token is not this executor's.
    pub(crate) fn on_expired(&self, token: Token) -> bool {
        let Some(waker) = self.with_slot(token, Slot::on_expired) else {
            return false;
        };
        waker.into_iter().for_each(Waker::wake);
        true
    }

    /// Wakes the reader of a connection that is evicted. Returns false if the token is not this
    /// executor's.
    pub(crate) fn on_evict(&self, token: Token) -> bool {
        let Some(waker) = self.with_slot(token, Slot::on_evict) else {
            return false;
        };
        waker.into_iter().for_each(Waker::wake);
        true
    }

    /// Wakes the futures that wait for a shutdown. The loop must be lent.
    pub(crate) fn on_shutting_down(&self) {
        let mut wakers = Vec::new();
        for (token, slot) in self.slots.borrow_mut().iter_mut() {
            if let Slot::Shutdown(event) = slot {
                wakers.extend(event.happen());
                with(|lent| lent.disarm(token));
            }
        }
        wakers.into_iter().for_each(Waker::wake);
    }

    /// Adds a source, whose results are taken at each `Step::Woken` until the source is dropped.
    pub(crate) fn add_result_source(&self, source: &Rc<dyn ResultSource>) {
        let mut all = self.result_sources.borrow_mut();
        all.retain(|source| source.strong_count() > 0);
        all.push(Rc::downgrade(source));
    }

    /// Takes the results of all sources. The loop must be lent.
    pub(crate) fn take_results(&self) {
        let living = self
            .result_sources
            .borrow()
            .iter()
            .filter_map(Weak::upgrade)
            .collect::<Vec<_>>();
        // A panic of one source must not keep the results of the others.
        let panics = living.iter().map(|source| source.take_results(self));
        self.resume(panics.fold(None, Option::or));
    }

    /// Aborts every task. Returns the first panic of a destructor.
    pub(crate) fn abort_all(&self) -> Option<Panic> {
        let slots = self.slots.borrow();
        let tasks = slots.iter().filter_map(|(_, slot)| match slot {
            Slot::Task(task) => Some(Rc::clone(task)),
            _ => None,
        });
        let tasks = tasks.collect::<Vec<_>>();
        drop(slots);
        let mut panic = None;
        for task in tasks {
            let aborted = catch_unwind(AssertUnwindSafe(|| {
                self.abort(&task);
                self.recycle(task);
            }));
            panic = panic.or(aborted.err());
        }
        panic
    }
}

/// Something that wakes the loop when it has results.
pub(crate) trait ResultSource {
    /// Stores each result in its slot, and wakes the task that waits for it. Returns the first panic
    /// of a destructor. The loop must be lent.
    fn take_results(&self, shared: &Shared) -> Option<Panic>;
}
