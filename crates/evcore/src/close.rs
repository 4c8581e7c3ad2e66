//! The one way to forget a token.

use evcore_poller::Poller;
use evcore_token::Token;

use crate::{Acceptor, EventLoop, Result};

impl<L: Acceptor> EventLoop<L> {
    /// Forgets a token: disarms its timers, cancels what was posted for it, removes its descriptor
    /// from the poller, and ends its generation.
    ///
    /// No step carries it after this, in this turn or a later one, whatever the kernel has already
    /// reported. `false`: it was not in the loop. The descriptor stays open: to close it as well,
    /// with one system call in all, keep the connection in
    /// [`Connections`](crate::Connections).
    pub fn close(&mut self, token: Token) -> bool {
        self.end(token, |poller, key| {
            // The kernel may have lost it already: then there is nothing to remove.
            let _ = poller.remove(key);
        })
    }

    /// Closes a token as [`close`](Self::close) does, and its descriptor by dropping its `owner`:
    /// on epoll with no system call beyond the closing itself.
    pub(crate) fn close_and_drop<T>(&mut self, token: Token, owner: T) {
        self.end(token, |poller, key| {
            let _ = poller.remove_before_close(key);
        });
        drop(owner);
    }

    /// Says that a descriptor was closed which the loop did not watch: a file, say.
    ///
    /// A loop that has run out of descriptors then listens again in the next turn. Without this it
    /// does so half a second after it ran out; closing a token says it by itself.
    pub fn descriptor_closed(&mut self) {
        self.accepting.descriptor_closed();
    }

    /// Closes the listeners of this worker for good: the first step of an orderly end, which
    /// [`shutdown`](Self::shutdown) takes by itself.
    ///
    /// Clients that wait in the backlog are left to the other workers that share it. One of them is
    /// notified if this one listened and is in a [group](crate::Builder::group).
    ///
    /// # Errors
    ///
    /// The poller's; the listeners are closed all the same.
    pub fn close_listeners(&mut self) -> Result<()> {
        self.accepting.close(&mut self.poller, &mut self.stats)
    }

    fn end(&mut self, token: Token, leave: impl FnOnce(&mut Poller, u64)) -> bool {
        let Some(watched) = self.slots.end(token) else {
            return false;
        };
        self.timers.disarm_all(token.index());
        if watched {
            leave(&mut self.poller, self.keys.key(token));
            self.evictions.remove(token.index());
            self.accepting.descriptor_closed();
        }
        true
    }
}
