//! The one way to forget a token.

use std::os::fd::OwnedFd;

use evcore_timer::TimerQueue;
use evcore_token::Token;

use crate::{EventLoop, Side, naming::timer_id};

impl EventLoop {
    /// Forgets a token: disarms its timers, cancels what was posted for it, removes its descriptor
    /// from the poller, and ends its generation.
    ///
    /// No step carries it after this, in this turn or a later one, whatever the kernel has already
    /// reported. `false`: it was not in the loop. The descriptor stays open; where you close it
    /// next, [`close_fd`](Self::close_fd) saves a system call.
    pub fn close(&mut self, token: Token) -> bool {
        let key = self.key(token);
        self.end(token, |ev| {
            // The kernel may have lost it already: then there is nothing to remove.
            let _ = ev.poller.remove(key);
        })
    }

    /// Forgets a token as [`close`](Self::close) does, and closes its descriptor: on epoll with no
    /// system call beyond the closing itself.
    ///
    /// The descriptor must be the only one of its file (not one that was duplicated). It is closed
    /// whether or not the token was in the loop.
    pub fn close_fd(&mut self, token: Token, fd: impl Into<OwnedFd>) -> bool {
        let key = self.key(token);
        let lived = self.end(token, |ev| {
            let _ = ev.poller.forget(key);
        });
        drop(fd.into());
        lived
    }

    fn end(&mut self, token: Token, leave_poller: impl FnOnce(&mut Self)) -> bool {
        let Some(slot) = self.slots.end(token) else {
            return false;
        };
        self.timers.disarm(timer_id(token.index(), Side::Read));
        self.timers.disarm(timer_id(token.index(), Side::Write));
        self.posted.cancel(token.index());
        if slot.watched {
            leave_poller(self);
            self.active -= 1;
            self.backoff.descriptor_closed();
        }
        true
    }
}
