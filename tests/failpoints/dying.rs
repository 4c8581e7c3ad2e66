//! What a worker has of its group, and its listener, with points at which it may die.

use evcore::{
    Acceptor, GroupMember, Listener, Stream,
    accept::{Accept, Error},
    balancer::{GroupView, Load, WorkerId},
    poller::{Source, Target},
};

use crate::points::Points;

/// A part of a worker by which it meets the others, with points beside each call, also when it is
/// dropped.
#[derive(Debug)]
pub(crate) struct Dying<T> {
    // Fields are dropped in the order in which they are declared.
    points: DropBegins,
    it: T,
    _end: DropEnds,
}

#[derive(Debug)]
struct DropBegins(Points);

#[derive(Debug)]
struct DropEnds(Points);

impl<T> Dying<T> {
    pub(crate) fn new(it: T, points: &Points) -> Self {
        Self {
            points: DropBegins(points.clone()),
            it,
            _end: DropEnds(points.clone()),
        }
    }

    fn around<A>(&self, what: &'static str, call: impl FnOnce(&T) -> A) -> A {
        self.points.0.around(what, || call(&self.it))
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

impl<T: GroupMember> GroupMember for Dying<T> {
    fn try_lock(&self) -> bool {
        self.around("try_lock", T::try_lock)
    }

    fn unlock(&self) {
        self.around("unlock", T::unlock);
    }

    fn in_group(&self) -> bool {
        self.it.in_group()
    }

    fn is_notified(&self) -> bool {
        self.around("is_notified", T::is_notified)
    }

    fn sync(&self, load: Load) -> GroupView {
        self.around("sync", |it| it.sync(load))
    }

    fn lead(&self) {
        self.around("lead", T::lead);
    }

    fn step_down(&self) {
        self.around("step_down", T::step_down);
    }

    fn notify(&self, peer: WorkerId) {
        self.around("notify", |it| it.notify(peer));
    }

    fn notifier(&self) -> Option<Target<'_>> {
        self.it.notifier()
    }

    fn clear_notifier(&self) {
        self.around("clear_notifier", T::clear_notifier);
    }
}

impl Source for Dying<Listener> {
    fn target(&self) -> Target<'_> {
        self.points.0.pass("before", "register");
        self.it.target()
    }
}

impl Acceptor for Dying<Listener> {
    type Stream = Stream;

    fn accept(&self) -> Result<Accept, Error> {
        self.points.0.around("accept", || self.it.accept())
    }
}
