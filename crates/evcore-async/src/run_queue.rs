//! The tasks that were woken on the loop's thread and are due, in that order.

use std::cell::{Cell, RefCell};
use std::collections::VecDeque;

use evcore::Token;

/// The tasks of an executor that are due. One posted step of the loop, that of the runner, polls many of
/// them, because a posted step takes longer than most polls.
pub(crate) struct RunQueue {
    /// The number of the executor, which is not 0, and different for each one of the process.
    pub(crate) id: u64,
    /// The token whose step polls the tasks.
    pub(crate) runner: Token,
    /// True if the loop has instruments. Each task then has a step of its own, by which they name it.
    pub(crate) is_stepwise: bool,
    due: RefCell<VecDeque<Token>>,
    /// True if the runner is posted, or its step polls tasks.
    is_running: Cell<bool>,
    /// The number of tasks that were due when the main future was woken, and go before it.
    before_main: Cell<usize>,
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
        }
    }

    /// Queues a task. Returns whether the runner has to be posted for it.
    #[inline]
    pub(crate) fn push(&self, task: Token) -> bool {
        self.due.borrow_mut().push_back(task);
        !self.is_running.replace(true)
    }

    /// Takes the task that has been due for longest, unless it is the turn of the main future.
    #[inline]
    pub(crate) fn pop(&self) -> Option<Token> {
        let left = self.before_main.get().checked_sub(1)?;
        self.before_main.set(left);
        self.due.borrow_mut().pop_front()
    }

    /// Lets the main future, which is posted now, run before tasks that become due later.
    pub(crate) fn give_way(&self) {
        if self.is_running.get() {
            let due = self.due.borrow().len();
            self.before_main.set(self.before_main.get().min(due));
        }
    }

    /// Ends a step of the runner. Returns whether it has to be posted again.
    pub(crate) fn pause(&self) -> bool {
        self.before_main.set(usize::MAX);
        let is_due = !self.due.borrow().is_empty();
        self.is_running.set(is_due);
        is_due
    }
}
