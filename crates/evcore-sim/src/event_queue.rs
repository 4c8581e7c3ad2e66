//! The simulated clock, and the events that are scheduled on it.
//!
//! Events of the same time come in the order in which they were scheduled. So the order is total,
//! and the same in every run.

use std::{cmp::Ordering, collections::BinaryHeap};

use crate::{net::EndpointId, thread_pool::JobId};

/// An event that happens by itself at its time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum SimEvent {
    Arrival(EndpointId, Segment),
    /// A connection request arrives for this server endpoint, with the number of the attempt.
    Connect(EndpointId, u8),
    /// Connecting fails for the client of this server endpoint.
    ConnectFails(EndpointId, ConnectFailure),
    /// A client gets its pending events.
    NotifyClient(u32),
    /// A client's timer expires. The event is ignored if its second number is not the number of the
    /// client's current timer.
    ClientTimer(u32, u32),
    /// The parent notices that this process is dead.
    Reap(u32),
    /// The datagram with this index arrives.
    Datagram(u32),
    JobEnds(JobId),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ConnectFailure {
    Refused,
    Unreachable,
    TimedOut,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Segment {
    /// The connection is made. (SYN and ACK.)
    Connected,
    /// This many of the bytes in flight, the oldest first.
    Data(u32),
    Fin,
    Reset,
    /// The peer of a Unix socket has closed, so sends fail at once. `true` if the peer has left
    /// bytes unread.
    HangUp(bool),
    /// The peer has read, so that the endpoint has space to send.
    WindowUpdate,
}

/// The events to come, and the time.
///
/// Segments arrive within microseconds, while clients arm their timers for minutes. Near and far
/// events have a heap each, so that the segments, which are most of the events, are not sorted
/// among the timers.
#[derive(Debug, Default)]
pub(crate) struct EventQueue {
    now_ns: u64,
    scheduled: u64,
    /// The events that were less than `NEAR_NS` ahead when they were scheduled.
    near: BinaryHeap<Entry>,
    far: BinaryHeap<Entry>,
}

const NEAR_NS: u64 = 10_000_000;

impl EventQueue {
    pub(crate) fn now_ns(&self) -> u64 {
        self.now_ns
    }

    /// Schedules an event. If its time is past, it happens now.
    pub(crate) fn schedule(&mut self, at_ns: u64, event: SimEvent) {
        let entry = Entry {
            at_ns: at_ns.max(self.now_ns),
            sequence: self.scheduled,
            event,
        };
        self.scheduled += 1;
        if entry.at_ns - self.now_ns < NEAR_NS {
            self.near.push(entry);
        } else {
            self.far.push(entry);
        }
    }

    pub(crate) fn next_ns(&self) -> Option<u64> {
        self.peek().map(|entry| entry.at_ns)
    }

    /// Takes the next event if it is due by `by_ns`, and advances the time to it.
    pub(crate) fn pop(&mut self, by_ns: u64) -> Option<SimEvent> {
        if self.next_ns()? > by_ns {
            return None;
        }
        let entry = if self.near.peek() >= self.far.peek() {
            self.near.pop()?
        } else {
            self.far.pop()?
        };
        // `advance_to` may have moved the time past the event.
        self.now_ns = self.now_ns.max(entry.at_ns);
        Some(entry.event)
    }

    fn peek(&self) -> Option<&Entry> {
        self.near.peek().max(self.far.peek())
    }

    /// Advances the time. It never goes back.
    pub(crate) fn advance_to(&mut self, at_ns: u64) {
        self.now_ns = self.now_ns.max(at_ns);
    }
}

#[derive(Debug, PartialEq, Eq)]
struct Entry {
    at_ns: u64,
    /// The order among entries of the same time.
    sequence: u64,
    event: SimEvent,
}

/// The earliest entry is the greatest, because a `BinaryHeap` pops its greatest first.
impl Ord for Entry {
    fn cmp(&self, other: &Self) -> Ordering {
        (other.at_ns, other.sequence).cmp(&(self.at_ns, self.sequence))
    }
}

impl PartialOrd for Entry {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_earliest_event_is_first_and_equal_ones_keep_their_order() {
        let mut queue = EventQueue::default();
        for (at_ns, client) in [(5, 0), (3, 1), (5, 2), (3, 3), (9, 4)] {
            queue.schedule(at_ns, SimEvent::NotifyClient(client));
        }
        let order: Vec<_> = std::iter::from_fn(|| queue.pop(5)).collect();
        assert_eq!(order, [1, 3, 0, 2].map(SimEvent::NotifyClient));
        assert_eq!((queue.now_ns(), queue.next_ns()), (5, Some(9)));
    }

    #[test]
    fn events_of_both_heaps_come_in_one_order() {
        let mut queue = EventQueue::default();
        let far_ns = 2 * NEAR_NS;
        queue.schedule(far_ns, SimEvent::NotifyClient(0));
        queue.schedule(far_ns + 1, SimEvent::NotifyClient(1));
        queue.advance_to(far_ns - 1);
        queue.schedule(far_ns + 1, SimEvent::NotifyClient(2));
        queue.schedule(far_ns, SimEvent::NotifyClient(3));
        let order: Vec<_> = std::iter::from_fn(|| queue.pop(u64::MAX)).collect();
        assert_eq!(order, [0, 3, 1, 2].map(SimEvent::NotifyClient));
    }

    #[test]
    fn an_overdue_event_happens_now_and_time_never_goes_back() {
        let mut queue = EventQueue::default();
        queue.advance_to(7);
        queue.schedule(3, SimEvent::NotifyClient(0));
        assert_eq!(queue.next_ns(), Some(7));
        queue.advance_to(6);
        assert_eq!(queue.now_ns(), 7);
    }
}
