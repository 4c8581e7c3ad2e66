//! The lock, the seat and the listener of a worker, with points at which it may die.

use std::os::fd::RawFd;

use evcore::{
    Listen, Listener, Stream,
    accept::{Accept, Error},
    balancer::{Load, Lock, MutexHandle, PeerSeat, Seat, View},
    poller::Pollable,
};

use crate::points::Points;

/// Something of a worker's that others have to do with, and the points beside it.
#[derive(Debug)]
pub(crate) struct Dying<T> {
    it: T,
    points: Points,
}

impl<T> Dying<T> {
    pub(crate) fn new(it: T, points: &Points) -> Self {
        let points = points.clone();
        Self { it, points }
    }
}

impl Lock for Dying<MutexHandle> {
    fn try_lock(&mut self) -> bool {
        self.points.around("try_lock", || self.it.try_lock())
    }

    fn unlock(&mut self) {
        self.points.around("unlock", || self.it.unlock());
    }
}

impl Seat for Dying<PeerSeat> {
    fn is_called(&self) -> bool {
        self.points.around("is_called", || self.it.is_called())
    }

    fn look(&mut self, load: Load) -> View {
        self.points.around("look", || self.it.look(load))
    }

    fn take(&mut self) {
        self.points.around("take", || self.it.take());
    }

    fn resign(&mut self) {
        self.points.around("resign", || self.it.resign());
    }

    fn call(&mut self, peer: u32) {
        self.points.around("call", || self.it.call(peer));
    }

    fn bell(&self) -> Option<RawFd> {
        self.it.bell()
    }

    fn silence(&mut self) {
        self.points.around("silence", || self.it.silence());
    }
}

impl Pollable for Dying<Listener> {
    fn raw_fd(&self) -> RawFd {
        self.points.pass("before", "register");
        self.it.raw_fd()
    }
}

impl Listen for Dying<Listener> {
    type Stream = Stream;

    const TAKES_DESCRIPTORS: bool = Listener::TAKES_DESCRIPTORS;

    fn accept(&self) -> Result<Accept, Error> {
        self.points.around("accept", || self.it.accept())
    }
}
