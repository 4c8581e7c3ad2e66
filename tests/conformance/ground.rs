//! What a scenario stands on: this system's kernel, or a simulated world.
//!
//! Here is all that scenarios want and that the two do each in their own way: sockets, numbers
//! that come back, crowds, time, and what happens while a poller waits.

use std::{fmt, time::Duration};

use evcore_poller::{Interest, Poller, Ready, Source, Waker};

use crate::{
    backends::Backend,
    socket::{Socket, drain, fill},
};

/// A kernel with one of its interfaces, or a world with a poller of some shape.
pub(crate) trait Ground: fmt::Debug + Send + Sync {
    /// For what panics.
    fn name(&self) -> String;

    /// What is expected of the poller under test.
    fn backend(&self) -> Backend;

    /// A poller of the kind that is under test.
    fn poller(&self) -> Poller;

    /// Whether that poller is to have exclusive registrations.
    fn has_exclusive(&self) -> bool;

    /// A clock, which the waits of that poller are measured by.
    fn time(&self) -> Duration;

    /// Two connected stream sockets that do not block. What one does, the other can see at once.
    fn pair(&self) -> (Socket, Socket);

    /// Two such sockets, the first for [`write_during`](Self::write_during).
    fn late_pair(&self) -> (Socket, Socket) {
        self.pair()
    }

    /// A new pair, whose second socket has the number that `old` had, which is closed.
    fn succeed(&self, old: Socket) -> (Socket, Socket);

    /// The same socket with a number that no other will have when it is closed: `nth` of its kind.
    fn with_a_number_of_its_own(&self, socket: Socket, nth: i32) -> Socket;

    /// Many to be watched, that are full and empty together.
    fn crowd(&self, count: u64) -> Crowd;

    /// What holds of a socket, as far as `interest` asks: seen without the poller under test.
    fn truth(&self, socket: &Socket, interest: Interest) -> Ready;

    /// Wakes at some time during `wait`.
    fn wake_during(&self, waker: &Waker, wait: &mut dyn FnMut());

    /// Writes a byte into the first of a [late pair](Self::late_pair), that arrives at some time
    /// during `wait`.
    fn write_during(&self, near: &Socket, wait: &mut dyn FnMut());
}

/// Many to be watched for writing.
pub(crate) struct Crowd {
    members: Vec<Box<dyn Source>>,
    pairs: Vec<(Socket, Socket)>,
}

impl Crowd {
    /// Those who are watched in place of the `pairs`' second sockets, if anybody is.
    pub(crate) fn new(pairs: Vec<(Socket, Socket)>, members: Vec<Box<dyn Source>>) -> Self {
        Self { members, pairs }
    }

    pub(crate) fn members(&self) -> Vec<&dyn Source> {
        if self.members.is_empty() {
            return self
                .pairs
                .iter()
                .map(|(_, far)| far as &dyn Source)
                .collect();
        }
        self.members.iter().map(AsRef::as_ref).collect()
    }

    /// None of them has room from here on.
    pub(crate) fn fill(&self) {
        for (_, far) in &self.pairs {
            fill(far);
        }
    }

    /// All of them have room again.
    pub(crate) fn drain(&self) {
        for (near, _) in &self.pairs {
            drain(near);
        }
    }
}
