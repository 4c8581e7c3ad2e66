//! The state that an executor keeps for a token.

use std::io::Read;
use std::mem;
use std::os::unix::net::UnixStream;
use std::rc::Rc;
use std::task::Waker;

use evcore::Ready;

use crate::job::Job;
use crate::task::Task;

pub(crate) enum Slot {
    Task(Rc<Task>),
    Source(Source),
    Sleep(Event),
    Shutdown(Event),
    Job(Job),
    Signal(Signal),
    /// A token that has ended and is still in the loop.
    Orphan,
}

/// The state of a watched descriptor: the readiness that was reported since the stream last took
/// it, and the tasks that wait for the descriptor.
#[derive(Default)]
pub(crate) struct Source {
    pub(crate) ready: Ready,
    pub(crate) reader: Option<Waker>,
    pub(crate) writer: Option<Waker>,
    /// True if a task waits for the next turn (iteration of the loop), because the stream has used
    /// up its calls of this turn.
    pub(crate) is_put_off: bool,
    pub(crate) activity: Activity,
}

#[derive(Clone, Copy, Default, PartialEq)]
pub(crate) enum Activity {
    #[default]
    Busy,
    Idle,
    /// The loop evicts the connection, which was idle.
    Evicted,
}

#[derive(Default)]
pub(crate) struct Event {
    pub(crate) has_happened: bool,
    pub(crate) waker: Option<Waker>,
}

pub(crate) struct Signal {
    /// The receiving end of the socket pair to which the signal handler writes.
    pub(crate) receiver: UnixStream,
    pub(crate) event: Event,
}

pub(crate) enum Reaction {
    Poll,
    Wake([Option<Waker>; 2]),
}

impl Slot {
    /// Records readiness, or a post (a step that a waker or the executor has requested). Returns
    /// the reaction of the executor.
    #[inline]
    pub(crate) fn on_ready(&mut self, ready: Ready) -> Reaction {
        match self {
            // A task in the run queue is polled from there.
            Self::Task(task) if task.is_queued() => Reaction::Wake([None, None]),
            Self::Task(_) => Reaction::Poll,
            Self::Source(source) => Reaction::Wake(source.on_ready(ready)),
            Self::Signal(signal) => Reaction::Wake([signal.on_ready(), None]),
            // An orphan wakes no task, and nothing posts the other tokens.
            Self::Sleep(_) | Self::Shutdown(_) | Self::Job(_) | Self::Orphan => {
                Reaction::Wake([None, None])
            }
        }
    }

    pub(crate) fn event(&mut self) -> Option<&mut Event> {
        match self {
            Self::Sleep(event) | Self::Shutdown(event) => Some(event),
            Self::Signal(signal) => Some(&mut signal.event),
            Self::Task(_) | Self::Source(_) | Self::Job(_) | Self::Orphan => None,
        }
    }

    pub(crate) fn on_expired(&mut self) -> Option<Waker> {
        match self {
            Self::Sleep(event) => event.happen(),
            _ => None,
        }
    }

    /// Records an eviction, and returns the waker of the reader. Does nothing for a busy
    /// connection. The loop still counts a busy connection as idle if its `read_idle` was dropped
    /// while the loop was not lent (see `context`).
    pub(crate) fn on_evict(&mut self) -> Option<Waker> {
        match self {
            Self::Source(source) if source.activity == Activity::Idle => {
                source.activity = Activity::Evicted;
                source.reader.take()
            }
            _ => None,
        }
    }
}

impl Source {
    /// Records reported readiness, and returns the wakers of the tasks that go on. A report of
    /// either side also wakes a task that was put off, because the loop merges the post for that
    /// task with the report.
    fn on_ready(&mut self, ready: Ready) -> [Option<Waker>; 2] {
        self.ready |= ready;
        let both = mem::take(&mut self.is_put_off) || ready.is_error();
        let reads = both || ready.is_readable() || ready.is_read_closed();
        let writes = both || ready.is_writable() || ready.is_write_closed();
        let reader = if reads { self.reader.take() } else { None };
        let writer = if writes { self.writer.take() } else { None };
        [reader, writer]
    }
}

impl Signal {
    /// Reads all bytes, because the loop would otherwise report the descriptor again.
    fn on_ready(&mut self) -> Option<Waker> {
        while matches!(self.receiver.read(&mut [0; 64]), Ok(1..)) {}
        self.event.happen()
    }
}

impl Event {
    pub(crate) fn happen(&mut self) -> Option<Waker> {
        self.has_happened = true;
        self.waker.take()
    }
}
