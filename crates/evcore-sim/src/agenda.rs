//! What is to happen, and when.
//!
//! Two things of the same time happen in the order in which they were put down: so the order is
//! total, and the same in every run.

use std::{cmp::Ordering, collections::BinaryHeap};

use crate::net::EndId;

/// Something that happens by itself, at its time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Happening {
    /// A piece of the network's traffic reaches one end of a connection.
    Arrival(EndId, Segment),
    /// A client knocks; for the so-many-th time.
    Knock(EndId, u8),
    /// A client's connection has been taken up by the other side.
    Connected(EndId),
    /// A client has something to look at.
    News(u32),
    /// A client's time has come, if it has not set another since.
    Alarm(u32, u32),
    /// Whoever looks after the workers notices that this process is dead.
    Reap(u32),
}

/// What travels.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Segment {
    /// So many bytes, the first of those on their way.
    Data(u32),
    /// The other side sends no more.
    End,
    /// The connection is no more.
    Reset,
    /// The other side has closed, and it is known at once that nothing sent will be read (as
    /// between Unix sockets); whether it left something unread.
    HangUp(bool),
    /// The other side has read, so there is room to send.
    Room,
}

/// The clock of the world, and its calendar.
///
/// What travels arrives within a moment, while clients set their alarms for minutes ahead. So there
/// are two heaps, and traffic, which is most of what happens, does not pass by every alarm.
#[derive(Debug, Default)]
pub(crate) struct Agenda {
    now_ns: u64,
    /// How many entries there have ever been.
    entered: u64,
    /// What was close by when it was entered.
    soon: BinaryHeap<Entry>,
    /// All else.
    later: BinaryHeap<Entry>,
}

/// How close is close by.
const SOON_NS: u64 = 10_000_000;

impl Agenda {
    pub(crate) fn now_ns(&self) -> u64 {
        self.now_ns
    }

    /// Puts down something; what is for a time that has passed happens now.
    pub(crate) fn enter(&mut self, at_ns: u64, happening: Happening) {
        let entry = Entry {
            at_ns: at_ns.max(self.now_ns),
            place: self.entered,
            happening,
        };
        self.entered += 1;
        if entry.at_ns - self.now_ns < SOON_NS {
            self.soon.push(entry);
        } else {
            self.later.push(entry);
        }
    }

    /// When the next thing happens.
    pub(crate) fn next_ns(&self) -> Option<u64> {
        self.peek().map(|entry| entry.at_ns)
    }

    /// The next thing, if it happens by then; it is now.
    pub(crate) fn take(&mut self, by_ns: u64) -> Option<Happening> {
        if self.next_ns()? > by_ns {
            return None;
        }
        let entry = if self.soon.peek() >= self.later.peek() {
            self.soon.pop()?
        } else {
            self.later.pop()?
        };
        // It may be late: a wait takes its time whatever happens meanwhile.
        self.now_ns = self.now_ns.max(entry.at_ns);
        Some(entry.happening)
    }

    /// The first: which of the entries counts as the greatest.
    fn peek(&self) -> Option<&Entry> {
        self.soon.peek().max(self.later.peek())
    }

    /// Lets time pass; it does not go back.
    pub(crate) fn pass_to(&mut self, at_ns: u64) {
        self.now_ns = self.now_ns.max(at_ns);
    }
}

/// A line of the calendar.
#[derive(Debug, PartialEq, Eq)]
struct Entry {
    at_ns: u64,
    place: u64,
    happening: Happening,
}

/// The earliest is the greatest: the heap gives its greatest first.
impl Ord for Entry {
    fn cmp(&self, other: &Self) -> Ordering {
        (other.at_ns, other.place).cmp(&(self.at_ns, self.place))
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
    fn the_earliest_is_first_and_equals_keep_their_order() {
        let mut agenda = Agenda::default();
        for (at_ns, client) in [(5, 0), (3, 1), (5, 2), (3, 3), (9, 4)] {
            agenda.enter(at_ns, Happening::News(client));
        }
        let order: Vec<_> = std::iter::from_fn(|| agenda.take(5)).collect();
        assert_eq!(order, [1, 3, 0, 2].map(Happening::News));
        assert_eq!((agenda.now_ns(), agenda.next_ns()), (5, Some(9)));
    }

    /// Whichever heap it is in.
    #[test]
    fn near_and_far_come_in_one_order() {
        let mut agenda = Agenda::default();
        let far_ns = 2 * SOON_NS;
        agenda.enter(far_ns, Happening::News(0));
        agenda.enter(far_ns + 1, Happening::News(1));
        agenda.pass_to(far_ns - 1);
        agenda.enter(far_ns + 1, Happening::News(2));
        agenda.enter(far_ns, Happening::News(3));
        let order: Vec<_> = std::iter::from_fn(|| agenda.take(u64::MAX)).collect();
        assert_eq!(order, [0, 3, 1, 2].map(Happening::News));
    }

    #[test]
    fn what_is_late_happens_now_and_time_does_not_go_back() {
        let mut agenda = Agenda::default();
        agenda.pass_to(7);
        agenda.enter(3, Happening::News(0));
        assert_eq!(agenda.next_ns(), Some(7));
        agenda.pass_to(6);
        assert_eq!(agenda.now_ns(), 7);
    }
}
