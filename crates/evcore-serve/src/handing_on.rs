//! Hands the connections of a dead worker to its successor. No call here waits.

use std::os::fd::OwnedFd;
use std::time::{Duration, Instant};

use evcore_handover::{Connection, Descriptor, Error, Result};

use crate::departure::{Answers, Departure};

/// The time after which no channel to a further successor is opened. It is longer than the longest pause
/// before a restart, which is ten seconds.
const PATIENCE: Duration = Duration::from_secs(20);

/// The time without a message after which another channel is opened. If a successor dies after it has
/// taken the channel out of the mailbox and before it greets, nothing reports that.
const SILENCE: Duration = Duration::from_secs(2);

/// The pause after which a full mailbox is tried again.
const PAUSE: Duration = Duration::from_millis(10);

/// Connections on their way to a successor.
#[derive(Debug)]
pub(crate) struct HandingOn<D: Descriptor = OwnedFd> {
    version: u32,
    until: Instant,
    /// Number of connections at the beginning, and of those that were closed since.
    count: usize,
    closed: usize,
    /// The connections, until there is a channel.
    waiting: Vec<Connection<D>>,
    channel: Option<Departure<D>>,
    /// True if the channel has ended, so that the next turn opens another one.
    has_ended: bool,
}

impl<D: Descriptor> HandingOn<D> {
    /// Begins with these descriptors. Each arrives with this state.
    pub(crate) fn new(descriptors: Vec<D>, version: u32, state: &[u8], now: Instant) -> Self {
        let connection = |descriptor| Connection {
            descriptor,
            partner: None,
            state: state.to_vec(),
        };
        Self {
            version,
            until: now + PATIENCE,
            count: descriptors.len(),
            closed: 0,
            waiting: descriptors.into_iter().map(connection).collect(),
            channel: None,
            has_ended: false,
        }
    }

    /// Reads answers and sends. Returns the time of the next turn, if the
    /// [descriptor](Self::descriptor) is not readable before; `None` if this was the last turn.
    pub(crate) fn turn(&mut self, successor: D::Borrowed<'_>, now: Instant) -> Option<Instant> {
        if self.channel.is_none() && self.waiting.is_empty() {
            return None;
        }
        match self.open(successor, now) {
            Ok(()) => {}
            Err(Error::MailboxFull | Error::KernelFull) if now < self.until => {
                return Some(now + PAUSE);
            }
            Err(_) => return None,
        }
        let channel = self.channel.as_mut()?;
        match exchange(channel, &mut self.closed, now) {
            Ok(()) if channel.under_way() == 0 => None,
            Ok(()) => Some(channel.due_at().unwrap_or(now)),
            // The successor has died, has ended the channel, or has not answered for too long.
            Err(Error::Ended) if now < self.until => {
                self.has_ended = true;
                Some(now)
            }
            Err(_) => None,
        }
    }

    /// The descriptor that is readable when answers have come; `None` if there is no channel.
    pub(crate) fn descriptor(&self) -> Option<&D> {
        let channel = self.channel.as_ref().filter(|_| !self.has_ended)?;
        Some(channel.descriptor())
    }

    /// Returns how many connections successors have taken, and those that are left.
    pub(crate) fn end(self) -> (usize, Vec<Connection<D>>) {
        let back = self.channel.map(Departure::take_back);
        let left: Vec<_> = back.into_iter().flatten().chain(self.waiting).collect();
        (self.count - self.closed - left.len(), left)
    }

    fn open(&mut self, successor: D::Borrowed<'_>, now: Instant) -> Result<()> {
        match &mut self.channel {
            None => {
                let mut channel = Departure::open(successor, self.version, SILENCE, now)?;
                self.waiting
                    .drain(..)
                    .for_each(|connection| channel.push(connection));
                self.channel = Some(channel);
            }
            Some(channel) if self.has_ended => {
                channel.reopen(successor, self.version, now)?;
                self.has_ended = false;
            }
            Some(_) => {}
        }
        Ok(())
    }
}

/// Reads the answers, and sends what waits.
fn exchange<D: Descriptor>(
    channel: &mut Departure<D>,
    closed: &mut usize,
    now: Instant,
) -> Result<()> {
    let mut answers = Answers::default();
    let read = channel.read(now, &mut answers);
    // A successor that refuses has too little room or too few descriptors for all of them, so an eighth
    // is closed.
    let mut refused = answers.refused;
    let fewer = refused.len().div_ceil(8);
    *closed += fewer;
    refused.truncate(refused.len() - fewer);
    refused.into_iter().for_each(|one| channel.push(one));
    read?;
    channel.send(now)?;
    match channel.is_overdue(now) {
        true => Err(Error::Ended),
        false => Ok(()),
    }
}
