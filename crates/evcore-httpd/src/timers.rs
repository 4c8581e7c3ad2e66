//! The timers of the server. Each token (the loop's id of a connection or of another object) has
//! two timers.

use std::{mem, time::Duration};

use evcore::Timer;

use crate::shared::Limits;

/// The timer of a connection that waits for bytes.
pub(crate) const RECEIVE: Timer = Timer::new(0);

/// The timer of a connection that waits until it can send more of a response, or until the delay
/// of a `/sleep` request is over. A connection that sleeps has nothing to send.
pub(crate) const SEND: Timer = Timer::new(1);

/// The timer of the access log's token. When it expires, buffered lines are written.
pub(crate) const FLUSH: Timer = Timer::new(0);

/// The timer of the open files' token. When it expires, files that were not used for a while are
/// closed.
pub(crate) const SWEEP: Timer = Timer::new(0);

/// The time for which bytes are read and discarded after the last response. Closing a socket that
/// has unread bytes resets the connection, and the client may lose the response (RFC 9112, section
/// 9.6).
const LINGER: Duration = Duration::from_secs(2);

/// The time that a stopping worker waits for the next request after a response that did not
/// announce the end of the connection. The loop grants the same time to connections that were
/// answered just before the stop.
const LAST_CHANCE: Duration = Duration::from_secs(1);

/// The purpose of a connection's timer. The first six share [`RECEIVE`], the others [`SEND`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Timeout {
    /// The connection waits for a first head, from the accept on, or for the rest of a head. When
    /// the time is over, the connection answers with 408.
    Head,
    /// The connection waits for the next request. When the time is over, the connection is closed.
    KeepAlive,
    /// The connection waits for more of a body. When the time is over, it answers with 408.
    Body,
    /// The connection waits for body memory. When the time is over, it answers with 503.
    Room,
    /// The worker stops, and the client does not have its last response yet. When the time is over,
    /// the connection checks that again.
    Delivery,
    /// The connection waits until the client ends the stream, after the last response. When the
    /// time is over, the connection is closed.
    Linger,
    /// The connection waits until the client takes more of a response, or until the disk has read
    /// the next piece. When the time is over, the connection is closed.
    Send,
    /// The connection delays the response to a `/sleep` request. The request says for how long.
    /// When the time is over, the response is made.
    Sleep,
}

impl Timeout {
    /// The timer's length, if its request has no time of its own.
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

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Change {
    #[default]
    Keep,
    Arm(Duration),
    Disarm,
}

#[derive(Debug, Default)]
pub struct Timers {
    pub receive: Option<Timeout>,
    pub send: Option<Timeout>,
    /// True if a response was made since `receive` was armed.
    pub has_responded: bool,
    /// True if the stream took some bytes since `send` was armed.
    pub has_sent: bool,
}

impl Timers {
    /// Sets the purpose of the receive timer, and returns its change. The timer begins anew after a
    /// response, and for each part of a body.
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

    /// Sets the purpose and the length of the send timer, and returns its change. If the stream
    /// took some bytes, the timer begins anew.
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

    /// Returns whether the receive timer of a waiting connection goes on: it is armed for the first
    /// head or for delivery, and no response was made since.
    pub fn receive_timer_goes_on(&self) -> bool {
        let lasts = matches!(self.receive, Some(Timeout::Head | Timeout::Delivery));
        lasts && !self.has_responded
    }
}
