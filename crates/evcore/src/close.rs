//! The one way to end a token.

use evcore_poller::Poller;
use evcore_token::Token;

use crate::{Acceptor, EventLoop, Result, instruments::record::Record};

impl<L: Acceptor> EventLoop<L> {
    /// Closes a token: disarms its timers, cancels what was posted for it, removes its descriptor from
    /// the poller, and ends its generation.
    ///
    /// After this no step carries the token, in this turn or a later one, whatever the kernel has
    /// already reported. Returns false if the token is stale.
    ///
    /// The descriptor stays open. [`Connections::close`](crate::Connections::close) also closes it,
    /// with one system call in all. Either call ends a pause for lack of descriptors, because one is
    /// about to be free.
    pub fn close(&mut self, token: Token) -> bool {
        self.end(token, |poller, key| {
            // If the kernel has lost the registration already, there is nothing to remove.
            let _ = poller.remove(key);
        })
    }

    /// Closes a token as [`close`](Self::close) does, and its descriptor by dropping its `owner`. On
    /// epoll the only system call is that of the drop.
    pub(crate) fn close_and_drop<T>(&mut self, token: Token, owner: T) {
        self.end(token, |poller, key| {
            let _ = poller.remove_before_close(key);
        });
        drop(owner);
    }

    /// Closes the listeners of this worker for good. [`shutdown`](Self::shutdown) begins with this.
    ///
    /// Clients in the backlog wait for the other workers that share it. One of those is notified if
    /// this worker listened and is in a [group](crate::Builder::group).
    ///
    /// # Errors
    ///
    /// The poller's. The listeners are closed all the same.
    pub fn close_listeners(&mut self) -> Result<()> {
        let held_lock = self.accepting.holds_lock();
        let closed = self.accepting.close(&mut self.poller, &mut self.stats);
        if held_lock {
            self.record(Record::LockReleased);
        }
        closed
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
        self.record(Record::Closed(token));
        true
    }
}
