//! The points at which a worker can die.

use std::{cell::Cell, rc::Rc};

use evcore::balancer::{AcceptMutex, this_process};
use rustix::process::{Signal, getpid, kill_process};

/// Where a worker dies.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Fatal<'a> {
    /// At the point that it comes to after so many others.
    Number(u32),
    /// At the first point of this kind: `before accept`.
    Kind(&'a str),
}

impl<'a> Fatal<'a> {
    /// The one of this [name](Self::name).
    pub(crate) fn named(name: &'a str) -> Self {
        name.parse().map_or(Self::Kind(name), Self::Number)
    }

    pub(crate) fn name(self) -> String {
        match self {
            Self::Number(number) => number.to_string(),
            Self::Kind(kind) => kind.to_owned(),
        }
    }
}

/// How many points a worker has passed, and which one is fatal. A clone counts on with it.
#[derive(Clone, Debug)]
pub(crate) struct Points {
    passed: Rc<Cell<u32>>,
    fatal: Fatal<'static>,
    /// Only the first who gets there dies: who has this lock, which nobody gives back.
    death: AcceptMutex,
}

impl Points {
    pub(crate) fn new(fatal: Fatal<'static>, death: AcceptMutex) -> Self {
        Self {
            passed: Rc::default(),
            fatal,
            death,
        }
    }

    /// A point, and the end of this process if it is the fatal one.
    pub(crate) fn pass(&self, when: &str, what: &str) {
        let passed = self.passed.get();
        self.passed.set(passed + 1);
        let is_fatal = match self.fatal {
            Fatal::Number(number) => passed == number,
            Fatal::Kind(kind) => kind.split_once(' ') == Some((when, what)),
        };
        if is_fatal && self.death.try_lock(this_process()) {
            die(when, what);
        }
    }

    /// A call with a point on either side.
    pub(crate) fn around<T>(&self, what: &str, call: impl FnOnce() -> T) -> T {
        self.pass("before", what);
        let answer = call();
        self.pass("after", what);
        answer
    }
}

fn die(when: &str, what: &str) -> ! {
    eprintln!("dies {when} {what}");
    kill_process(getpid(), Signal::KILL).expect("it is this process");
    unreachable!("nobody survives that");
}
