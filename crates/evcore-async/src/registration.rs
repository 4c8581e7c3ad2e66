//! A token without a descriptor, which ends with its future.

use std::rc::Rc;
use std::task::{Context, Poll};

use evcore::Token;

use crate::context;
use crate::shared::Shared;
use crate::slot::Slot;

/// A token of a sleep, of a job, or of a wait for the shutdown.
pub(crate) struct Registration {
    shared: Rc<Shared>,
    token: Token,
}

impl Registration {
    /// Begins a token.
    ///
    /// # Panics
    ///
    /// Outside a runtime, and if all 16 million tokens are in use.
    pub(crate) fn new(slot: Slot) -> Self {
        let shared = Shared::current();
        let token = context::with(|lent| lent.add_unwatched());
        let token = token.expect("a loop has 16 million tokens");
        shared.insert(token, slot);
        Self { shared, token }
    }

    pub(crate) fn token(&self) -> Token {
        self.token
    }

    /// Uses its slot.
    pub(crate) fn with_slot<R>(&self, call: impl FnOnce(&mut Slot) -> R) -> R {
        let called = self.shared.with_slot(self.token, call);
        called.expect("the slot is there until the drop")
    }

    /// Waits until the event of its slot has come.
    pub(crate) fn poll_event(&self, cx: &Context<'_>) -> Poll<()> {
        let waker = cx.waker().clone();
        let (has_come, _replaced) = self.with_slot(|slot| {
            let (Slot::Sleep(event) | Slot::Shutdown(event)) = slot else {
                unreachable!("it is the token of an event");
            };
            (event.has_come, event.waker.replace(waker))
        });
        if has_come {
            Poll::Ready(())
        } else {
            Poll::Pending
        }
    }

    /// Returns whether its loop is lent.
    pub(crate) fn is_here(&self) -> bool {
        context::has_entered(self.shared.id())
    }
}

impl Drop for Registration {
    fn drop(&mut self) {
        self.shared.end(self.token, ());
    }
}
