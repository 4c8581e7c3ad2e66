//! The interest of each id, and the poll request that watches for it. This file makes no system
//! call.
//!
//! Each request has a name of its own: the id, and a number that is used again only after some 2^40
//! requests. So a completion of a cancelled request is recognised as stale, even if its id has a
//! new request.

use std::os::fd::RawFd;

use rustix::event::epoll::EventFlags;

use super::request::Request;
use crate::{backend::Registration, growth, id::MAX_ID, interest::Mode, ready::Ready};

/// Number of low bits of a request's name that are its id.
const ID_BITS: u32 = u32::BITS - MAX_ID.leading_zeros();

/// The highest number of a request. The next number is reserved for the waker and for
/// cancellations.
const LAST_NUMBER: u64 = (u64::MAX >> ID_BITS) - 1;

/// The value of a row without a request. No request has the number 0.
const NO_REQUEST: u64 = 0;

#[derive(Debug, Default)]
pub(super) struct Table {
    rows: Vec<Row>,
    /// Ids that need a request, because the registration is new or has changed.
    changed: Vec<u32>,
    /// Ids that need a request because theirs has ended. Their requests are made after those of the
    /// changed ids. Otherwise a `Level` that stays ready would come first in each wait, and could
    /// hide the error of a descriptor that the program changes before each wait.
    spent: Vec<u32>,
    // Invariant: the two lists have exactly the ids whose row is `listed`, each once.
    /// True if a multishot request has ended and its id was listed, since the last
    /// [`take_ended_edges`](Self::take_ended_edges).
    has_ended_edges: bool,
    cancelled: Vec<u64>,
    /// The number of the last request.
    last: u64,
    /// The number of the last request before this wait.
    last_before: u64,
}

#[derive(Clone, Copy, Debug)]
pub(super) struct Row {
    pub(super) key: u64,
    /// The name of the id's request; [`NO_REQUEST`] if it has none.
    request: u64,
    pub(super) fd: RawFd,
    /// The position of the id's event among the events of this wait, if it has one.
    pub(super) position: u32,
    /// The interest in flags of poll. Zero if there is nothing to watch.
    pub(super) flags: u16,
    pub(super) mode: Mode,
    /// True if the request goes on after a completion, so that each wake-up makes a completion.
    pub(super) is_multishot: bool,
    /// True if a multishot request of the id has ended since the registration was made or changed.
    /// The report of a `Level` or a `Oneshot` clears this.
    pub(super) has_ended: bool,
    /// True if the id needs a request.
    unarmed: bool,
    listed: bool,
}

impl Table {
    /// Enters a registration, or changes one. The next wait makes a request for it.
    pub(super) fn enter(&mut self, new: &Registration) {
        let id = new.id();
        growth::lengthen(&mut self.rows, id + 1, Row::VACANT);
        self.cancel(id);
        let row = &mut self.rows[id];
        *row = Row {
            key: new.key,
            fd: new.fd,
            flags: flags(new),
            mode: new.mode,
            is_multishot: new.mode == Mode::Edge,
            listed: row.listed,
            ..Row::VACANT
        };
        self.arm(id, false);
    }

    /// Returns whether the table has this registration, and the registration watches for something.
    pub(super) fn is_watched(&self, registration: &Registration) -> bool {
        let row = self.rows.get(registration.id());
        row.is_some_and(|row| row.key == registration.key && row.flags != 0)
    }

    /// Returns the number of ids, an upper bound on live requests.
    pub(super) fn len(&self) -> usize {
        self.rows.len()
    }

    /// Ends a registration, and lists its request for cancellation.
    pub(super) fn leave(&mut self, old: &Registration) {
        let id = old.id();
        if self.rows.get(id).is_some_and(|row| row.key == old.key) {
            self.cancel(id);
            self.rows[id] = Row {
                listed: self.rows[id].listed,
                ..Row::VACANT
            };
        }
    }

    /// Lists the request of `id` for cancellation, if it has one.
    pub(super) fn cancel(&mut self, id: usize) {
        let request = std::mem::replace(&mut self.rows[id].request, NO_REQUEST);
        if request != NO_REQUEST {
            growth::push(&mut self.cancelled, request);
        }
    }

    /// Lists all requests for cancellation, the newest last, because the last one is cancelled
    /// first.
    pub(super) fn cancel_all(&mut self) {
        for id in 0..self.rows.len() {
            self.cancel(id);
        }
        self.cancelled.sort_unstable();
    }

    fn arm(&mut self, id: usize, was_spent: bool) {
        let row = &mut self.rows[id];
        row.unarmed = true;
        if !row.listed {
            row.listed = true;
            let list = if was_spent {
                &mut self.spent
            } else {
                &mut self.changed
            };
            growth::push(list, u32::try_from(id).expect("at most `MAX_ID`"));
        }
    }

    pub(super) fn arm_again(&mut self, id: usize) {
        self.arm(id, true);
    }

    /// Records that a registration's multishot request has ended, and that the registration needs a
    /// new request. If the new request completes and ends while it is submitted, the registration
    /// [rests](Self::rest).
    pub(super) fn arm_edge_again(&mut self, id: usize) {
        self.rows[id].has_ended = true;
        self.has_ended_edges = true;
        self.arm_again(id);
    }

    #[inline]
    pub(super) fn take_ended_edges(&mut self) -> bool {
        std::mem::take(&mut self.has_ended_edges)
    }

    /// Handles a request that has completed and ended while it was submitted. If an earlier
    /// multishot request of its id has ended too, the file has no wait queue, so a further request
    /// would end in the same way. The registration then rests: its id gets no further request
    /// before the registration changes.
    pub(super) fn rest(&mut self, request: u64) {
        if let Some(id) = self.id_of(request) {
            if self.rows[id].has_ended {
                self.end_request(id);
            }
        }
    }

    /// Cancels the request of `id`, if it goes on, and lists the id for another one.
    pub(super) fn make_anew(&mut self, id: usize) {
        self.cancel(id);
        self.arm_again(id);
    }

    /// Drops all requests, because they have ended with their ring. Lists each id that had a
    /// request, so that it gets a new one.
    pub(super) fn arm_all(&mut self) {
        self.cancelled.clear();
        for id in 0..self.rows.len() {
            if std::mem::replace(&mut self.rows[id].request, NO_REQUEST) != NO_REQUEST {
                self.arm(id, false);
            }
        }
    }

    /// Begins a wait. Requests that are made from now on are [new](Self::is_new).
    pub(super) fn begin_wait(&mut self) {
        self.last_before = self.last;
    }

    pub(super) fn is_new(&self, request: u64) -> bool {
        self.requests_since(request >> ID_BITS) < self.requests_since(self.last_before)
    }

    /// Returns the number of requests that were made after this one.
    fn requests_since(&self, number: u64) -> u64 {
        match self.last.checked_sub(number) {
            Some(distance) => distance,
            // The numbers have wrapped around.
            None => self.last + (LAST_NUMBER - number),
        }
    }

    #[inline]
    pub(super) fn has_changes(&self) -> bool {
        !(self.cancelled.is_empty() && self.changed.is_empty() && self.spent.is_empty())
    }

    pub(super) fn cancelled(&self) -> usize {
        self.cancelled.len()
    }

    pub(super) fn next_cancelled(&mut self) -> Option<u64> {
        self.cancelled.pop()
    }

    /// Calls `make` for each request to make, until a call fails. The ids whose request was not
    /// made stay in the lists.
    pub(super) fn make_requests<E>(
        &mut self,
        mut make: impl FnMut(Request) -> Result<(), E>,
    ) -> Result<(), E> {
        for list in [&mut self.changed, &mut self.spent] {
            let mut made = 0;
            let mut result = Ok(());
            for &id in &*list {
                let row = &mut self.rows[id as usize];
                if row.unarmed && row.flags != 0 {
                    self.last = self.last % LAST_NUMBER + 1;
                    let name = (self.last << ID_BITS) | u64::from(id);
                    result = make(row.request_of(name));
                    if result.is_err() {
                        break;
                    }
                    row.request = name;
                }
                row.unarmed = false;
                row.listed = false;
                made += 1;
            }
            list.drain(..made);
            result?;
        }
        Ok(())
    }

    /// Returns the id of a request, unless the request has ended or was cancelled.
    #[inline]
    pub(super) fn id_of(&self, request: u64) -> Option<usize> {
        let id = usize::try_from(request & u64::from(MAX_ID)).ok()?;
        let row = self.rows.get(id)?;
        (row.request == request).then_some(id)
    }

    /// Returns the row of a request, unless the request has ended or was cancelled.
    #[inline]
    pub(super) fn row_of(&mut self, request: u64) -> Option<&mut Row> {
        let id = usize::try_from(request & u64::from(MAX_ID)).ok()?;
        self.rows.get_mut(id).filter(|row| row.request == request)
    }

    pub(super) fn end_request(&mut self, id: usize) {
        self.rows[id].request = NO_REQUEST;
    }

    #[inline]
    pub(super) fn row(&mut self, id: usize) -> &mut Row {
        &mut self.rows[id]
    }

    #[cfg(test)]
    pub(super) fn verify(&self) {
        let mut listed = vec![0; self.rows.len()];
        for id in self.changed.iter().chain(&self.spent) {
            listed[*id as usize] += 1;
        }
        for (id, row) in self.rows.iter().enumerate() {
            assert_eq!(listed[id], u32::from(row.listed), "id {id}: {row:?}");
            assert!(row.listed || !row.unarmed, "id {id}: {row:?}");
            let has_request = row.request != NO_REQUEST;
            assert!(!(has_request && row.unarmed), "id {id}: {row:?}");
            assert!(!has_request || row.flags != 0, "id {id}: {row:?}");
            assert!(!row.has_ended || row.is_multishot, "id {id}: {row:?}");
        }
    }
}

impl Row {
    const VACANT: Self = Self {
        key: u64::MAX,
        request: NO_REQUEST,
        fd: -1,
        position: 0,
        flags: 0,
        mode: Mode::Level,
        is_multishot: false,
        has_ended: false,
        unarmed: false,
        listed: false,
    };

    fn request_of(&self, name: u64) -> Request {
        Request::Watch {
            fd: self.fd,
            flags: self.flags_of_request(),
            multishot: self.is_multishot,
            name,
        }
    }

    /// A request for priority data also has `EPOLLIN`, because the kernel ignores `EPOLLPRI` when
    /// it compares the request with a wake-up. [`readiness`](Self::readiness) drops data that is
    /// not watched for.
    fn flags_of_request(&self) -> u32 {
        let flags = u32::from(self.flags);
        let has_priority = flags & EventFlags::PRI.bits() != 0;
        let data = if has_priority {
            EventFlags::IN.bits()
        } else {
            0
        };
        flags | data
    }

    pub(super) fn flags_of_poll(&self) -> i16 {
        i16::try_from(self.flags).expect("the highest flag is RDHUP, 0x2000")
    }

    /// Converts flags of poll to readiness, limited to errors, hang-ups and what the row watches
    /// for.
    #[inline]
    pub(super) fn readiness(&self, found: u32) -> Ready {
        let always = EventFlags::ERR | EventFlags::HUP;
        Ready::from_flags(found & (u32::from(self.flags) | always.bits()))
    }
}

fn flags(registration: &Registration) -> u16 {
    // `Interest` has the same bits as IN, PRI and OUT, and `READ_CLOSED` has the bit of RDHUP.
    let ends = registration.ends.bits() & Ready::READ_CLOSED.bits();
    u16::from(registration.interest.bits()) | ends
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Interest;

    fn names(table: &mut Table) -> Vec<u64> {
        for key in [0, 1] {
            table.enter(&Registration {
                fd: 3,
                key,
                interest: Interest::READ,
                ends: Ready::NONE,
                mode: Mode::Edge,
            });
        }
        let mut names = Vec::new();
        let made = table.make_requests(|request| {
            let Request::Watch { name, .. } = request else {
                panic!("{request:?}");
            };
            names.push(name);
            Ok::<_, ()>(())
        });
        assert_eq!(made, Ok(()));
        names
    }

    #[test]
    fn the_numbers_of_requests_wrap_around() {
        let mut table = Table {
            last: LAST_NUMBER - 5,
            ..Table::default()
        };
        let (mut all, mut before) = (Vec::new(), Vec::new());
        for _ in 0..5 {
            table.begin_wait();
            let names = names(&mut table);
            for name in &names {
                assert!(table.is_new(*name), "{name:#x}, {}", table.last);
            }
            for name in &before {
                assert!(!table.is_new(*name), "{name:#x}, {}", table.last);
                assert_eq!(table.id_of(*name), None, "the request was cancelled");
            }
            before.clone_from(&names);
            all.extend(names);
        }
        let numbers: Vec<_> = all.iter().map(|name| name >> ID_BITS).collect();
        let last = LAST_NUMBER;
        assert_eq!(
            numbers,
            [last - 4, last - 3, last - 2, last - 1, last, 1, 2, 3, 4, 5]
        );
        // The names are below those of the waker and of cancellations.
        assert!((last << ID_BITS | u64::from(MAX_ID)) < super::super::CANCEL);
    }
}
