//! The sending half of a connection: responses, and the end after the last one.

use std::{
    io::{self, ErrorKind},
    mem,
};

use evcore::{Acceptor, Interest, Transport};

use crate::{
    connection::{Connection, Cx, Progress, State},
    shared::{PAYLOAD_BYTE, Shared},
    timers::SEND,
};

/// The most bytes to discard after the last response; a client that sends more is closed.
const MAX_LINGER_BYTES: usize = 4 * 1024 * 1024;

static PAYLOAD: [u8; 64 * 1024] = [PAYLOAD_BYTE; 64 * 1024];

impl<S: Transport> Connection<S> {
    /// Writes once.
    pub fn send(&mut self, cx: &mut Cx<'_, impl Acceptor>) -> io::Result<Progress> {
        let sent = if !self.output.is_empty() {
            // Responses go out in the order in which they were made.
            self.keep_output(0, cx.shared)?;
            self.stream.send(&self.output[self.sent..])
        } else if !cx.shared.output.is_empty() {
            self.stream.send(&cx.shared.output)
        } else if self.waits_for_disk(cx) {
            return Ok(Progress::Blocked);
        } else {
            self.send_payload()
        };
        match sent {
            Ok(n) => {
                self.advance(n, cx)?;
                Ok(Progress::More)
            }
            Err(error) if error.kind() == ErrorKind::WouldBlock => {
                self.on_write_blocked(cx);
                Ok(Progress::Blocked)
            }
            Err(error) => Err(error),
        }
    }

    fn send_payload(&self) -> io::Result<usize> {
        self.send_from_file().unwrap_or_else(|| {
            let piece = usize::try_from(self.payload_left)
                .unwrap_or(usize::MAX)
                .min(PAYLOAD.len());
            self.stream.send(&PAYLOAD[..piece])
        })
    }

    /// Accounts for `n` bytes that the socket accepted.
    fn advance(&mut self, n: usize, cx: &mut Cx<'_, impl Acceptor>) -> io::Result<()> {
        if !self.output.is_empty() {
            self.sent += n;
            if self.sent == self.output.len() {
                self.output = Vec::new();
                self.sent = 0;
            }
        } else if !cx.shared.output.is_empty() {
            self.keep_output(n, cx.shared)?;
        } else {
            self.payload_left -= n as u64;
            if self.payload_left == 0 {
                self.file = None;
            }
        }
        if self.output.is_empty() {
            cx.shared.bodies.release(mem::take(&mut self.room));
        }
        if mem::take(&mut self.send_timer_armed) {
            cx.ev.disarm(cx.token, SEND);
        }
        Ok(())
    }

    /// Moves the contents of the shared buffer, from `sent` on, to `output`.
    pub fn keep_output(&mut self, sent: usize, shared: &mut Shared) -> io::Result<()> {
        let rest = shared.output.len() - sent;
        if rest > 0 {
            shared.allocate(rest)?;
            // The client controls the size, so the allocation may fail.
            self.output.try_reserve_exact(rest)?;
            self.output.extend_from_slice(&shared.output[sent..]);
        }
        shared.output.clear();
        Ok(())
    }

    /// The socket buffer is full: arms the send timeout.
    fn on_write_blocked(&mut self, cx: &mut Cx<'_, impl Acceptor>) {
        cx.ev.rearm(cx.token, Interest::WRITE);
        self.arm_send_timer(cx);
    }

    pub fn arm_send_timer(&mut self, cx: &mut Cx<'_, impl Acceptor>) {
        if !self.send_timer_armed {
            self.send_timer_armed = true;
            cx.ev.arm(cx.token, SEND, cx.shared.limits.send);
        }
    }

    /// Ends the connection after the last response.
    pub fn finish(&mut self, cx: &mut Cx<'_, impl Acceptor>) -> io::Result<Progress> {
        // Unread bytes in the socket would turn the close into a reset (as in nginx).
        if !self.lingers && !self.readable {
            return Ok(Progress::Done);
        }
        self.stream.shutdown_write()?;
        self.is_last_response = false;
        self.input = Vec::new();
        self.state = State::Lingering {
            left: MAX_LINGER_BYTES,
        };
        self.linger(cx)
    }

    /// Reads once, and discards the bytes.
    pub fn linger(&mut self, cx: &mut Cx<'_, impl Acceptor>) -> io::Result<Progress> {
        if !self.readable {
            return Ok(Progress::Blocked);
        }
        let mut buffer = mem::take(&mut cx.shared.input);
        let received = self.read(&mut buffer, cx);
        cx.shared.input = buffer;
        let State::Lingering { left } = &mut self.state else {
            return Ok(Progress::Done);
        };
        match received? {
            None => Ok(Progress::Blocked),
            Some(n) if n == 0 || n > *left => Ok(Progress::Done),
            Some(n) => {
                *left -= n;
                Ok(Progress::More)
            }
        }
    }
}
