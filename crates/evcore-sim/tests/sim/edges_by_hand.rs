//! An edge-triggered stream that tracks its readiness itself, with a bug, in place of `EdgeStream`.

use std::io::{self, ErrorKind};

use evcore::{EventLoop, Interest, Mode, Ready, Token};
use evcore_sim::{SimListener, SimStream};

use crate::echo_server::Bug;

#[derive(Debug)]
pub(crate) struct EdgesByHand {
    stream: SimStream,
    token: Token,
    is_readable: bool,
    bug: Bug,
}

impl EdgesByHand {
    pub(crate) fn add(ev: &mut EventLoop<SimListener>, stream: SimStream, bug: Bug) -> Self {
        let token = ev.add(&stream, Interest::BOTH, Mode::Edge);
        Self {
            stream,
            token: token.expect("the loop stops accepting at its limit"),
            is_readable: false,
            bug,
        }
    }

    pub(crate) fn token(&self) -> Token {
        self.token
    }

    pub(crate) fn on_ready(&mut self, ready: Ready) {
        self.is_readable |= ready.is_readable();
    }

    pub(crate) fn recv(
        &mut self,
        ev: &mut EventLoop<SimListener>,
        buffer: &mut [u8],
    ) -> io::Result<usize> {
        if !self.is_readable {
            return Err(ErrorKind::WouldBlock.into());
        }
        let received = self.stream.recv(buffer);
        let is_short = matches!(received, Ok(n) if (1..buffer.len()).contains(&n));
        if would_block(&received) || (is_short && self.bug == Bug::ShortReadMeansDrained) {
            self.is_readable = false;
            self.rearm(ev, Interest::READ);
        }
        received
    }

    pub(crate) fn send(
        &mut self,
        ev: &mut EventLoop<SimListener>,
        bytes: &[u8],
    ) -> io::Result<usize> {
        let sent = self.stream.send(bytes);
        if would_block(&sent) {
            self.rearm(ev, Interest::WRITE);
        }
        sent
    }

    fn rearm(&self, ev: &mut EventLoop<SimListener>, side: Interest) {
        if self.bug != Bug::ForgottenRearm {
            ev.rearm(self.token, side);
        }
    }
}

fn would_block(result: &io::Result<usize>) -> bool {
    matches!(result, Err(error) if error.kind() == ErrorKind::WouldBlock)
}
