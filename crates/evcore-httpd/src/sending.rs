//! What goes to a client: sent as its socket takes it, and the end after the last of it.

use std::{
    io::{self, ErrorKind},
    mem,
};

use evcore::{Acceptor, Interest, Timer, Transport};

use crate::{
    connection::{Connection, Progress, State, Visit},
    site::{FILLING, Site},
};

/// How much a connection that was refused may send before it is closed all the same.
const MOST_LINGER_BYTES: usize = 4 * 1024 * 1024;

static FILLINGS: [u8; 64 * 1024] = [FILLING; 64 * 1024];

impl<S: Transport> Connection<S> {
    /// Sends once.
    pub fn send(&mut self, visit: &mut Visit<'_, impl Acceptor>) -> io::Result<Progress> {
        let sent = if !self.output.is_empty() {
            // In the order in which they were made.
            self.keep_output(0, visit.site)?;
            self.stream.send(&self.output[self.sent..])
        } else if !visit.site.output.is_empty() {
            self.stream.send(&visit.site.output)
        } else {
            let piece = usize::try_from(self.filling)
                .unwrap_or(usize::MAX)
                .min(FILLINGS.len());
            self.stream.send(&FILLINGS[..piece])
        };
        match sent {
            Ok(n) => {
                self.advance(n, visit)?;
                Ok(Progress::More)
            }
            Err(error) if error.kind() == ErrorKind::WouldBlock => {
                self.blocked(visit);
                Ok(Progress::Waits)
            }
            Err(error) => Err(error),
        }
    }

    /// So many bytes were taken by the socket.
    fn advance(&mut self, n: usize, visit: &mut Visit<'_, impl Acceptor>) -> io::Result<()> {
        if !self.output.is_empty() {
            self.sent += n;
            if self.sent == self.output.len() {
                self.output = Vec::new();
                self.sent = 0;
            }
        } else if !visit.site.output.is_empty() {
            self.keep_output(n, visit.site)?;
        } else {
            self.filling -= n as u64;
        }
        if self.output.is_empty() {
            visit.site.bodies.give_back(mem::take(&mut self.room));
        }
        if mem::take(&mut self.send_timed) {
            visit.ev.disarm(visit.token, Timer::WRITE);
        }
        Ok(())
    }

    /// Keeps what is in the buffer that all share, from `sent` on, and leaves that empty.
    pub fn keep_output(&mut self, sent: usize, site: &mut Site) -> io::Result<()> {
        let rest = &site.output[sent..];
        // The client has decided how much it is: the system may not have it.
        self.output.try_reserve_exact(rest.len())?;
        self.output.extend_from_slice(rest);
        site.output.clear();
        Ok(())
    }

    /// The socket is full: the client has until the write timer expires to take something.
    fn blocked(&mut self, visit: &mut Visit<'_, impl Acceptor>) {
        visit.ev.rearm(visit.token, Interest::WRITE);
        if !self.send_timed {
            self.send_timed = true;
            visit
                .ev
                .arm(visit.token, Timer::WRITE, visit.site.limits.send);
        }
    }

    /// The last answer is sent.
    pub fn finish(&mut self, visit: &mut Visit<'_, impl Acceptor>) -> io::Result<Progress> {
        // What the socket may still hold would turn the closing into a reset, too (nginx).
        if !self.lingers && !self.readable {
            return Ok(Progress::Over);
        }
        self.stream.shutdown_write()?;
        self.last = false;
        self.input = Vec::new();
        self.state = State::Lingering {
            left: MOST_LINGER_BYTES,
        };
        self.linger(visit)
    }

    /// Reads once, and throws it away.
    pub fn linger(&mut self, visit: &mut Visit<'_, impl Acceptor>) -> io::Result<Progress> {
        if !self.readable {
            return Ok(Progress::Waits);
        }
        let mut buffer = mem::take(&mut visit.site.input);
        let received = self.read(&mut buffer, visit);
        visit.site.input = buffer;
        let State::Lingering { left } = &mut self.state else {
            return Ok(Progress::Over);
        };
        match received? {
            None => Ok(Progress::Waits),
            Some(n) if n == 0 || n > *left => Ok(Progress::Over),
            Some(n) => {
                *left -= n;
                Ok(Progress::More)
            }
        }
    }
}
