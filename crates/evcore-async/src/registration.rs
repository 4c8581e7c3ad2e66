//! A registration: a token of the loop that is not a connection, and that ends when its owner (such
//! as a future) is dropped.

use std::io;
use std::rc::Rc;
use std::task::{Context, Poll};

use evcore::Token;
use evcore::poller::Source;

use crate::context;
use crate::shared::Shared;
use crate::slot::{Event, Slot};

pub(crate) struct Registration {
    shared: Rc<Shared>,
    token: Token,
}

impl Registration {
    /// Adds a token without a descriptor to the loop.
    ///
    /// # Panics
    ///
    /// Outside a runtime, and if all 16 million tokens are in use.
    pub(crate) fn new(slot: Slot) -> Self {
        let token = context::with(|lent| lent.add_unwatched());
        Self::begin(token.expect("a loop has 16 million tokens"), slot)
    }

    /// Returns the token of a sleep, whose timer is not armed. Panics as [`new`](Self::new).
    pub(crate) fn new_sleep() -> Self {
        let shared = Shared::current();
        match shared.take_spare_sleep() {
            Some(token) => Self { shared, token },
            None => Self::new(Slot::Sleep(Event::default())),
        }
    }

    /// Adds a token without a descriptor to the loop. A shutdown waits for the token.
    ///
    /// # Panics
    ///
    /// As [`new`](Self::new).
    pub(crate) fn new_work(slot: Slot) -> Self {
        let registration = Self::new(slot);
        context::with(|lent| lent.hold(registration.token));
        registration
    }

    /// Adds the token of a descriptor that is not a connection. The loop reports the descriptor as
    /// long as it is readable. The slot owns the descriptor.
    pub(crate) fn new_background<S: Source>(
        descriptor: S,
        slot: impl FnOnce(S) -> Slot,
    ) -> io::Result<Self> {
        let token = context::with(|lent| lent.add_background(&descriptor))?;
        Ok(Self::begin(token, slot(descriptor)))
    }

    fn begin(token: Token, slot: Slot) -> Self {
        let shared = Shared::current();
        shared.insert(token, slot);
        Self { shared, token }
    }

    pub(crate) fn token(&self) -> Token {
        self.token
    }

    pub(crate) fn with_slot<R>(&self, call: impl FnOnce(&mut Slot) -> R) -> R {
        let called = self.shared.with_slot(self.token, call);
        called.expect("the slot is there until the drop")
    }

    /// Returns ready if the event of the slot has happened. Otherwise stores the waker, which is
    /// woken when the event happens.
    ///
    /// # Panics
    ///
    /// If the token's loop is not lent (see `context`), because the task could then wait forever.
    pub(crate) fn poll_event(&self, cx: &Context<'_>) -> Poll<()> {
        self.assert_here();
        let waker = cx.waker().clone();
        self.with_slot(|slot| {
            let event = slot.event().expect("it is the token of an event");
            if event.has_happened {
                return (Poll::Ready(()), Some(waker));
            }
            (Poll::Pending, event.waker.replace(waker))
        })
        .0 // a waker is dropped here, when no slot is borrowed
    }

    pub(crate) fn assert_here(&self) {
        assert!(
            context::has_entered(self.shared.id()),
            "this future belongs to another runtime, whose loop would wake it: poll it there"
        );
    }
}

impl Drop for Registration {
    fn drop(&mut self) {
        if !self.shared.keep_sleep(self.token) {
            self.shared.end(self.token, ());
        }
    }
}
