//! Connections that a worker gives to another one while both serve, because it has more than its
//! share.
//!
//! A plan has the number of connections to give, and the worker that gets them. The loop may make a
//! plan in each turn (iteration). The connections leave when that worker has greeted (sent its
//! first message), so that none waits for a worker that does not run. The plans of further turns
//! may give more, so the channel stays open for a while.

use std::time::{Duration, Instant};

use evcore::balancer::{Give, Moved, WorkerId};
use evcore::{Acceptor, EventLoop};
use evcore_handover::{Connection, Descriptor, Error, Result};

use crate::departure::{Answers, Departure, descriptors};

/// The longest time that connections wait for the other worker's next message.
const PATIENCE: Duration = Duration::from_millis(250);

/// The time without a use after which the channel is closed. It is not a number of turns, because a
/// worker that has given its share may have no turn for a long time.
const UNUSED: Duration = Duration::from_millis(100);

#[derive(Debug)]
pub(crate) struct Giving<D> {
    to: WorkerId,
    departure: Departure<D>,
    /// Number of connections that the plan gives, and that have not left. The plan holds until the
    /// end of the first turn in which connections can leave.
    wanted: usize,
    /// Number of active connections that the plan leaves to this worker.
    floor: u32,
    /// The last time at which an answer was outstanding or connections left.
    used_at: Instant,
}

impl<D: Descriptor> Giving<D> {
    /// Opens a channel to the worker that reads this mailbox. This worker has `active` connections.
    pub(crate) fn open(
        give: Give,
        active: u32,
        mailbox: D::Borrowed<'_>,
        version: u32,
        now: Instant,
    ) -> Result<Self> {
        let mut departure = Departure::new(version, PATIENCE, now);
        departure.open(mailbox, now)?;
        let mut giving = Self {
            to: give.to,
            departure,
            wanted: 0,
            floor: 0,
            used_at: now,
        };
        giving.follow(give, active);
        Ok(giving)
    }

    /// Follows a plan, if it is for the same worker. Returns whether it is.
    pub(crate) fn follow(&mut self, give: Give, active: u32) -> bool {
        let is_same = self.to == give.to;
        if is_same {
            self.wanted = give.connections as usize;
            self.floor = active.saturating_sub(give.connections);
        }
        is_same
    }

    /// Gives no more connections until the next plan.
    pub(crate) fn forget_plan(&mut self) {
        self.wanted = 0;
    }

    /// Begins a turn: sends the connections that wait. Returns false if the channel has to be
    /// closed.
    pub(crate) fn begin_turn(&mut self, now: Instant) -> bool {
        if self.departure.awaits() {
            self.used_at = now;
        }
        if self.departure.is_claimed() {
            self.forget_plan();
        }
        let is_over = self.departure.is_overdue(now) || self.used_at + UNUSED <= now;
        !is_over && self.send_waiting(now).is_ok()
    }

    /// The time by which the other worker should have answered, or at which an unused channel is
    /// closed.
    pub(crate) fn due_at(&self) -> Instant {
        let due = self.departure.due_at();
        due.unwrap_or(self.used_at + UNUSED)
    }

    /// Number of connections that may leave in this turn. It is smaller than planned if some of
    /// this worker's connections, of which `active` are left, have ended since the plan.
    pub(crate) fn room(&self, active: u32) -> usize {
        let surplus = active.saturating_sub(self.floor);
        self.departure.room().min(self.wanted).min(surplus as usize)
    }

    pub(crate) fn under_way(&self) -> usize {
        self.departure.under_way()
    }

    /// Sends connections that have left the loop. These may be none, or only some of the wanted
    /// connections, because the program's next map may have the others.
    ///
    /// # Errors
    ///
    /// The channel has ended, or the kernel has no room. Call [`close`](Self::close) then, so that
    /// this worker serves the connections.
    pub(crate) fn send(
        &mut self,
        ev: &mut EventLoop<impl Acceptor>,
        leaving: Vec<Connection<D>>,
        now: Instant,
    ) -> Result<()> {
        let count = descriptors(&leaving);
        // A partner may exceed the wanted number by one.
        self.wanted = self.wanted.saturating_sub(count);
        if count > 0 {
            self.used_at = now;
        }
        report(ev, Moved::Left, count);
        for connection in leaving {
            self.departure.push(connection);
        }
        self.send_waiting(now)
    }

    fn send_waiting(&mut self, now: Instant) -> Result<()> {
        self.departure.send(now)?;
        match self.departure.is_full() {
            true => Err(Error::KernelFull),
            false => Ok(()),
        }
    }

    /// Reads the answers of the other worker. Returns the number of connections that it has taken,
    /// and an error if the channel has ended. Appends to `back` the connections that it has
    /// refused.
    pub(crate) fn read(
        &mut self,
        ev: &mut EventLoop<impl Acceptor>,
        back: &mut Vec<Connection<D>>,
        now: Instant,
    ) -> (usize, Result<()>) {
        let mut answers = Answers::default();
        let read = self.departure.read(now, &mut answers);
        report(ev, Moved::Taken, answers.acknowledged);
        report(ev, Moved::CameBack, descriptors(&answers.refused));
        back.extend(answers.refused);
        (answers.acknowledged, read)
    }

    pub(crate) fn descriptor(&self) -> &D {
        let descriptor = self.departure.descriptor();
        descriptor.expect("the channel is open until the gift ends")
    }

    /// Closes the channel. Returns the number of connections that the other worker has taken since
    /// the last [`read`](Self::read), and the connections that it has not taken.
    pub(crate) fn close(self, ev: &mut EventLoop<impl Acceptor>) -> (usize, Vec<Connection<D>>) {
        let under_way = self.under_way();
        let back = self.departure.take_back();
        let taken = under_way - descriptors(&back);
        report(ev, Moved::Taken, taken);
        report(ev, Moved::CameBack, descriptors(&back));
        (taken, back)
    }
}

fn report(ev: &mut EventLoop<impl Acceptor>, moved: fn(u32) -> Moved, connections: usize) {
    let connections = u32::try_from(connections).expect("a loop has fewer connections");
    if connections > 0 {
        ev.listeners().report_moved(moved(connections));
    }
}
