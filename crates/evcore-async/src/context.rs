//! The loop that an executor lends to a future while it polls the future.
//!
//! The poll of a future has no argument for the loop, so the loop is lent through a variable of the
//! thread. A closure that is passed to [`with`] calls no future, no waker and no destructor of the
//! application, because each of these may call [`with`], too.

use std::any::Any;
use std::cell::Cell;
use std::time::{Duration, Instant};

use evcore::net::{EdgeLoop, Side};
use evcore::poller::Source;
use evcore::{Acceptor, EventLoop, Interest, Mode, Ready, Result, Timer, Token};
use scoped_tls_hkt::scoped_thread_local;

use crate::run_queue::RunQueue;

scoped_thread_local!(static mut LENT: for<'a> &'a mut (dyn Lent + 'a));

std::thread_local! {
    /// The identity of the executor that has lent its loop, or 0.
    static ENTERED: Cell<u64> = const { Cell::new(0) };
}

/// The calls that futures make to a loop, whatever the type of its listeners. To *post* a token
/// means to make the loop yield a step with that token.
pub(crate) trait Lent {
    /// The executor that lends the loop: an `Rc<Shared>`.
    fn executor(&self) -> &dyn Any;
    fn add(&mut self, source: &dyn Source, interest: Interest) -> Result<Token>;
    fn add_background(&mut self, source: &dyn Source) -> Result<Token>;
    fn add_unwatched(&mut self) -> Result<Token>;
    fn remove(&mut self, token: Token);
    /// Makes a task due. Returns true if the task is in the run queue, and false if its own token
    /// was posted.
    fn run(&mut self, task: Token) -> bool;
    fn post_main(&mut self, main: Token);
    fn post(&mut self, token: Token);
    fn post_next(&mut self, token: Token);
    fn set_idle(&mut self, token: Token, is_idle: bool);
    fn rearm(&mut self, token: Token, side: Side);
    fn arm(&mut self, token: Token, deadline: Instant);
    /// Makes a shutdown wait for a token that has no descriptor.
    fn hold(&mut self, token: Token);
    /// Disarms the timer of a sleep, or ends a [hold](Self::hold).
    fn disarm(&mut self, token: Token);
    fn turn(&self) -> u64;
    fn now(&self) -> Instant;
    fn is_full(&self) -> bool;
    fn is_shutting_down(&self) -> bool;
}

struct Loan<'a, L: Acceptor> {
    ev: &'a mut EventLoop<L>,
    executor: &'a dyn Any,
    run_queue: &'a RunQueue,
}

/// The timer of a sleep, and of a [hold](Lent::hold).
const SLEEP: Timer = Timer::READ;

/// A long time by which an `Instant` can be moved on every system: some 30 years.
pub(crate) const FAR: Duration = Duration::from_secs(1 << 30);

impl<L: Acceptor> Lent for Loan<'_, L> {
    fn executor(&self) -> &dyn Any {
        self.executor
    }

    fn add(&mut self, source: &dyn Source, interest: Interest) -> Result<Token> {
        self.ev.add(source, interest, Mode::Edge)
    }

    fn add_background(&mut self, source: &dyn Source) -> Result<Token> {
        self.ev.add_background(source)
    }

    fn add_unwatched(&mut self) -> Result<Token> {
        self.ev.add_unwatched()
    }

    fn remove(&mut self, token: Token) {
        self.ev.remove(token);
    }

    #[inline]
    fn run(&mut self, task: Token) -> bool {
        let queue = self.run_queue;
        if queue.is_stepwise {
            self.post(task);
        } else if queue.push(task) {
            self.post(queue.runner);
        }
        !queue.is_stepwise
    }

    fn post_main(&mut self, main: Token) {
        self.run_queue.give_way();
        self.post(main);
    }

    #[inline]
    fn post(&mut self, token: Token) {
        self.ev.post(token, Ready::NONE);
    }

    fn set_idle(&mut self, token: Token, is_idle: bool) {
        if is_idle {
            self.ev.set_idle(token);
        } else {
            self.ev.set_busy(token);
        }
    }

    fn post_next(&mut self, token: Token) {
        self.ev.post_next(token, Ready::NONE);
    }

    fn rearm(&mut self, token: Token, side: Side) {
        EdgeLoop::rearm(self.ev, token, side);
    }

    fn arm(&mut self, token: Token, deadline: Instant) {
        self.ev.timers().arm_at(token, SLEEP, deadline);
    }

    fn hold(&mut self, token: Token) {
        // A shutdown waits for timers.
        self.ev.arm(token, SLEEP, FAR);
    }

    fn disarm(&mut self, token: Token) {
        self.ev.disarm(token, SLEEP);
    }

    fn turn(&self) -> u64 {
        EdgeLoop::turn(self.ev)
    }

    fn now(&self) -> Instant {
        let clock = self.ev.clock();
        // The loop's time stands still during a turn, which may have lasted long.
        let lasted_ns = clock
            .monotonic_ns_now()
            .saturating_sub(clock.monotonic_ns());
        clock.instant() + Duration::from_nanos(lasted_ns)
    }

    fn is_full(&self) -> bool {
        let stats = self.ev.stats();
        stats.active >= stats.limit
    }

    fn is_shutting_down(&self) -> bool {
        self.ev.stats().shutting_down
    }
}

/// Lends the loop of an executor while `call` runs.
pub(crate) fn enter<L: Acceptor, R>(
    ev: &mut EventLoop<L>,
    (run_queue, executor): (&RunQueue, &dyn Any),
    call: impl FnOnce() -> R,
) -> R {
    struct Leave(u64);
    impl Drop for Leave {
        fn drop(&mut self) {
            ENTERED.set(self.0);
        }
    }
    let id = run_queue.id;
    let mut loan = Loan {
        ev,
        executor,
        run_queue,
    };
    LENT.set(&mut loan, || {
        let _leave = Leave(ENTERED.replace(id));
        call()
    })
}

/// Returns whether a loop is lent on this thread.
pub(crate) fn is_entered() -> bool {
    ENTERED.get() != 0
}

/// Returns whether this executor has lent its loop on this thread.
#[inline]
pub(crate) fn has_entered(id: u64) -> bool {
    ENTERED.get() == id
}

/// Uses the loop that is lent.
///
/// # Panics
///
/// If no loop is lent.
#[inline]
pub(crate) fn with<R>(call: impl FnOnce(&mut dyn Lent) -> R) -> R {
    assert!(
        is_entered(),
        "there is no runtime here: call this in a future that Runtime::block_on or an Executor polls"
    );
    LENT.with(|lent| call(lent))
}

pub(crate) struct LentLoop;

impl EdgeLoop for LentLoop {
    type Token = Token;

    fn turn(&self) -> u64 {
        with(|lent| lent.turn())
    }

    fn rearm(&mut self, token: Token, side: Side) {
        with(|lent| lent.rearm(token, side));
    }

    fn resume(&mut self, token: Token) {
        with(|lent| lent.post_next(token));
    }
}
