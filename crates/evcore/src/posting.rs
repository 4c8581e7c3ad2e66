//! The calls by which the application *posts*: it queues a step for later in this turn, or for the
//! next turn. A turn is one iteration of the loop.

use evcore_poller::Ready;
use evcore_token::Token;

use crate::{acceptor::Acceptor, event_loop::EventLoop, record::Record};

impl<L: Acceptor> EventLoop<L> {
    /// Queues a [`Step::Ready`](crate::Step::Ready) for a token, later in this turn. The step comes
    /// in the next turn if the budget of posted steps is used up, or if a handler of
    /// [`Step::Evict`](crate::Step::Evict) makes the call, because evictions come after this turn's
    /// posted steps. Posting again merges readiness. Returns false if the token is stale.
    ///
    /// With [`Ready::NONE`] a call means "once more in this turn": the token gets a step without
    /// readiness, behind the earlier posts. [`post_next`](Self::post_next) means the same for the
    /// next turn.
    ///
    /// ```
    /// # use evcore::{EventLoop, Ready, Step};
    /// # let mut ev = EventLoop::builder().build()?;
    /// let [upstream, client] = [ev.add_unwatched()?, ev.add_unwatched()?];
    /// # ev.post(upstream, Ready::READABLE);
    /// ev.wait()?;
    /// assert!(matches!(ev.next_step(), Some(Step::Ready(token, _)) if token == upstream));
    /// ev.post(client, Ready::NONE); // there is something for it in the program's own buffer
    /// assert!(matches!(ev.next_step(), Some(Step::Ready(token, Ready::NONE)) if token == client));
    /// # Ok::<(), evcore::Error>(())
    /// ```
    #[inline]
    pub fn post(&mut self, token: Token, ready: Ready) -> bool {
        let is_current = self.slots.post(token, ready);
        if is_current {
            self.record(Record::Posted(token, ready));
        }
        is_current
    }

    /// Queues a [`Step::Ready`](crate::Step::Ready) for a token in the next turn, which then does
    /// not wait. Use it for a connection that has had its share of a turn, and continues after the
    /// others.
    ///
    /// Posting again merges readiness. If the token also has a post for this turn, made before or
    /// after this call, all of its readiness is delivered in this turn. Returns false if the token
    /// is stale.
    ///
    /// ```
    /// # use evcore::{EventLoop, Ready, Step};
    /// # let mut ev = EventLoop::builder().build()?;
    /// # let token = ev.add_unwatched()?;
    /// # ev.post(token, Ready::READABLE);
    /// ev.wait()?;
    /// while let Some(step) = ev.next_step() {
    ///     // The token gets one step a turn, although the program posts it again at each step.
    ///     assert!(matches!(step, Step::Ready(ready, _) if ready == token));
    ///     ev.post_next(token, Ready::READABLE);
    /// }
    /// ev.wait()?; // does not wait
    /// assert!(matches!(ev.next_step(), Some(Step::Ready(ready, _)) if ready == token));
    /// # Ok::<(), evcore::Error>(())
    /// ```
    #[inline]
    pub fn post_next(&mut self, token: Token, ready: Ready) -> bool {
        let is_current = self.slots.post_next(token, ready);
        if is_current {
            self.record(Record::Posted(token, ready));
        }
        is_current
    }
}
