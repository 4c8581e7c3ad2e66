//! The master's life where workers are threads: start, wait, join, and do as it is told.

use std::{
    collections::BTreeMap,
    io, iter, mem,
    os::unix::net::UnixStream,
    panic::{self, AssertUnwindSafe},
    sync::{Arc, Mutex, PoisonError},
    thread::{self, JoinHandle},
    time::Instant,
};

use rustix::process::Signal;

use crate::{
    Affinity, DO_NOT_RESTART, Error, Outcome, Reload, Result, Stop, ThreadEnd, ThreadExit, Worker,
    bell::Bell,
    foreground,
    letterbox::{Letterbox, ring_master},
    roster::{Action, Patience, Roster, Seat},
    signals::{self, Handlers, Order},
    worker::Post,
};

/// What the application wants to hear of.
pub(crate) struct Hooks<'a> {
    pub(crate) on_start: Box<dyn FnMut(usize) + 'a>,
    pub(crate) on_ready: Box<dyn FnMut(usize) + 'a>,
    pub(crate) on_exit: Box<dyn FnMut(&ThreadExit) + 'a>,
    pub(crate) on_stuck: Box<dyn FnMut(usize) + 'a>,
    pub(crate) on_start_error: StartErrorHook<'a>,
    pub(crate) on_reload: Box<dyn FnMut(Reload) + 'a>,
    pub(crate) on_reopen: Box<dyn FnMut() + 'a>,
}

type StartErrorHook<'a> = Box<dyn FnMut(usize, &io::Error) + 'a>;

/// What is to be run, and how.
#[derive(Debug)]
pub(crate) struct Plan {
    pub(crate) workers: usize,
    pub(crate) patience: Patience,
    pub(crate) slots_serve_alone: bool,
    pub(crate) affinity: Option<Affinity>,
}

/// The threads, and the one that watches them.
pub(crate) struct Team<'a, F> {
    roster: Roster,
    hands: BTreeMap<Seat, Hand>,
    ended: Arc<Ended>,
    _handlers: Handlers,
    bell: Bell,
    hooks: Hooks<'a>,
    /// `None` once nobody will be started any more.
    work: Option<Arc<F>>,
    plan: Plan,
    reopens: u32,
    started_any: bool,
}

/// A worker.
#[derive(Debug)]
struct Hand {
    letterbox: Arc<Letterbox>,
    thread: JoinHandle<()>,
    is_ready: bool,
    /// It was told to stop, and did not in time.
    is_lost: bool,
}

/// Who has ended, and how; and what wakes the master to hear of it.
#[derive(Debug)]
struct Ended {
    list: Mutex<Vec<(Seat, ThreadEnd)>>,
    rope: Arc<UnixStream>,
}

impl Ended {
    fn add(&self, seat: Seat, end: ThreadEnd) {
        let mut list = self.list.lock().unwrap_or_else(PoisonError::into_inner);
        list.push((seat, end));
        ring_master(&self.rope);
    }

    fn take(&self) -> Vec<(Seat, ThreadEnd)> {
        mem::take(&mut self.list.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

impl<'a, F: Fn(Worker) -> i32 + Send + Sync + 'static> Team<'a, F> {
    pub(crate) fn new(plan: Plan, hooks: Hooks<'a>, work: F) -> Result<Self> {
        let mut handlers = Handlers::install()?;
        let (bell, rope) = Bell::hang()?;
        handlers.command()?;
        let ended = Ended {
            list: Mutex::default(),
            rope: Arc::new(rope),
        };
        Ok(Self {
            roster: Roster::new(plan.workers, plan.patience, Instant::now())
                .slots_serve_alone(plan.slots_serve_alone),
            hands: BTreeMap::new(),
            ended: Arc::new(ended),
            _handlers: handlers,
            bell,
            hooks,
            work: Some(Arc::new(work)),
            plan,
            reopens: 0,
            started_any: false,
        })
    }

    /// Returns when no worker is left, but for those that are left behind.
    pub(crate) fn run(mut self) -> Result<Outcome> {
        loop {
            match self.roster.next(Instant::now()) {
                Action::Start(seat) => match self.start(seat) {
                    Ok(()) => (self.hooks.on_start)(seat.index),
                    Err(error) => self.start_failed(seat, error)?,
                },
                Action::Signal(bank, signal) => self.press(bank, signal),
                Action::Tell(reload) => (self.hooks.on_reload)(reload),
                Action::Wait(until) => {
                    self.bell.wait(until, iter::empty())?;
                    self.look();
                }
                Action::Done(outcome) => return Ok(outcome),
            }
        }
    }

    fn start(&mut self, seat: Seat) -> io::Result<()> {
        let letterbox = Arc::new(Letterbox::new(Arc::clone(&self.ended.rope)));
        let post = Post::Thread(Arc::clone(&letterbox));
        let mut worker = Worker::new(seat.index, seat.number(self.plan.workers), post);
        let affinity = self.plan.affinity.clone();
        let work = Arc::clone(self.work.as_ref().expect("nobody is started after a stop"));
        let ended = Arc::clone(&self.ended);
        let name = format!("worker-{}", seat.index);
        // A thread has the mask of the one that starts it: so the signals come to this one.
        signals::block();
        let thread = thread::Builder::new().name(name).spawn(move || {
            worker.pin(affinity.as_ref());
            let end = panic::catch_unwind(AssertUnwindSafe(|| work(worker)));
            // Before anybody hears of the end: what it owns goes with the last worker.
            drop(work);
            ended.add(
                seat,
                match end {
                    Ok(code) => ThreadEnd::Returned(code),
                    Err(payload) => ThreadEnd::of_panic(&*payload),
                },
            );
        });
        signals::unblock();
        let hand = Hand {
            letterbox,
            thread: thread?,
            is_ready: false,
            is_lost: false,
        };
        self.hands.insert(seat, hand);
        self.roster.started(seat, Instant::now());
        self.started_any = true;
        Ok(())
    }

    /// As for a fork: only the first of all is an error.
    fn start_failed(&mut self, seat: Seat, error: io::Error) -> Result<()> {
        if !self.started_any {
            return Err(Error::os("starting a thread")(error));
        }
        self.roster.start_failed(seat, Instant::now());
        (self.hooks.on_start_error)(seat.index, &error);
        Ok(())
    }

    /// Tells the workers of a bank what a process would be told by this signal.
    fn press(&mut self, bank: usize, signal: Signal) {
        let is_end = self.work.is_none();
        for (seat, hand) in self.hands.iter_mut().filter(|(seat, _)| seat.bank == bank) {
            match signal {
                Signal::QUIT => hand.letterbox.tell_stop(Stop::Graceful),
                Signal::TERM => hand.letterbox.tell_stop(Stop::Fast),
                _ => {
                    hand.is_lost = true;
                    if !is_end {
                        (self.hooks.on_stuck)(seat.index);
                    }
                }
            }
        }
        self.leave_the_lost();
    }

    /// Sees who serves and who ended, and then what is ordered.
    fn look(&mut self) {
        self.hear();
        for (seat, end) in self.ended.take() {
            // Who was left behind has been told of.
            if let Some(hand) = self.hands.remove(&seat) {
                // The last that a worker does is to say that it has ended.
                let stop = Stop::of(hand.letterbox.severity());
                let _ = hand.thread.join();
                self.ended(seat, end, stop);
            }
        }
        self.reopen();
        self.obey();
        if let Some(stop) = Stop::of(signals::here().severity()) {
            self.roster.stop(stop, Instant::now());
            self.work = None;
        }
        self.leave_the_lost();
    }

    fn hear(&mut self) {
        for (&seat, hand) in self.hands.iter_mut().filter(|(_, hand)| !hand.is_ready) {
            if hand.letterbox.is_ready() {
                hand.is_ready = true;
                self.roster.ready(seat);
                (self.hooks.on_ready)(seat.index);
            }
        }
    }

    fn ended(&mut self, seat: Seat, end: ThreadEnd, stop: Option<Stop>) {
        let refused = end == ThreadEnd::Returned(DO_NOT_RESTART);
        self.roster.ended(seat, refused, Instant::now());
        (self.hooks.on_exit)(&ThreadExit {
            index: seat.index,
            seat: seat.number(self.plan.workers),
            end,
            stop,
        });
    }

    fn reopen(&mut self) {
        let reopens = signals::here().reopens();
        if mem::replace(&mut self.reopens, reopens) != reopens {
            (self.hooks.on_reopen)();
            let hands = self.hands.values();
            hands.for_each(|hand| hand.letterbox.tell_reopen());
        }
    }

    /// As the master of processes does, but for a new binary.
    fn obey(&mut self) {
        let orders = signals::take_orders();
        if orders.contain(Order::Rest) && !foreground::is_ours() {
            self.roster.rest(Instant::now());
        }
        if orders.contain(Order::Reload) {
            self.roster.reload();
        }
    }

    /// Once all is to stop, those who do not are left behind: their seats are not needed any more.
    fn leave_the_lost(&mut self) {
        if self.work.is_some() {
            return;
        }
        let lost = self.hands.iter().filter(|(_, hand)| hand.is_lost);
        let seats: Vec<Seat> = lost.map(|(&seat, _)| seat).collect();
        for seat in seats {
            self.hands.remove(&seat);
            self.ended(seat, ThreadEnd::LeftBehind, Some(Stop::Fast));
        }
    }
}

/// If it leaves early, by an error or by a panic in a hook, nobody watches the workers any more.
impl<F> Drop for Team<'_, F> {
    fn drop(&mut self) {
        let hands = self.hands.values();
        hands.for_each(|hand| hand.letterbox.tell_stop(Stop::Fast));
    }
}
