//! The calls of a loop that concern its listeners.

use std::{fmt, sync::atomic::AtomicU8};

use evcore_balancer::{Give, Moved};

use crate::acceptor::Acceptor;
use crate::error::{ListenerError, Result};
use crate::event_loop::EventLoop;
use crate::idle_marks::IdleMarks;
use crate::record::Record;

/// A view of the listeners of a loop. [`EventLoop::listeners`] lends it.
///
/// ```
/// use evcore::EventLoop;
///
/// let mut ev = EventLoop::builder().build()?;
/// assert!(ev.listeners().take_error().is_none());
/// # Ok::<(), evcore::Error>(())
/// ```
pub struct ListenersMut<'a, L: Acceptor> {
    ev: &'a mut EventLoop<L>,
}

impl<L: Acceptor> EventLoop<L> {
    /// Lends the listeners: their errors, calls that pause and close them, and the connections that
    /// move between workers.
    #[must_use]
    pub fn listeners(&mut self) -> ListenersMut<'_, L> {
        ListenersMut { ev: self }
    }
}

impl<L: Acceptor> ListenersMut<'_, L> {
    /// Takes the error of a listener that failed, for the log. `None` if no listener failed since
    /// its last error was taken.
    ///
    /// A listener fails when the poller refuses to register or to remove it (for lack of memory, or
    /// at the limit of watches, on Linux `fs.epoll.max_user_watches`). It also fails when accepting
    /// reports that the listener itself is broken, or when thousands of connections in a row were
    /// lost before they were accepted. The listener is suspended for half a second and then tried
    /// again. The other listeners and all connections go on.
    ///
    /// A lack of descriptors is not such an error: accepting pauses, and
    /// [`Stats::accept_pauses`](crate::Stats::accept_pauses) counts it.
    ///
    /// Call this after each wait and its steps. The loop keeps the latest error of each listener;
    /// [`Stats::listener_errors`](crate::Stats::listener_errors) counts all of them.
    ///
    /// ```
    /// # use evcore::EventLoop;
    /// # let mut ev = EventLoop::builder().build()?;
    /// # ev.handle().wake();
    /// ev.wait()?;
    /// while let Some(step) = ev.next_step() { /* ... */ }
    /// while let Some(error) = ev.listeners().take_error() {
    ///     eprintln!("{error}");
    /// }
    /// # Ok::<(), evcore::Error>(())
    /// ```
    pub fn take_error(&mut self) -> Option<ListenerError> {
        self.ev.accepting.take_error()
    }

    /// Pauses accepting, because the application lacks what a client needs, for example memory.
    ///
    /// The pause ends when a token with a descriptor is removed, or after 500 ms, as a pause for
    /// lack of descriptors does. Clients wait in the backlog, and this worker may notify another
    /// worker of the [group](crate::Builder::group) to accept them.
    /// [`Stats::accept_pauses`](crate::Stats::accept_pauses) does not count this pause. The call
    /// reads the clock's source.
    ///
    /// Call this when you refuse a [`Step::Accepted`](crate::Step::Accepted). Otherwise a worker
    /// that closes every client has the least load, and gets all clients.
    ///
    /// ```
    /// use evcore::{EventLoop, Listener};
    /// use std::time::Duration;
    ///
    /// let listener = Listener::bind("127.0.0.1:0")?;
    /// let mut ev = EventLoop::builder().listener(listener).build()?;
    /// ev.listeners().pause();
    /// ev.wait_at_most(Duration::ZERO)?;
    /// assert!(!ev.stats().listening);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn pause(&mut self) {
        self.ev.accepting.pause(&self.ev.clock);
    }

    /// Sets whether this worker exchanges open connections with other workers of its
    /// [group](crate::Builder::group) when the connections of the group have been unevenly spread
    /// for a time. Rebalancing is off at first, and closing the listeners turns it off.
    ///
    /// `evcore-serve` calls this, and moves the connections.
    pub fn set_rebalancing(&mut self, rebalances: bool) {
        self.ev.accepting.coordinator.set_rebalancing(rebalances);
    }

    /// Takes the number of connections that this worker should give away now, and the worker that
    /// should get them. `None` if no connections should move. Only idle connections move. Call this
    /// after the steps of each turn, and report the connections that have left by
    /// [`report_moved`](Self::report_moved).
    #[inline]
    pub fn take_give(&mut self) -> Option<Give> {
        self.ev.accepting.give.take()
    }

    /// Reports connections that have moved to or from another worker of the group.
    ///
    /// # Panics
    ///
    /// In debug builds, if more connections are reported as `Moved::Taken` or `Moved::CameBack`
    /// than were reported as `Moved::Left`.
    pub fn report_moved(&mut self, moved: Moved) {
        self.ev.accepting.coordinator.on_moved(moved);
    }

    /// Keeps a mark for each connection in `marks`, indexed by the number of its descriptor: 1
    /// while the connection is [idle](EventLoop::set_idle), and 2 while it is busy. Call this
    /// before the first connection begins; earlier connections have no mark, and neither have
    /// descriptors whose number is not below the length of `marks`. `evcore-serve` calls it for a
    /// worker with a descriptor store.
    ///
    /// The memory is shared with a descriptor store (`evcore-prefork`), which hands the idle
    /// connections to another worker if this worker dies. The worker may die at any instruction. So
    /// a mark is set to 2 before the program gets a step of the connection, and to 0 before the
    /// call that ends its token returns or closes the descriptor. [`EventLoop::set_idle`] sets it
    /// to 1. So does the end of a turn in which the connection had a step, if the connection is
    /// still idle.
    ///
    /// A program with marks calls `set_idle` after it has sent the last byte of an answer. It calls
    /// [`set_busy`](EventLoop::set_busy) *before* it sends to an idle connection, or reads from it,
    /// without a step of that connection. The program must keep no state of an idle connection
    /// outside of the connection itself.
    ///
    /// With marks, each step takes a slower path through the loop, as with a flight recorder.
    ///
    /// ```
    /// use evcore::{Connections, EventLoop, Step, Stream};
    /// use std::{io::Write, os::{fd::{AsRawFd, OwnedFd}, unix::net::UnixStream}};
    /// use std::sync::atomic::{AtomicU8, Ordering::Acquire};
    ///
    /// static MARKS: [AtomicU8; 1024] = [const { AtomicU8::new(0) }; 1024];
    /// let (mut near, far) = UnixStream::pair()?;
    /// let mark = &MARKS[far.as_raw_fd() as usize];
    /// let mut ev = EventLoop::builder().build()?;
    /// ev.listeners().set_idle_marks(&MARKS);
    /// let mut clients = Connections::new();
    /// let token = clients.add(&mut ev, Stream::from(OwnedFd::from(far)), ())?;
    /// ev.set_idle(token);
    /// assert_eq!(mark.load(Acquire), 1);
    ///
    /// near.write_all(b"hello")?;
    /// ev.wait()?;
    /// assert!(matches!(ev.next_step(), Some(Step::Ready(ready, _)) if ready == token));
    /// assert_eq!(mark.load(Acquire), 2);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn set_idle_marks(&mut self, marks: &'static [AtomicU8]) {
        self.ev.marks = Some(Box::new(IdleMarks::new(marks)));
        self.ev.is_plain = false;
    }

    /// Closes the listeners of this worker for good. [`EventLoop::shutdown`] begins with this.
    ///
    /// Clients in the backlog wait for the other workers that share it. If this worker is in a
    /// [group](crate::Builder::group), and it listened or had been notified, it notifies another
    /// member that has room.
    ///
    /// # Errors
    ///
    /// The first error of the poller. All listeners are closed even then.
    pub fn close(&mut self) -> Result<()> {
        let held_lock = self.ev.accepting.coordinator.holds_lock();
        let closed = self
            .ev
            .accepting
            .close(&mut self.ev.poller, &mut self.ev.stats);
        if held_lock {
            self.ev.record(Record::LockReleased);
        }
        closed
    }
}

impl<L: Acceptor> fmt::Debug for ListenersMut<'_, L> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("ListenersMut").field(&self.ev).finish()
    }
}
