//! The calls that mark connections as idle, and the phases that evict these.

use evcore_token::Token;

use crate::{acceptor::Acceptor, event_loop::EventLoop, step::Step};

impl<L: Acceptor> EventLoop<L> {
    /// Marks a connection as idle: it waits for its peer, and may be closed to make room. Makes it
    /// the most recently used of the idle connections, even if it was already idle.
    ///
    /// The loop yields an idle connection in a [`Step::Evict`] if a client waits and slots or
    /// descriptors are short, or if the loop [shuts down](Self::shutdown). Returns false if the
    /// token is stale or has no descriptor. Do not mark a [background](Self::add_background) token:
    /// it is evicted like a connection, but closing it frees no slot.
    ///
    /// Slots are short if no more than 1/16 of the [limit](crate::Builder::connections) is free.
    /// Then an eighth of the idle connections is evicted in one turn (iteration of the loop), the
    /// longest idle first: at least 1 and at most 32 (nginx's numbers). A full loop goes on
    /// listening while a connection is idle. If no slot is free, the loop cannot try to accept, so
    /// it evicts even if another worker has accepted the client already.
    ///
    /// If the process has no descriptor left, the loop evicts each time that accepting fails,
    /// unless another worker of the group has a free slot. In a turn it evicts no more connections
    /// than in the case above. It chooses only connections that have been idle for the
    /// [grace](crate::Builder::idle_grace). A shortage of the whole system or of memory evicts no
    /// connection, because another process may take what is freed.
    ///
    /// Mark a connection when its client has its answer, and no part of another request has arrived
    /// (the second example). If the protocol has no message ends, mark it only after it has been
    /// quiet for a while.
    ///
    /// The next request of a client that has just been answered may be on its way, and closing
    /// would lose it. If a connection was marked within the [grace](crate::Builder::idle_grace) (by
    /// default a second) before the shutdown, the loop evicts it only when the grace has passed
    /// again, counted from the shutdown. Answer a request that comes in that time as the last one
    /// (in HTTP, with `Connection: close`), and then close.
    ///
    /// A connection that is marked during a shutdown is evicted at once. So during a shutdown
    /// ([`Stats::shutting_down`](crate::Stats::shutting_down)), announce in each answer that it is
    /// the last one.
    ///
    /// O(1), and cheap enough to call after each request. A connection that was never marked idle
    /// is never evicted. An idle connection still gets all its other steps.
    ///
    /// ```
    /// use evcore::{TokenMap, EventLoop, Interest, Listener, Mode, Step};
    /// use std::net::TcpStream;
    ///
    /// let listener = Listener::bind("127.0.0.1:0")?;
    /// let clients = [0, 1, 2].map(|_| TcpStream::connect(listener.local_addr()));
    /// let mut ev = EventLoop::builder().listener(listener).connections(2).build()?;
    /// let mut conns = TokenMap::new();
    ///
    /// // There is room for two. The third is served too, in the slot of the first.
    /// while ev.stats().accepted < 3 {
    ///     ev.wait()?;
    ///     while let Some(step) = ev.next_step() {
    ///         match step {
    ///             Step::Accepted(new) => {
    ///                 let token = conns.add(&mut ev, new.stream, Interest::READ, Mode::Level)?;
    ///                 ev.set_idle(token);
    ///             }
    ///             Step::Evict(oldest) => {
    ///                 conns.close(&mut ev, oldest);
    ///             }
    ///             _ => {}
    ///         }
    ///     }
    /// }
    /// assert_eq!((ev.stats().evictions, ev.stats().idle), (1, 2));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// In a protocol whose messages are lines, a connection is idle after a step that leaves
    /// neither a part of a line in its input nor a part of an answer in its output (here there are
    /// no answers):
    ///
    /// ```
    /// use evcore::{Connections, EventLoop, Step, Stream};
    /// use std::{io::Write, os::{fd::OwnedFd, unix::net::UnixStream}};
    ///
    /// let (mut client, stream) = UnixStream::pair()?;
    /// let mut ev = EventLoop::builder().build()?;
    /// let mut conns = Connections::new();
    /// let token = conns.add(&mut ev, Stream::from(OwnedFd::from(stream)), Vec::new())?;
    /// for (sent, is_idle) in [("one\ntw", false), ("o\n", true)] {
    ///     client.write_all(sent.as_bytes())?;
    ///     ev.wait()?;
    ///     while let Some(Step::Ready(token, ready)) = ev.next_step() {
    ///         let (stream, input) = conns.ready(token, ready).expect("it is open");
    ///         let mut buffer = [0; 1024];
    ///         while let Ok(n @ 1..) = stream.recv(&mut ev, &mut buffer) {
    ///             input.extend_from_slice(&buffer[..n]); // a server closes at the end or an error
    ///         }
    ///         while let Some(end) = input.iter().position(|byte| *byte == b'\n') {
    ///             input.drain(..=end); // a server answers the line
    ///         }
    ///         if input.is_empty() {
    ///             ev.set_idle(token);
    ///         } else {
    ///             ev.set_busy(token);
    ///         }
    ///     }
    ///     assert_eq!(ev.is_idle(token), is_idle);
    /// }
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[inline]
    pub fn set_idle(&mut self, token: Token) -> bool {
        let watched = self.slots.watches(token);
        if watched {
            let now_ns = self.clock.monotonic_ns();
            self.evictions.idle.touch(token.index(), now_ns);
            if let Some(marks) = &self.marks {
                marks.set_idle(token.index());
            }
        }
        watched
    }

    /// Marks a connection as no longer idle. Returns false if it was not idle, or if the token is
    /// stale. O(1).
    ///
    /// This is not needed if the connection is idle again when its handler returns, because
    /// [`set_idle`](Self::set_idle) works on idle connections, too.
    #[inline]
    pub fn set_busy(&mut self, token: Token) -> bool {
        let was_idle = self.slots.has(token) && self.evictions.idle.remove(token.index());
        if let (Some(marks), true) = (&self.marks, was_idle) {
            marks.set_busy(token.index());
        }
        was_idle
    }

    /// Returns whether a connection is marked as idle.
    #[must_use]
    #[inline]
    pub fn is_idle(&self, token: Token) -> bool {
        self.slots.has(token) && self.evictions.idle.contains(token.index())
    }

    /// A phase without steps: chooses the connections whose slots are needed, before clients are
    /// accepted. If the grace of a shutdown is over, the connections that it protected become
    /// evictable.
    pub(crate) fn choose_evictions(&mut self) -> Option<Step<L::Stream>> {
        self.evictions.forget_choice();
        if self.grace_is_over() {
            self.end_grace();
        }
        // No slot is needed if the plan leaves all clients to another worker.
        if self.accepting.has_queued() && self.left.accepts > 0 {
            let load = self.load();
            self.evictions.choose_for_slots(load, &self.slots);
        }
        None
    }

    /// Chooses connections whose descriptors are needed. Connections that became idle within the
    /// grace stay, because their next request may be on the way. Otherwise the clients of a burst
    /// would evict each other before they are served.
    #[cold]
    pub(crate) fn choose_evictions_by_age(&mut self) {
        let now_ns = self.clock.monotonic_ns();
        self.evictions.choose_by_age(now_ns, &self.slots);
    }

    pub(crate) fn next_eviction(&mut self) -> Option<Step<L::Stream>> {
        while self.left.evictions > 0 {
            self.left.evictions -= 1;
            let token = self.next_to_evict()?;
            if self.slots.is_posted(token.index()) {
                // A step is posted for this connection, so it is not evicted.
                let now_ns = self.clock.monotonic_ns();
                self.evictions.idle.touch(token.index(), now_ns);
                continue;
            }
            self.evictions.idle.remove(token.index());
            self.stats.evictions += 1;
            return Some(Step::Evict(token));
        }
        None
    }

    pub(crate) fn has_idle_of_shutdown(&self) -> bool {
        self.evictions.idle.next_of_shutdown().is_some() || self.grace_is_over()
    }

    /// The idle connection that a shutdown evicts next. Without a shutdown, the longest idle one,
    /// if it was chosen in this turn.
    fn next_to_evict(&mut self) -> Option<Token> {
        if self.is_shutting_down() {
            // A shutdown that began in a late phase of this turn is announced in the next turn, and
            // then evicts.
            if !self.shutdown.is_announced() {
                return None;
            }
            let next = self.evictions.idle.next_of_shutdown()?;
            return Some(self.slots.occupant(next));
        }
        let oldest = self.slots.occupant(self.evictions.idle.oldest()?);
        self.evictions.has_chosen(oldest).then_some(oldest)
    }
}
