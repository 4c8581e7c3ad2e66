//! The calls that end a token, so that no later step carries it.

use evcore_poller::Poller;
use evcore_token::Token;

use crate::acceptor::Acceptor;
use crate::event_loop::EventLoop;
use crate::record::Record;

impl<L: Acceptor> EventLoop<L> {
    /// Removes a token: disarms its timers, cancels its posts, removes its descriptor from
    /// the poller, and ends its generation.
    ///
    /// After this no step carries the token, in this turn or a later one, even if the kernel has
    /// already reported an event for it. Returns false if the token is stale.
    ///
    /// The descriptor stays open. [`TokenMap::close`](crate::TokenMap::close), which `Connections`
    /// has as well, also closes it. On epoll that takes one system call in all. If the token has a
    /// descriptor, either call ends a pause in accepting, because the descriptor is about to be
    /// free.
    pub fn remove(&mut self, token: Token) -> bool {
        self.end(token, |poller, key| {
            // If the kernel has lost the registration already, there is nothing to remove.
            let _ = poller.remove(key);
        })
    }

    /// Removes a token as [`remove`](Self::remove) does, and closes its descriptor by dropping its
    /// `owner`. On epoll the only system call is the `close` that the drop makes.
    pub(crate) fn remove_and_drop<T>(&mut self, token: Token, owner: T) {
        self.end(token, |poller, key| {
            let _ = poller.remove_before_close(key);
        });
        drop(owner);
    }

    fn end(&mut self, token: Token, leave: impl FnOnce(&mut Poller, u64)) -> bool {
        let Some(watched) = self.slots.end(token) else {
            return false;
        };
        self.timers.disarm_all(token.index());
        if watched {
            if let Some(marks) = &mut self.marks {
                marks.end(token.index());
            }
            leave(&mut self.poller, token.to_bits());
            self.evictions.remove(token.index());
            self.accepting.descriptor_closed();
        }
        self.record(Record::Closed(token));
        true
    }
}
