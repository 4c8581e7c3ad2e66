//! One end of a connection: what has arrived, what it was told, and what it says when asked.
//!
//! It does as Linux does, TCP or Unix sockets: `tests/like_sockets.rs` runs one script on both.
//! Nothing is sent from here: what one end does to the other is the network's affair.

use std::{collections::VecDeque, io};

use evcore::Ready;

use super::Owner;
use crate::poll::WatchId;

/// Whose ways a connection has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Family {
    Tcp,
    Unix,
}

/// One end.
#[derive(Debug)]
pub(crate) struct End {
    pub(crate) family: Family,
    /// Who holds it.
    pub(crate) owner: Owner,
    /// The pollers that watch it.
    pub(crate) watches: Vec<WatchId>,
    /// How many bytes may be under way to here, or lie here.
    pub(crate) capacity: usize,
    /// Arrived, and not yet read.
    inbox: VecDeque<u8>,
    /// Sent, and not yet arrived.
    pub(crate) wire: VecDeque<u8>,
    /// What is under way to here, bytes or not.
    // Invariant: how many arrivals at this end the agenda holds.
    pub(crate) under_way: u32,
    /// When the last of it arrives: nothing overtakes.
    pub(crate) last_arrival_ns: u64,
    /// The other side has said that it sends no more.
    ended: bool,
    /// This side has said so.
    finished: bool,
    /// The connection is no more.
    broken: bool,
    /// What is to be told of that, once.
    error: Option<io::ErrorKind>,
}

impl End {
    pub(crate) fn new(family: Family, capacity: usize) -> Self {
        Self {
            family,
            owner: Owner::Nobody,
            watches: Vec::new(),
            capacity,
            inbox: VecDeque::new(),
            wire: VecDeque::new(),
            under_way: 0,
            last_arrival_ns: 0,
            ended: false,
            finished: false,
            broken: false,
            error: None,
        }
    }

    /// The same place for another connection; its memory is kept.
    pub(crate) fn renew(&mut self, family: Family, capacity: usize) {
        let mut fresh = Self::new(family, capacity);
        for (kept, fresh) in [
            (&mut self.inbox, &mut fresh.inbox),
            (&mut self.wire, &mut fresh.wire),
        ] {
            kept.clear();
            std::mem::swap(kept, fresh);
        }
        *self = fresh;
    }

    pub(crate) fn is_open(&self) -> bool {
        self.owner != Owner::Nobody
    }

    pub(crate) fn is_broken(&self) -> bool {
        self.broken
    }

    /// Whether all that will ever be read is here.
    pub(crate) fn is_over(&self) -> bool {
        self.ended || self.broken
    }

    /// Whether there is still something to reset: not where both sides have said their last.
    pub(crate) fn lasts(&self) -> bool {
        let both_are_over = self.ended && self.finished;
        !self.broken && !both_are_over
    }

    /// How many bytes can be read.
    pub(crate) fn unread(&self) -> usize {
        self.inbox.len()
    }

    /// How many bytes the other side may still send.
    pub(crate) fn room(&self) -> usize {
        self.capacity
            .saturating_sub(self.inbox.len() + self.wire.len())
    }

    /// Whether there is so much room that a sender who waits for it is told.
    pub(crate) fn is_roomy(&self) -> bool {
        self.room() >= self.capacity.div_ceil(3)
    }

    /// Reads what has arrived, at most `most` bytes of it.
    pub(crate) fn read(&mut self, buffer: &mut [u8], most: usize) -> io::Result<usize> {
        let count = most.min(buffer.len()).min(self.inbox.len());
        if count > 0 {
            self.move_out(&mut buffer[..count]);
            return Ok(count);
        }
        if buffer.is_empty() && !self.inbox.is_empty() {
            return Ok(0);
        }
        if self.family == Family::Tcp && self.ended {
            return Ok(0);
        }
        match self.take_error() {
            Some(error) => Err(error.into()),
            None if self.ended || self.broken => Ok(0),
            None => Err(io::ErrorKind::WouldBlock.into()),
        }
    }

    fn move_out(&mut self, buffer: &mut [u8]) {
        let (front, back) = self.inbox.as_slices();
        let split = front.len().min(buffer.len());
        buffer[..split].copy_from_slice(&front[..split]);
        let rest = buffer.len() - split;
        buffer[split..].copy_from_slice(&back[..rest]);
        self.inbox.drain(..buffer.len());
    }

    /// Whether this side may send, whatever the room.
    pub(crate) fn check_sending(&mut self) -> io::Result<()> {
        if !self.finished && !self.broken {
            return Ok(());
        }
        let told = match self.family {
            Family::Tcp => self.take_error(),
            Family::Unix => None,
        };
        Err(told.unwrap_or(io::ErrorKind::BrokenPipe).into())
    }

    /// This side sends no more. Returns whether the other is to be told.
    pub(crate) fn finish(&mut self) -> io::Result<bool> {
        if !self.lasts() && self.family == Family::Tcp {
            return Err(io::ErrorKind::NotConnected.into());
        }
        let tells = !self.finished && !self.broken;
        self.finished = true;
        Ok(tells)
    }

    pub(crate) fn take_error(&mut self) -> Option<io::ErrorKind> {
        self.error.take()
    }

    /// What a poller is told, as of Linux's `tcp_poll`.
    pub(crate) fn ready(&self, other: &Self) -> Ready {
        let mut ready = Ready::NONE;
        let (reads_end, writes_end) = (self.ended || self.broken, self.finished || self.broken);
        if reads_end && writes_end {
            ready |= Ready::WRITE_CLOSED;
        }
        if reads_end {
            ready |= Ready::READABLE | Ready::READ_CLOSED;
        }
        if !self.inbox.is_empty() {
            ready |= Ready::READABLE;
        }
        if writes_end || other.is_roomy() {
            ready |= Ready::WRITABLE;
        }
        if self.error.is_some() {
            ready |= Ready::ERROR;
        }
        ready
    }

    /// Bytes have arrived.
    pub(crate) fn arrive(&mut self, count: usize) {
        if self.wire.len() == count && self.inbox.is_empty() {
            std::mem::swap(&mut self.wire, &mut self.inbox);
        } else {
            let count = count.min(self.wire.len());
            self.inbox.extend(self.wire.drain(..count));
        }
    }

    /// What has arrived has not, after all, but will: for a read that found a part of it.
    pub(crate) fn send_back(&mut self) -> usize {
        debug_assert!(self.wire.is_empty(), "nothing may overtake");
        std::mem::swap(&mut self.wire, &mut self.inbox);
        self.wire.len()
    }

    /// The other side sends no more.
    pub(crate) fn end(&mut self) {
        self.ended = true;
    }

    /// The connection was reset.
    pub(crate) fn break_off(&mut self) {
        if self.broken {
            return;
        }
        self.broken = true;
        self.error = Some(if self.ended {
            io::ErrorKind::BrokenPipe
        } else {
            io::ErrorKind::ConnectionReset
        });
    }

    /// The other side has closed, and had left something unread or not.
    pub(crate) fn hang_up(&mut self, had_unread: bool) {
        (self.ended, self.broken) = (true, true);
        if had_unread {
            self.error = Some(io::ErrorKind::ConnectionReset);
        }
    }

    /// Nobody holds it any more. Returns what the other side is to be told.
    pub(crate) fn close(&mut self) -> Farewell {
        let had_unread = !self.inbox.is_empty();
        let farewell = match self.family {
            Family::Unix => Farewell::HangUp(had_unread),
            Family::Tcp if !self.lasts() => Farewell::None,
            Family::Tcp if had_unread => Farewell::Reset,
            Family::Tcp if self.finished => Farewell::None,
            Family::Tcp => Farewell::End,
        };
        self.owner = Owner::Nobody;
        self.inbox.clear();
        self.finished = true;
        farewell
    }
}

/// What the other side hears of a close.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Farewell {
    /// Nothing new.
    None,
    End,
    Reset,
    HangUp(bool),
}

#[cfg(test)]
mod tests {
    use super::*;
    use io::ErrorKind;

    fn end_with(bytes: &[u8]) -> End {
        let mut end = End::new(Family::Tcp, 100);
        end.wire.extend(bytes);
        end.arrive(bytes.len());
        end
    }

    fn read(end: &mut End) -> Result<usize, ErrorKind> {
        end.read(&mut [0; 8], usize::MAX)
            .map_err(|error| error.kind())
    }

    #[test]
    fn what_has_arrived_comes_before_a_reset_and_a_reset_once() {
        let mut end = end_with(b"abc");
        end.break_off();
        assert_eq!(read(&mut end), Ok(3));
        assert_eq!(read(&mut end), Err(ErrorKind::ConnectionReset));
        assert_eq!(read(&mut end), Ok(0));
        assert_eq!(
            end.check_sending().unwrap_err().kind(),
            ErrorKind::BrokenPipe
        );
    }

    #[test]
    fn after_the_end_a_reset_is_a_broken_pipe_for_who_sends() {
        let mut end = end_with(b"");
        end.end();
        end.break_off();
        assert_eq!(read(&mut end), Ok(0));
        assert_eq!(
            end.check_sending().unwrap_err().kind(),
            ErrorKind::BrokenPipe
        );
    }

    #[test]
    fn a_close_with_unread_bytes_is_a_reset() {
        assert_eq!(end_with(b"abc").close(), Farewell::Reset);
        assert_eq!(end_with(b"").close(), Farewell::End);
        let mut finished = end_with(b"");
        assert!(finished.finish().unwrap());
        assert_eq!(finished.close(), Farewell::None);
    }

    #[test]
    fn bytes_come_in_their_order_whatever_the_pieces() {
        let mut end = End::new(Family::Tcp, 100);
        let mut seen = Vec::new();
        for piece in ["ab", "cde", "f"] {
            end.wire.extend(piece.as_bytes());
        }
        for count in [1, 4, 1] {
            end.arrive(count);
            let mut buffer = [0; 2];
            let n = end.read(&mut buffer, 2).unwrap();
            seen.extend_from_slice(&buffer[..n]);
        }
        while let Ok(n @ 1..) = end.read(&mut [0], 1) {
            seen.push(b'f');
            assert_eq!(n, 1);
        }
        assert_eq!(seen.len(), 6);
        assert_eq!(&seen[..5], b"abcde");
    }

    #[test]
    fn room_is_what_neither_lies_here_nor_is_under_way() {
        let mut end = end_with(&[0; 60]);
        end.wire.extend([0; 10]);
        assert_eq!(end.room(), 30);
        assert!(!end.is_roomy());
        read(&mut end).unwrap();
        assert!(end.is_roomy());
    }
}
