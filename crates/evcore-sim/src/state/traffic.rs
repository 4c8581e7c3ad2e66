//! What the two ends of a connection do to each other, and how long that takes.

use std::{io, time::Duration};

use super::State;
use crate::{
    Fault,
    agenda::Segment,
    net::{EndId, Farewell, Owner},
    poll::Object,
    trace::What,
};

/// How late a piece may be that is delayed.
const DELAY: Duration = Duration::from_secs(3);

/// How long after a part of it the rest follows, of what was read or written.
const REST: Duration = Duration::from_millis(5);

impl State {
    /// Sends from an end to the other what fits.
    pub(crate) fn send(&mut self, from: EndId, bytes: &[u8]) -> io::Result<usize> {
        self.net.end_mut(from).check_sending()?;
        if bytes.is_empty() {
            return Ok(0);
        }
        let to = from.other();
        let room = self.net.end(to).room().min(u32::MAX as usize);
        let mut count = bytes.len().min(room);
        if count == 0 {
            return Err(io::ErrorKind::WouldBlock.into());
        }
        if count > 1 && self.fails(Fault::ShortWrite) {
            count = 1 + self.rng.index(count - 1);
            // Whoever took that for a full buffer waits to hear that there is room.
            let after_ns = self.up_to(REST);
            self.dispatch(from, Segment::Room, after_ns);
        }
        let sent = &bytes[..count];
        self.note(What::Send, from.number(), count as u64);
        self.trace.bytes(sent);
        self.net.end_mut(to).wire.extend(sent);
        self.dispatch_data(to, count);
        if self.fails(Fault::Reset) {
            self.dispatch(from, Segment::Reset, 0);
            self.dispatch(to, Segment::Reset, 0);
        }
        Ok(count)
    }

    fn dispatch_data(&mut self, to: EndId, count: usize) {
        let mut left = count;
        if count > 1 && self.fails(Fault::Fragment) {
            let first = 1 + self.rng.index(count - 1);
            self.dispatch_piece(to, first);
            left -= first;
        }
        self.dispatch_piece(to, left);
    }

    fn dispatch_piece(&mut self, to: EndId, count: usize) {
        let mut after_ns = self.latency_ns(to);
        if self.fails(Fault::Delay) {
            after_ns += self.up_to(DELAY);
        }
        let count = u32::try_from(count).expect("bounded by the room");
        self.dispatch(to, Segment::Data(count), after_ns);
    }

    /// Reads what has arrived at an end.
    pub(crate) fn receive(&mut self, at: EndId, buffer: &mut [u8]) -> io::Result<usize> {
        let end = self.net.end(at);
        let here = end.unread().min(buffer.len());
        // Only where nothing is behind it that the rest would have to overtake.
        let divisible = here > 1 && end.under_way == 0 && !end.is_over();
        let most = if divisible && self.fails(Fault::ShortRead) {
            1 + self.rng.index(here - 1)
        } else {
            here
        };
        let was_roomy = self.net.end(at).is_roomy();
        let count = self.net.end_mut(at).read(buffer, most)?;
        if most < here {
            self.send_back(at);
        }
        self.note(What::Receive, at.number(), count as u64);
        if !was_roomy && self.net.end(at).is_roomy() {
            let after_ns = self.latency_ns(at.other());
            self.dispatch(at.other(), Segment::Room, after_ns);
        }
        Ok(count)
    }

    /// What was left of a short read has not arrived yet, after all.
    fn send_back(&mut self, at: EndId) {
        let rest = self.net.end_mut(at).send_back();
        if rest > 0 {
            let after_ns = self.up_to(REST);
            let rest = u32::try_from(rest).expect("bounded by the room");
            self.dispatch(at, Segment::Data(rest), after_ns);
        }
    }

    /// An end sends no more.
    pub(crate) fn finish(&mut self, from: EndId) -> io::Result<()> {
        if self.net.end_mut(from).finish()? {
            self.note(What::Finish, from.number(), 0);
            let after_ns = self.latency_ns(from.other());
            self.dispatch(from.other(), Segment::End, after_ns);
            self.touch(from);
        }
        Ok(())
    }

    /// Whoever held an end lets go of it.
    pub(crate) fn close(&mut self, id: EndId) {
        self.note(What::Close, id.number(), 0);
        let farewell = self.leave(id);
        let segment = match farewell {
            Farewell::None => None,
            Farewell::End => Some(Segment::End),
            Farewell::Reset => Some(Segment::Reset),
            Farewell::HangUp(had_unread) => Some(Segment::HangUp(had_unread)),
        };
        if let Some(segment) = segment {
            let after_ns = self.latency_ns(id.other());
            self.dispatch(id.other(), segment, after_ns);
        }
        self.net.tidy(id);
    }

    /// Whoever held an end destroys the connection (closing with `SO_LINGER` of 0).
    pub(crate) fn reset(&mut self, id: EndId) {
        self.note(What::Reset, id.number(), 0);
        let lasted = self.net.end(id).lasts();
        self.leave(id);
        if lasted {
            let after_ns = self.latency_ns(id.other());
            self.dispatch(id.other(), Segment::Reset, after_ns);
        }
        self.net.tidy(id);
    }

    fn leave(&mut self, id: EndId) -> Farewell {
        for watch in std::mem::take(&mut self.net.end_mut(id).watches) {
            self.pollers[watch.poller as usize].remove(watch.id as usize);
        }
        self.net.end_mut(id).close()
    }

    /// Something has come to an end of a connection.
    pub(crate) fn arrive(&mut self, id: EndId, segment: Segment) {
        self.note(What::Arrive, id.number(), segment.number());
        let end = self.net.end_mut(id);
        end.under_way -= 1;
        let (is_open, was_broken) = (end.is_open(), end.is_broken());
        match segment {
            Segment::Data(count) => {
                end.arrive(count as usize);
                if !is_open && !was_broken {
                    // To nobody: the other side is told that it does not arrive.
                    end.break_off();
                    self.answer_with_reset(id);
                }
            }
            Segment::End => end.end(),
            Segment::Reset => end.break_off(),
            Segment::HangUp(had_unread) => end.hang_up(had_unread),
            Segment::Room => {}
        }
        if is_open {
            self.touch(id);
        } else {
            self.net.tidy(id);
        }
    }

    fn answer_with_reset(&mut self, from: EndId) {
        let after_ns = self.latency_ns(from.other());
        self.dispatch(from.other(), Segment::Reset, after_ns);
    }

    /// Something about an end has changed: whoever holds it is told.
    pub(crate) fn touch(&mut self, id: EndId) {
        if let Owner::Client(client) = self.net.end(id).owner {
            self.notify(client);
        }
        for place in 0..self.net.end(id).watches.len() {
            let watch = self.net.end(id).watches[place];
            self.queue(watch);
            self.rouse(watch.poller);
        }
    }

    /// The two ends of a connection that are held by descriptors of a process, at once.
    pub(crate) fn hold(&mut self, id: EndId, process: u32) -> i32 {
        let descriptors = &mut self.processes[process as usize].descriptors;
        let fd = descriptors.insert(Object::End(id));
        self.net.end_mut(id).owner = Owner::Process(process, fd);
        fd
    }
}

impl Segment {
    /// For the record.
    fn number(self) -> u64 {
        match self {
            Self::Data(count) => u64::from(count) << 8,
            Self::End => 1,
            Self::Reset => 2,
            Self::HangUp(had_unread) => 3 + u64::from(had_unread),
            Self::Room => 5,
        }
    }
}
