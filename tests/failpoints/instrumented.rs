//! The group member and the listener of a worker, with failpoints around the calls that affect
//! other workers.

use evcore::{
    Acceptor, Listener, Stream,
    balancer::{GroupMember, GroupView, Load, Notifier, Policy, WorkerId},
    net::{Accept, Error},
    poller::{Source, Target},
};

use crate::failpoint::Failpoints;

#[derive(Debug)]
pub(crate) struct Instrumented<T> {
    // Fields are dropped in this order.
    failpoints: DropBegins,
    inner: T,
    _end: DropEnds,
}

#[derive(Debug)]
struct DropBegins(Failpoints);

#[derive(Debug)]
struct DropEnds(Failpoints);

impl<T> Instrumented<T> {
    pub(crate) fn new(inner: T, failpoints: &Failpoints) -> Self {
        Self {
            failpoints: DropBegins(failpoints.clone()),
            inner,
            _end: DropEnds(failpoints.clone()),
        }
    }

    fn around<A>(&self, name: &'static str, call: impl FnOnce(&T) -> A) -> A {
        self.failpoints.0.around(name, || call(&self.inner))
    }
}

impl Drop for DropBegins {
    fn drop(&mut self) {
        self.0.enter("drop");
    }
}

impl Drop for DropEnds {
    fn drop(&mut self) {
        self.0.leave("drop");
    }
}

impl<T: GroupMember> GroupMember for Instrumented<T> {
    fn policy(&self) -> Option<Policy> {
        self.inner.policy()
    }

    fn try_lock(&self) -> bool {
        self.around("try_lock", T::try_lock)
    }

    fn unlock(&self) {
        self.around("unlock", T::unlock);
    }

    fn in_group(&self) -> bool {
        self.inner.in_group()
    }

    fn is_notified(&self) -> bool {
        self.around("is_notified", T::is_notified)
    }

    fn sync(&self, load: Load) -> GroupView {
        self.around("sync", |inner| inner.sync(load))
    }

    fn set_late(&self, late: bool) {
        self.around("set_late", |inner| inner.set_late(late));
    }

    fn lead(&self) {
        self.around("lead", T::lead);
    }

    fn step_down(&self) {
        self.around("step_down", T::step_down);
    }

    fn notify(&self, peer: WorkerId) {
        self.around("notify", |inner| inner.notify(peer));
    }

    fn notifier(&self) -> Option<Notifier<'_>> {
        self.inner.notifier()
    }

    fn clear_notifier(&self) {
        self.around("clear_notifier", T::clear_notifier);
    }
}

impl Source for Instrumented<Listener> {
    fn target(&self) -> Target<'_> {
        self.failpoints.0.hit("before", "register");
        self.inner.target()
    }
}

impl Acceptor for Instrumented<Listener> {
    type Stream = Stream;

    fn accept(&self) -> Result<Accept, Error> {
        self.failpoints.0.around("accept", || self.inner.accept())
    }
}
