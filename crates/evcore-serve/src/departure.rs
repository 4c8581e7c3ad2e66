//! Connections that leave this worker for its successor, or for another one.
//!
//! They go over one channel. If its receiver dies, they wait for the next one. If no process takes
//! them, they come back.

use std::mem;
use std::os::fd::OwnedFd;
use std::time::{Duration, Instant};

use evcore_handover::{
    Answer, BATCH_CONNECTIONS_MAX, Connection, Descriptor, Error, Result, Sender,
};

/// Maximum number of connections that wait to be sent. With more of them, a turn would delay the
/// connections that stay.
const LEAVING_MAX: usize = 4 * BATCH_CONNECTIONS_MAX;

/// The time after which a send is tried again if the kernel has no room for it.
const ROOM_AFTER: Duration = Duration::from_millis(10);

/// The departure of a worker's connections.
#[derive(Debug)]
pub(crate) struct Departure<D = OwnedFd> {
    sender: Sender<D>,
    /// Connections that have left the loop, and are not in the channel.
    waiting: Vec<Connection<D>>,
    /// The time without a message of the other worker after which the departure is given up.
    patience: Duration,
    /// True if a successor has greeted, perhaps one that has died since.
    has_begun: bool,
    /// True if a second channel was opened, because no greeting had come over the first.
    has_asked_again: bool,
    /// The time at which the departure is given up, unless the successor sends a message before.
    patient_until: Instant,
    /// The time at which to send again.
    retry_at: Option<Instant>,
}

/// The content of the successor's answers.
#[derive(Debug)]
pub(crate) struct Answers<D = OwnedFd> {
    /// The number of connections that now belong to the successor.
    pub(crate) acknowledged: usize,
    /// Connections that the successor has refused.
    pub(crate) refused: Vec<Connection<D>>,
}

impl<D> Default for Answers<D> {
    fn default() -> Self {
        Self {
            acknowledged: 0,
            refused: Vec::new(),
        }
    }
}

impl<D: Descriptor> Departure<D> {
    /// Opens a channel to the process that reads a mailbox.
    pub(crate) fn open(
        mailbox: D::Borrowed<'_>,
        version: u32,
        patience: Duration,
        now: Instant,
    ) -> Result<Self> {
        Ok(Self {
            sender: Sender::open_to(mailbox, version)?,
            waiting: Vec::new(),
            patience,
            has_begun: false,
            has_asked_again: false,
            patient_until: now + patience,
            retry_at: None,
        })
    }

    /// Opens another channel, because the channel has ended. Connections that its receiver has not
    /// acknowledged are sent again. Returns the number of connections whose acknowledgements were in the
    /// ended channel and not read yet.
    ///
    /// # Errors
    ///
    /// The errors of [`Sender::open`]. After an error, nothing has changed.
    pub(crate) fn reopen(
        &mut self,
        mailbox: D::Borrowed<'_>,
        version: u32,
        now: Instant,
    ) -> Result<usize> {
        let sender = Sender::open_to(mailbox, version)?;
        let before = self.under_way();
        let ended = mem::replace(&mut self.sender, sender);
        let mut first = ended.take_back();
        first.append(&mut self.waiting);
        self.waiting = first;
        self.patient_until = now + self.patience;
        Ok(before - self.under_way())
    }

    /// Returns whether connections may leave: a successor has greeted.
    pub(crate) fn has_begun(&self) -> bool {
        self.has_begun
    }

    /// The number of connections that may leave in this turn. Connections that stay are served
    /// meanwhile.
    pub(crate) fn room(&self) -> usize {
        if self.sender.is_claimed() {
            LEAVING_MAX.saturating_sub(descriptors(&self.waiting))
        } else {
            0
        }
    }

    /// Number of connections that have left the loop and belong to this worker.
    pub(crate) fn under_way(&self) -> usize {
        descriptors(&self.waiting) + self.sender.unacknowledged()
    }

    /// Adds a connection that has left the loop.
    pub(crate) fn push(&mut self, connection: Connection<D>) {
        self.waiting.push(connection);
    }

    /// Sends the connections that wait, as far as the channel has room.
    ///
    /// # Errors
    ///
    /// The channel has ended.
    pub(crate) fn send(&mut self, now: Instant) -> Result<()> {
        self.retry_at = None;
        if self.waiting.is_empty() || !self.sender.is_claimed() {
            return Ok(());
        }
        let before = self.sender.unacknowledged();
        let sent = self.sender.send(&mut self.waiting);
        if before == 0 {
            // Until now no answer was outstanding, so the wait begins here.
            self.patient_until = now + self.patience;
        }
        match sent {
            Ok(_) => Ok(()),
            Err(Error::KernelFull) => {
                self.retry_at = Some(now + ROOM_AFTER);
                Ok(())
            }
            Err(error) => Err(error),
        }
    }

    /// Reads the answers of the successor.
    ///
    /// # Errors
    ///
    /// The channel has ended. `answers` then has the answers that came before.
    pub(crate) fn read(&mut self, now: Instant, answers: &mut Answers<D>) -> Result<()> {
        let was_claimed = self.sender.is_claimed();
        let mut any = false;
        let result = loop {
            match self.sender.next_answer() {
                Ok(Some(Answer::Acknowledged { connections, .. })) => {
                    answers.acknowledged += connections;
                }
                Ok(Some(Answer::Refused { connections, .. })) => {
                    answers.refused.extend(connections);
                }
                Ok(Some(_)) => {}
                Ok(None) => break Ok(()),
                Err(error) => break Err(error),
            }
            any = true;
        };
        if any || self.sender.is_claimed() != was_claimed {
            self.patient_until = now + self.patience;
        }
        self.has_begun |= self.sender.is_claimed();
        result
    }

    /// Returns whether the successor has let this worker wait for too long.
    pub(crate) fn is_overdue(&self, now: Instant) -> bool {
        self.patient_until <= now && self.awaits()
    }

    /// Returns whether to open another channel because this one is overdue. It returns true once, and
    /// only if no greeting has come. A successor may have died after it took the channel out of the
    /// mailbox, and nothing reports that.
    pub(crate) fn asks_again(&mut self) -> bool {
        let asks = !self.sender.is_claimed() && !self.has_asked_again;
        self.has_asked_again |= asks;
        asks
    }

    /// The next time at which the departure has work although no event is reported.
    pub(crate) fn due_at(&self) -> Option<Instant> {
        let patience = self.awaits().then_some(self.patient_until);
        patience.into_iter().chain(self.retry_at).min()
    }

    /// Returns whether a greeting or an answer of the other worker is still missing.
    pub(crate) fn awaits(&self) -> bool {
        !self.sender.is_claimed() || self.under_way() > 0
    }

    /// The descriptor that is readable if answers have come.
    pub(crate) fn descriptor(&self) -> &D {
        self.sender.descriptor()
    }

    /// Ends the departure. Returns the connections that no worker has taken.
    pub(crate) fn take_back(self) -> Vec<Connection<D>> {
        let mut back = self.sender.take_back();
        back.extend(self.waiting);
        back
    }
}

/// Number of connections, partners included.
pub(crate) fn descriptors<D>(connections: &[Connection<D>]) -> usize {
    let each = connections.iter().map(|one| one.descriptors().count());
    each.sum()
}
