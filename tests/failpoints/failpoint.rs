//! The failpoints of a worker: the points at which it can die.
//!
//! There is a failpoint before and after each call by which a worker affects the others. Failpoints
//! inside these calls, before each operation on a shared word and each call of a notifier, need a
//! hook in the balancer. `tests/mutants/fail_points.patch` adds the hook to a copy of the tree.

use std::{
    mem,
    sync::{
        Arc, Mutex,
        atomic::{AtomicBool, AtomicU32, Ordering::Relaxed},
    },
};

use evcore::balancer::{AcceptMutex, WorkerId};
use rustix::process::{Signal, getpid, kill_process};

/// The failpoint at which a worker dies.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Fatal<'a> {
    /// The failpoint that is hit after this many others.
    Number(u32),
    /// The first failpoint of this kind, such as `before accept` or `before store in lead`.
    Kind(&'a str),
}

impl<'a> Fatal<'a> {
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

/// True if there are failpoints inside calls.
pub(crate) const INSIDE: bool = false;

/// The failpoints of one worker. A clone shares the count of hits.
#[derive(Clone, Debug)]
pub(crate) struct Failpoints(Arc<State>);

#[derive(Debug)]
struct State {
    enabled: AtomicBool,
    hits: AtomicU32,
    fatal: Fatal<'static>,
    call: Mutex<Option<&'static str>>,
    /// The worker that gets this lock dies. The lock is never released, so no other worker dies.
    death: AcceptMutex,
}

impl Failpoints {
    pub(crate) fn new(fatal: Fatal<'static>, death: AcceptMutex) -> Self {
        let state = Arc::new(State {
            enabled: AtomicBool::new(false),
            hits: AtomicU32::new(0),
            fatal,
            call: Mutex::new(None),
            death,
        });
        Self(state)
    }

    pub(crate) fn enable(&self, on: bool) {
        self.0.enabled.store(on, Relaxed);
    }

    /// Hits a failpoint, at which this process dies if the failpoint is the fatal one.
    pub(crate) fn hit(&self, when: &str, call: &str) {
        self.0.hit(&format!("{when} {call}"));
    }

    pub(crate) fn around<T>(&self, name: &'static str, call: impl FnOnce() -> T) -> T {
        self.enter(name);
        let result = call();
        self.leave(name);
        result
    }

    pub(crate) fn enter(&self, name: &'static str) {
        self.hit("before", name);
        self.0.set_call(Some(name));
    }

    pub(crate) fn leave(&self, name: &'static str) {
        self.0.set_call(None);
        self.hit("after", name);
    }
}

/// Returns an id of this process. A replacement has another id than the dead worker, so the
/// replacement does not get the lock that the dead worker has.
pub(crate) fn this_process() -> WorkerId {
    WorkerId::from_slot(std::process::id() as usize)
}

impl State {
    fn hit(&self, kind: &str) {
        if !self.enabled.load(Relaxed) {
            return;
        }
        let hits = self.hits.fetch_add(1, Relaxed);
        let is_fatal = match self.fatal {
            Fatal::Number(number) => hits == number,
            Fatal::Kind(fatal) => fatal == kind,
        };
        if is_fatal {
            self.die(kind);
        }
    }

    /// Ends this process, unless another worker has died before.
    fn die(&self, kind: &str) {
        // Without a present call, the failpoints inside `try_lock` below have no effect.
        let call = self.set_call(None);
        if self.death.try_lock(this_process()) {
            eprintln!("dies {kind}");
            kill_process(getpid(), Signal::KILL).expect("this process exists");
            unreachable!("no process survives SIGKILL");
        }
        self.set_call(call);
    }

    fn set_call(&self, call: Option<&'static str>) -> Option<&'static str> {
        mem::replace(&mut self.call.lock().expect("no call panics"), call)
    }
}
