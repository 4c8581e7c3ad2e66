//! Hands the connections of a dead worker to its successor. No call here waits.

use std::os::fd::OwnedFd;
use std::time::{Duration, Instant};

use evcore_handover::{Connection, Descriptor, Error, Result};

use crate::departure::{Answers, Departure};

/// The time for which successors are tried, one after another. It is longer than the longest pause
/// before a worker is restarted, which is ten seconds.
const PATIENCE: Duration = Duration::from_secs(20);

/// The time without a greeting, the first message of a successor, after which another channel is
/// opened. A successor may die after it has taken the channel out of the mailbox and before it
/// greets, and nothing reports that. A later death is reported, so this limit ends with the
/// greeting.
const SILENCE: Duration = Duration::from_secs(2);

/// Connections on their way to a successor.
#[derive(Debug)]
pub(crate) struct HandingOn<D: Descriptor = OwnedFd> {
    until: Instant,
    count: usize,
    /// Number of connections that were closed, because successors had no room for them.
    closed: usize,
    departure: Departure<D>,
}

impl<D: Descriptor> HandingOn<D> {
    /// Begins with these descriptors. Each arrives with this state.
    pub(crate) fn new(descriptors: Vec<D>, version: u32, state: &[u8], now: Instant) -> Self {
        let (mut departure, count) = (Departure::new(version, SILENCE, now), descriptors.len());
        for descriptor in descriptors {
            departure.push(Connection {
                descriptor,
                partner: None,
                state: state.to_vec(),
            });
        }
        Self {
            until: now + PATIENCE,
            count,
            closed: 0,
            departure,
        }
    }

    /// Takes one turn: does the work that is due, without a wait. Returns the time of the next
    /// turn, which comes earlier if the [descriptor](Self::descriptor) is readable; `None` if this
    /// was the last turn.
    pub(crate) fn turn(&mut self, successor: D::Borrowed<'_>, now: Instant) -> Option<Instant> {
        if self.departure.under_way() == 0 {
            return None;
        }
        // A failure is tried again, because a shortage may end, and because a closed mailbox
        // belongs to a master that stops. The next turn may get the mailbox of another binary.
        let _ = self.departure.open(successor, now);
        match self.exchange(now) {
            Ok(()) => {}
            // The successor has died, has ended the channel, or has sent no greeting. The
            // connections that it has not acknowledged go to the next successor.
            Err(Error::Ended) if now < self.until => _ = self.departure.close(now),
            Err(_) => return None,
        }
        // After `until`, connections wait only for the answer to a message that was sent.
        if self.until <= now && self.departure.unanswered() == 0 {
            return None;
        }
        match self.departure.under_way() {
            0 => None,
            _ => Some(self.departure.due_at().unwrap_or(now)),
        }
    }

    /// The descriptor that is readable when answers have come; `None` without a channel.
    pub(crate) fn descriptor(&self) -> Option<&D> {
        self.departure.descriptor()
    }

    /// Returns how many connections successors have taken, and the connections that are left.
    pub(crate) fn end(self) -> (usize, Vec<Connection<D>>) {
        let left = self.departure.take_back();
        (self.count - self.closed - left.len(), left)
    }

    fn exchange(&mut self, now: Instant) -> Result<()> {
        let departure = &mut self.departure;
        let mut answers = Answers::default();
        let read = departure.read(now, &mut answers);
        // A successor that refuses lacks room or descriptors for all these connections. So an
        // eighth of them is closed, and the others are sent again.
        let mut refused = answers.refused;
        let fewer = refused.len().div_ceil(8);
        self.closed += fewer;
        refused.truncate(refused.len() - fewer);
        refused.into_iter().for_each(|one| departure.push(one));
        read?;
        departure.send(now)?;
        if departure.is_claimed() {
            departure.wait_until(self.until);
        }
        match departure.descriptor().is_some() && departure.is_overdue(now) {
            true => Err(Error::Ended),
            false => Ok(()),
        }
    }
}
