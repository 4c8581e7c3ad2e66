//! The lock, the seat and the listener of a worker, with points at which it may die.

use std::os::fd::RawFd;

use evcore::{
    Listen, Listener, Stream,
    accept::{Accept, Error},
    balancer::{Load, Lock, MutexHandle, PeerSeat, Seat, View},
    poller::Pollable,
};

use crate::points::Points;

/// Something of a worker's that others have to do with, and the points beside it, also when it is
/// given up.
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

    fn around<A>(&mut self, what: &'static str, call: impl FnOnce(&mut T) -> A) -> A {
        self.points.0.around(what, || call(&mut self.it))
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

impl Lock for Dying<MutexHandle> {
    fn try_lock(&mut self) -> bool {
        self.around("try_lock", |it| it.try_lock())
    }

    fn unlock(&mut self) {
        self.around("unlock", |it| it.unlock());
    }
}

impl Seat for Dying<PeerSeat> {
    fn is_called(&self) -> bool {
        self.points.0.around("is_called", || self.it.is_called())
    }

    fn look(&mut self, load: Load) -> View {
        self.around("look", |it| it.look(load))
    }

    fn take(&mut self) {
        self.around("take", |it| it.take());
    }

    fn resign(&mut self) {
        self.around("resign", |it| it.resign());
    }

    fn call(&mut self, peer: u32) {
        self.around("call", |it| it.call(peer));
    }

    fn bell(&self) -> Option<RawFd> {
        self.it.bell()
    }

    fn silence(&mut self) {
        self.around("silence", |it| it.silence());
    }
}

impl Pollable for Dying<Listener> {
    fn raw_fd(&self) -> RawFd {
        self.points.0.pass("before", "register");
        self.it.raw_fd()
    }
}

impl Listen for Dying<Listener> {
    type Stream = Stream;

    const TAKES_DESCRIPTORS: bool = Listener::TAKES_DESCRIPTORS;

    fn accept(&self) -> Result<Accept, Error> {
        self.points.0.around("accept", || self.it.accept())
    }
}
