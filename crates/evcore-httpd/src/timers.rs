//! The timers of the server. Each token of the loop has two.

use std::{mem, time::Duration};

use evcore::Timer;

use crate::shared::Limits;

/// Of a connection: how long it may take to receive what it waits for.
pub(crate) const RECEIVE: Timer = Timer::new(0);

/// Of a connection: how long the client may take nothing of a response, or the end of `/sleep`. A
/// connection that sleeps has nothing to send.
pub(crate) const SEND: Timer = Timer::new(1);

/// Of the access log's token: buffered lines are written.
pub(crate) const FLUSH: Timer = Timer::new(0);

/// Of the open files' token: those that no connection has used for a while are closed.
pub(crate) const SWEEP: Timer = Timer::new(0);

/// Time to read and discard after the last response. Closing a socket that has unread bytes resets
/// the connection, and the client may lose the response (RFC 9112, section 9.6).
const LINGER: Duration = Duration::from_secs(2);

/// Time that a stopping worker waits for the next request after a response that did not announce
/// the end: as long as the loop does for connections that were answered just before the stop.
const LAST_CHANCE: Duration = Duration::from_secs(1);

/// A timer of a connection, by what it waits for. The first six share [`RECEIVE`], the others [`SEND`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Timeout {
    /// The first head, from the accept on, or the rest of a head. A partial one is a 408.
    Head,
    /// The next request. The connection is closed.
    KeepAlive,
    /// More of a body. It is a 408.
    Body,
    /// Body memory. It is a 503.
    Room,
    /// The worker stops, and the client does not have its last response yet. That is looked at again.
    Delivery,
    /// The client's end, after the last response. The connection is closed.
    Linger,
    /// The client takes more of a response, or the disk has its next piece. The connection is closed.
    Send,
    /// The end of `/sleep`, whose request has the time. The response is made.
    Sleep,
}

impl Timeout {
    /// Its length, if its request has no time of its own.
    pub fn time(self, limits: &Limits, is_stopping: bool) -> Duration {
        match self {
            Self::Head | Self::Body | Self::Room => limits.header,
            Self::KeepAlive if is_stopping => limits.keep_alive.min(LAST_CHANCE),
            Self::KeepAlive => limits.keep_alive,
            Self::Delivery => LAST_CHANCE,
            Self::Linger => LINGER,
            Self::Send | Self::Sleep => limits.send,
        }
    }
}

/// A change of a timer.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Change {
    #[default]
    Keep,
    Arm(Duration),
    Disarm,
}

/// The purposes of a connection's timers, and the progress since they were armed.
#[derive(Debug, Default)]
pub struct Timers {
    pub receive: Option<Timeout>,
    pub send: Option<Timeout>,
    /// A response was made since `receive` was armed.
    pub has_responded: bool,
    /// The stream took something since `send` was armed.
    pub has_sent: bool,
}

impl Timers {
    /// Sets what the receive timer is for, and returns what to change of it. After a response it begins
    /// anew, and so it does for each part of a body.
    #[inline]
    pub fn poll_receive(
        &mut self,
        timeout: Option<Timeout>,
        limits: &Limits,
        is_stopping: bool,
    ) -> Change {
        let has_responded = mem::take(&mut self.has_responded);
        if timeout == self.receive && !has_responded && timeout != Some(Timeout::Body) {
            return Change::Keep;
        }
        self.receive = timeout;
        timeout.map_or(Change::Disarm, |timeout| {
            Change::Arm(timeout.time(limits, is_stopping))
        })
    }

    /// Sets what the send timer is for, and how long it lasts, and returns what to change of it. If the
    /// stream took something it begins anew.
    #[inline]
    pub fn poll_send(&mut self, timeout: Option<(Timeout, Duration)>) -> Change {
        let has_sent = mem::take(&mut self.has_sent);
        let armed = mem::replace(&mut self.send, timeout.map(|(timeout, _)| timeout));
        match timeout {
            None if armed.is_none() => Change::Keep,
            None => Change::Disarm,
            Some((timeout, _)) if Some(timeout) == armed && !has_sent => Change::Keep,
            Some((_, time)) => Change::Arm(time),
        }
    }

    /// Returns whether the receive timer, which does not begin anew, is still armed for a
    /// connection without a response since.
    pub fn keeps_receive(&self) -> bool {
        let lasts = matches!(self.receive, Some(Timeout::Head | Timeout::Delivery));
        lasts && !self.has_responded
    }
}
