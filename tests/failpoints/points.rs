//! The points at which a worker can die.
//!
//! A point is before or after a call by which a worker meets the others. In a build with
//! `--cfg evcore_failpoints` there is one inside of it too, before each operation on a word that they
//! share and before a notifier is set or cleared. (That build needs the balancer with a hook before
//! each of these operations, which is an edit of a copy of it.)

use std::{
    mem,
    sync::{
        Arc, Mutex,
        atomic::{AtomicBool, AtomicU32, Ordering::Relaxed},
    },
};

use evcore::balancer::{AcceptMutex, WorkerId};
use rustix::process::{Signal, getpid, kill_process};

/// Where a worker dies.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Fatal<'a> {
    /// At the point that it comes to after so many others.
    Number(u32),
    /// At the first point of this kind: `before accept`, or `before store in lead`.
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
    course: Arc<Course>,
}

#[derive(Debug)]
struct Course {
    /// Points are passed without harm until they count.
    counts: AtomicBool,
    passed: AtomicU32,
    fatal: Fatal<'static>,
    /// The call that is under way.
    call: Mutex<Option<&'static str>>,
    /// Only the first worker that gets there dies: the one that gets this lock, which is never
    /// released.
    death: AcceptMutex,
}

impl Points {
    pub(crate) fn new(fatal: Fatal<'static>, death: AcceptMutex) -> Self {
        let course = Arc::new(Course {
            counts: AtomicBool::new(false),
            passed: AtomicU32::new(0),
            fatal,
            call: Mutex::new(None),
            death,
        });
        #[cfg(evcore_failpoints)]
        inside::lie_on(&course);
        Self { course }
    }

    /// Whether points count from here on.
    pub(crate) fn count(&self, they_do: bool) {
        self.course.counts.store(they_do, Relaxed);
    }

    /// A point, and the end of this process if it is the fatal one.
    pub(crate) fn pass(&self, when: &str, what: &str) {
        self.course.pass(&format!("{when} {what}"));
    }

    /// A call with a point on either side, and those inside of it.
    pub(crate) fn around<T>(&self, what: &'static str, call: impl FnOnce() -> T) -> T {
        self.enter(what);
        let answer = call();
        self.leave(what);
        answer
    }

    /// A call begins.
    pub(crate) fn enter(&self, what: &'static str) {
        self.pass("before", what);
        self.course.set_call(Some(what));
    }

    /// A call ends.
    pub(crate) fn leave(&self, what: &'static str) {
        self.course.set_call(None);
        self.pass("after", what);
    }
}

/// A replacement has the slot of the worker that died, and must not die too.
pub(crate) fn this_process() -> WorkerId {
    WorkerId::from_slot(std::process::id() as usize)
}

impl Course {
    fn pass(&self, kind: &str) {
        if !self.counts.load(Relaxed) {
            return;
        }
        let passed = self.passed.fetch_add(1, Relaxed);
        let is_fatal = match self.fatal {
            Fatal::Number(number) => passed == number,
            Fatal::Kind(fatal) => fatal == kind,
        };
        if is_fatal {
            self.die(kind);
        }
    }

    /// Ends this process, unless another has come to its fatal point before.
    fn die(&self, kind: &str) {
        // The right to die is got by such a word as has points inside.
        let call = self.set_call(None);
        if self.death.try_lock(this_process()) {
            eprintln!("dies {kind}");
            kill_process(getpid(), Signal::KILL).expect("it is this process");
            unreachable!("nobody survives that");
        }
        self.set_call(call);
    }

    /// Notes the call that is under way, and returns the one before.
    fn set_call(&self, call: Option<&'static str>) -> Option<&'static str> {
        mem::replace(&mut self.call.lock().expect("no call panics"), call)
    }
}

#[cfg(evcore_failpoints)]
mod inside {
    use std::{cell::RefCell, sync::Arc};

    use super::Course;

    thread_local! {
        static COURSE: RefCell<Option<Arc<Course>>> = const { RefCell::new(None) };
    }

    /// The points of this worker that lie inside of calls are on this course from now on.
    pub(super) fn lie_on(course: &Arc<Course>) {
        COURSE.set(Some(Arc::clone(course)));
        evcore::balancer::at_points(pass);
    }

    /// What nobody calls that could die is not counted: the server does, before it is a worker, and
    /// the one that dies, for the right to.
    fn pass(operation: &str) {
        let Some(course) = COURSE.with_borrow(Clone::clone) else {
            return;
        };
        let call = *course.call.lock().expect("no call panics");
        if let Some(call) = call {
            course.pass(&format!("before {operation} in {call}"));
        }
    }
}
