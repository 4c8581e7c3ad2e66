//! The platform of a scenario: this system's kernel, or a simulation.

use std::{fmt, time::Duration};

use evcore_poller::{Interest, Poller, Ready, Source, Waker};

use crate::{
    expectations::Backend,
    socket::{Socket, drain, fill},
};

/// A kernel with one of its interfaces, or a simulation with a poller of some shape.
pub(crate) trait Platform: fmt::Debug + Send + Sync {
    fn name(&self) -> String;

    /// The expectations of the poller under test.
    fn backend(&self) -> Backend;

    fn poller(&self) -> Poller;

    fn has_exclusive(&self) -> bool;

    /// The present time on the clock of the poller's waits.
    fn time(&self) -> Duration;

    /// Two connected non-blocking stream sockets. Each sees at once what the other does.
    fn pair(&self) -> (Socket, Socket);

    /// Two connected sockets, the first for [`write_during`](Self::write_during).
    fn late_pair(&self) -> (Socket, Socket) {
        self.pair()
    }

    /// Closes `old`, and makes a new pair, whose second socket has the number of `old`.
    fn succeed(&self, old: Socket) -> (Socket, Socket);

    /// Moves a socket to the `nth` of the numbers that no other socket gets, even after this socket
    /// is closed.
    fn with_a_number_of_its_own(&self, socket: Socket, nth: i32) -> Socket;

    /// Many sockets, which become full and empty together.
    fn many_sockets(&self, count: u64) -> ManySockets;

    /// The true readiness of a socket for an interest, found without the poller under test.
    fn truth(&self, socket: &Socket, interest: Interest) -> Ready;

    /// Calls `waker.wake()` at some time during `wait`.
    fn wake_during(&self, waker: &Waker, wait: &mut dyn FnMut());

    /// Writes a byte into the first of a [late pair](Self::late_pair). The byte arrives at some
    /// time during `wait`.
    fn write_during(&self, near: &Socket, wait: &mut dyn FnMut());
}

pub(crate) struct ManySockets {
    members: Vec<Box<dyn Source>>,
    pairs: Vec<(Socket, Socket)>,
}

impl ManySockets {
    /// If there are `members`, scenarios watch them in place of the second sockets of the `pairs`.
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

    pub(crate) fn fill(&self) {
        for (_, far) in &self.pairs {
            fill(far);
        }
    }

    /// Makes room in all sockets.
    pub(crate) fn drain(&self) {
        for (near, _) in &self.pairs {
            drain(near);
        }
    }
}
