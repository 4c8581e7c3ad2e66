//! The tasks that were woken while the loop was lent (see `context`), in the order of their
//! wake-ups.

use std::cell::{Cell, RefCell};
use std::collections::VecDeque;

use evcore::Token;

/// The tasks of an executor that are due. To poll them, the executor *posts* a token of its own,
/// the *runner*: it makes the loop yield a step with that token. This one step polls many tasks,
/// because a posted step takes longer than most polls.
pub(crate) struct RunQueue {
    /// The identity of the executor: a nonzero number that is unique in the process.
    pub(crate) id: u64,
    pub(crate) runner: Token,
    /// True if the loop has instruments. Each task is then polled in the step of its own token, so
    /// that the instruments can name the task.
    pub(crate) is_stepwise: bool,
    due: RefCell<VecDeque<Token>>,
    /// True if the runner is posted, or if its step is polling tasks.
    is_running: Cell<bool>,
    /// Number of tasks that still run before the main future (of `Runtime::block_on`), because they
    /// were due when it was woken.
    before_main: Cell<usize>,
    /// The latest turn (iteration of the loop) in which the runner had a step, and the number of
    /// polls left in that turn.
    turn: Cell<u64>,
    polls_left: Cell<usize>,
}

impl RunQueue {
    pub(crate) fn new(id: u64, runner: Token, is_stepwise: bool) -> Self {
        Self {
            id,
            runner,
            is_stepwise,
            due: RefCell::default(),
            is_running: Cell::new(false),
            before_main: Cell::new(usize::MAX),
            turn: Cell::new(0),
            polls_left: Cell::new(0),
        }
    }

    /// Queues a task. Returns whether the caller has to post the runner.
    #[inline]
    pub(crate) fn push(&self, task: Token) -> bool {
        self.due.borrow_mut().push_back(task);
        !self.is_running.replace(true)
    }

    /// Begins a step of the runner. The first step in a turn allows `polls_max` polls for the whole
    /// turn. (A main future that yields divides the polls of a turn into several steps.)
    #[inline]
    pub(crate) fn begin_turn(&self, turn: u64, polls_max: usize) {
        if self.turn.replace(turn) != turn {
            self.polls_left.set(polls_max);
        }
    }

    #[inline]
    pub(crate) fn may_poll(&self) -> bool {
        self.polls_left.get() > 0
    }

    /// Takes the task that has been due for longest. Returns `None` if there is none, if the main
    /// future runs next, or if the turn has no poll left.
    #[inline]
    pub(crate) fn pop(&self) -> Option<Token> {
        let before_main = self.before_main.get().checked_sub(1)?;
        let polls_left = self.polls_left.get().checked_sub(1)?;
        self.before_main.set(before_main);
        let task = self.due.borrow_mut().pop_front()?;
        self.polls_left.set(polls_left);
        Some(task)
    }

    /// Lets the main future, which the caller posts, run before tasks that become due later.
    pub(crate) fn give_way(&self) {
        if self.is_running.get() {
            let due = self.due.borrow().len();
            self.before_main.set(self.before_main.get().min(due));
        }
    }

    /// Ends a step of the runner. Returns whether the caller has to post the runner again.
    pub(crate) fn pause(&self) -> bool {
        self.before_main.set(usize::MAX);
        let is_due = !self.due.borrow().is_empty();
        self.is_running.set(is_due);
        is_due
    }
}
