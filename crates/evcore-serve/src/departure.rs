//! Connections that leave this worker for its successor, or for another worker.
//!
//! They go over one channel at a time. The other worker's first message over a channel is its
//! greeting. If the receiver of a channel dies, the connections wait for the next channel. If no
//! process takes them, they come back.

use std::os::fd::OwnedFd;
use std::time::{Duration, Instant};

use evcore_handover::{
    Answer, BATCH_CONNECTIONS_MAX, Connection, Descriptor, Error, Result, Sender,
};

/// Maximum number of connections that wait to be sent. With more of them, a turn would delay the
/// connections that stay.
const LEAVING_MAX: usize = 4 * BATCH_CONNECTIONS_MAX;

/// The time after which a call is tried again if the kernel or the mailbox has no room.
const ROOM_AFTER: Duration = Duration::from_millis(10);

/// The least time from one channel to the next. It limits the number of channels if each receiver
/// is dropped at once, because its worker dies or cannot watch it.
const CHANNEL_INTERVAL: Duration = Duration::from_millis(100);

/// The departure of a worker's connections.
#[derive(Debug)]
pub(crate) struct Departure<D = OwnedFd> {
    version: u32,
    /// `None` until the first channel is open, and after a channel has ended.
    sender: Option<Sender<D>>,
    opens_at: Instant,
    /// Connections that have left the loop, and are not in the channel.
    waiting: Vec<Connection<D>>,
    /// The time without a message of the other worker after which the departure is overdue.
    patience: Duration,
    /// True if a successor has greeted, even if that successor has died since.
    has_begun: bool,
    /// True if a second channel was opened, because no greeting had come over the first.
    has_tried_second_channel: bool,
    /// The time at which the departure is overdue, unless a message or another event postpones this
    /// time.
    patient_until: Instant,
    /// The time at which to send again; `None` if the last send found room.
    retry_at: Option<Instant>,
}

#[derive(Debug)]
pub(crate) struct Answers<D = OwnedFd> {
    pub(crate) acknowledged: usize,
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
    /// A departure without a channel. `patience` is the time without a message of the other worker
    /// after which the departure is overdue.
    pub(crate) fn new(version: u32, patience: Duration, now: Instant) -> Self {
        Self {
            version,
            sender: None,
            opens_at: now,
            waiting: Vec::new(),
            patience,
            has_begun: false,
            has_tried_second_channel: false,
            patient_until: now + patience,
            retry_at: None,
        }
    }

    /// Opens a channel to the process that reads a mailbox, unless a channel is open, or the last
    /// channel was opened a moment ago.
    ///
    /// # Errors
    ///
    /// The errors of [`Sender::open`]. A call after a pause tries again.
    pub(crate) fn open(&mut self, mailbox: D::Borrowed<'_>, now: Instant) -> Result<()> {
        if self.sender.is_some() || now < self.opens_at {
            return Ok(());
        }
        self.opens_at = now + ROOM_AFTER;
        self.sender = Some(Sender::open_to(mailbox, self.version)?);
        self.opens_at = now + CHANNEL_INTERVAL;
        self.patient_until = now + self.patience;
        Ok(())
    }

    /// Ends the channel, so that [`open`](Self::open) opens another one. Connections that the
    /// receiver has not acknowledged are sent again. Returns the number of connections whose
    /// acknowledgements were in the ended channel and not read yet.
    pub(crate) fn close(&mut self, now: Instant) -> usize {
        let Some(ended) = self.sender.take() else {
            return 0;
        };
        let before = ended.unacknowledged();
        let mut first = ended.take_back();
        let acknowledged = before - descriptors(&first);
        first.append(&mut self.waiting);
        self.waiting = first;
        self.retry_at = None;
        self.patient_until = now + self.patience;
        acknowledged
    }

    /// Returns whether connections may leave, because a successor has greeted.
    pub(crate) fn has_begun(&self) -> bool {
        self.has_begun
    }

    /// The number of connections that may leave in this turn.
    pub(crate) fn room(&self) -> usize {
        if self.is_claimed() {
            LEAVING_MAX.saturating_sub(descriptors(&self.waiting))
        } else {
            0
        }
    }

    /// Returns whether there is a channel, and the other worker has greeted over it.
    pub(crate) fn is_claimed(&self) -> bool {
        self.sender.as_ref().is_some_and(Sender::is_claimed)
    }

    /// Number of connections, partners included, that have left the loop and belong to this worker.
    pub(crate) fn under_way(&self) -> usize {
        descriptors(&self.waiting) + self.unanswered()
    }

    /// Number of connections, partners included, that were sent and not answered.
    pub(crate) fn unanswered(&self) -> usize {
        self.sender.as_ref().map_or(0, Sender::unacknowledged)
    }

    pub(crate) fn push(&mut self, connection: Connection<D>) {
        self.waiting.push(connection);
    }

    /// Sends the connections that wait, as far as the channel has room. Does nothing before a
    /// greeting.
    ///
    /// # Errors
    ///
    /// The channel has ended. If the kernel has no room, the result is `Ok`; see
    /// [`is_full`](Self::is_full).
    pub(crate) fn send(&mut self, now: Instant) -> Result<()> {
        let was_full = self.retry_at.take().is_some();
        let Some(sender) = self.sender.as_mut().filter(|one| one.is_claimed()) else {
            return Ok(());
        };
        if self.waiting.is_empty() {
            return Ok(());
        }
        let before = sender.unacknowledged();
        let sent = sender.send(&mut self.waiting);
        if before == 0 && !(was_full && sender.unacknowledged() == 0) {
            // No answer was outstanding, so the wait begins here. If neither the last send nor this
            // one finds room, the wait continues.
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

    /// Returns whether the kernel had no room for the last send.
    pub(crate) fn is_full(&self) -> bool {
        self.retry_at.is_some()
    }

    /// Reads the answers of the successor.
    ///
    /// # Errors
    ///
    /// The channel has ended. `answers` then has the answers that came before.
    pub(crate) fn read(&mut self, now: Instant, answers: &mut Answers<D>) -> Result<()> {
        let Some(sender) = &mut self.sender else {
            return Ok(());
        };
        let was_claimed = sender.is_claimed();
        let mut any = false;
        let result = loop {
            match sender.next_answer() {
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
        let is_claimed = sender.is_claimed();
        if any || is_claimed != was_claimed {
            self.patient_until = now + self.patience;
        }
        self.has_begun |= is_claimed;
        result
    }

    /// Keeps the departure from being overdue before this time.
    pub(crate) fn wait_until(&mut self, time: Instant) {
        self.patient_until = self.patient_until.max(time);
    }

    /// Returns whether the other worker has sent no message for too long, or no channel could be
    /// opened for too long.
    pub(crate) fn is_overdue(&self, now: Instant) -> bool {
        self.patient_until <= now && self.awaits()
    }

    /// Returns whether to replace an overdue channel: once, and only if no greeting has come. A
    /// successor may have died after it took the channel out of the mailbox, and nothing reports
    /// that.
    pub(crate) fn tries_second_channel(&mut self) -> bool {
        let tries = !self.is_claimed() && !self.has_tried_second_channel;
        self.has_tried_second_channel |= tries;
        tries
    }

    /// The next time at which the departure has work although no event is reported.
    pub(crate) fn due_at(&self) -> Option<Instant> {
        if self.sender.is_none() {
            return Some(self.opens_at);
        }
        let patience = self.awaits().then_some(self.patient_until);
        patience.into_iter().chain(self.retry_at).min()
    }

    /// Returns whether a greeting or an answer of the other worker is missing.
    pub(crate) fn awaits(&self) -> bool {
        !self.is_claimed() || self.under_way() > 0
    }

    /// The descriptor that is readable if answers have come; `None` without a channel.
    pub(crate) fn descriptor(&self) -> Option<&D> {
        self.sender.as_ref().map(Sender::descriptor)
    }

    /// Ends the departure. Returns the connections that no worker has taken.
    pub(crate) fn take_back(self) -> Vec<Connection<D>> {
        let sent = self.sender.map(Sender::take_back);
        let mut back = sent.unwrap_or_default();
        back.extend(self.waiting);
        back
    }
}

/// Number of connections, partners included.
pub(crate) fn descriptors<D>(connections: &[Connection<D>]) -> usize {
    let each = connections.iter().map(|one| one.descriptors().count());
    each.sum()
}
