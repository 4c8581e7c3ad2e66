//! One endpoint of a connection: the bytes that it has received, and its answers to calls.
//!
//! An endpoint behaves like a TCP or Unix socket of Linux, with which `tests/like_sockets` compares
//! it. It does not send by itself: the code in `state` carries its effects to the other endpoint.

use std::{collections::VecDeque, io};

use evcore::Ready;

use super::Owner;
use crate::watch_id::WatchId;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Family {
    Tcp,
    Unix,
}

#[derive(Debug)]
pub(crate) struct Endpoint {
    pub(crate) family: Family,
    pub(crate) owner: Owner,
    /// Number of descriptors of this endpoint beyond the first, including descriptors under way in
    /// messages.
    pub(crate) duplicates: u32,
    pub(crate) watches: Vec<WatchId>,
    /// Maximum number of bytes that are in flight to this endpoint or unread here, together.
    pub(crate) capacity: usize,
    recv_buffer: VecDeque<u8>,
    pub(crate) in_flight: VecDeque<u8>,
    /// Number of bytes at the front of `in_flight` that a short read has put back. For the sender
    /// these bytes have already arrived.
    put_back: usize,
    // Invariant: the number of scheduled arrivals at this endpoint.
    pub(crate) segments_in_flight: u32,
    /// The time at which the last segment in flight arrives. No segment overtakes another.
    pub(crate) last_arrival_ns: u64,
    connecting: bool,
    /// True if the peer has shut down its sending half, or closed.
    read_closed: bool,
    /// True if this side has shut down its sending half, or closed.
    write_closed: bool,
    /// True after a reset, a failed connect, or the close of a Unix socket's peer.
    disconnected: bool,
    /// The pending error (`SO_ERROR`), reported once.
    error: Option<io::ErrorKind>,
}

impl Endpoint {
    pub(crate) fn new(family: Family, capacity: usize) -> Self {
        Self {
            family,
            owner: Owner::None,
            duplicates: 0,
            watches: Vec::new(),
            capacity,
            recv_buffer: VecDeque::new(),
            in_flight: VecDeque::new(),
            put_back: 0,
            segments_in_flight: 0,
            last_arrival_ns: 0,
            connecting: false,
            read_closed: false,
            write_closed: false,
            disconnected: false,
            error: None,
        }
    }

    /// Turns this into an endpoint of a new connection. The buffers keep their memory.
    pub(crate) fn reuse(&mut self, family: Family, capacity: usize) {
        let mut fresh = Self::new(family, capacity);
        for (kept, fresh) in [
            (&mut self.recv_buffer, &mut fresh.recv_buffer),
            (&mut self.in_flight, &mut fresh.in_flight),
        ] {
            kept.clear();
            std::mem::swap(kept, fresh);
        }
        *self = fresh;
    }

    pub(crate) fn is_open(&self) -> bool {
        self.owner != Owner::None
    }

    pub(crate) fn is_disconnected(&self) -> bool {
        self.disconnected
    }

    /// Returns whether no further bytes can arrive.
    pub(crate) fn is_read_side_done(&self) -> bool {
        self.read_closed || self.disconnected
    }

    /// Returns whether the connection is established, and was neither reset nor shut down from both
    /// sides.
    pub(crate) fn is_connected(&self) -> bool {
        let is_shut_down = self.read_closed && self.write_closed;
        !self.connecting && !self.disconnected && !is_shut_down
    }

    pub(crate) fn is_connecting(&self) -> bool {
        self.connecting
    }

    pub(crate) fn begin_connecting(&mut self) {
        self.connecting = true;
    }

    pub(crate) fn on_connected(&mut self) {
        self.connecting = false;
    }

    pub(crate) fn on_connect_failed(&mut self, error: io::ErrorKind) {
        (self.connecting, self.disconnected) = (false, true);
        self.error = Some(error);
    }

    pub(crate) fn unread(&self) -> usize {
        self.recv_buffer.len()
    }

    /// Returns whether the peer's send queue is empty. The queue of a TCP socket has the bytes that
    /// have not arrived here. The queue of a Unix socket also has the unread bytes.
    pub(crate) fn has_taken_all(&self) -> bool {
        let is_read = self.family == Family::Tcp || self.recv_buffer.is_empty();
        self.in_flight.len() == self.put_back && is_read
    }

    /// Number of bytes that the peer may send.
    pub(crate) fn free_space(&self) -> usize {
        self.capacity
            .saturating_sub(self.recv_buffer.len() + self.in_flight.len())
    }

    /// Returns whether the free space makes the peer writable.
    pub(crate) fn is_writable(&self) -> bool {
        self.free_space() >= self.capacity.div_ceil(3)
    }

    pub(crate) fn read(&mut self, buffer: &mut [u8], limit: usize) -> io::Result<usize> {
        let count = limit.min(buffer.len()).min(self.recv_buffer.len());
        if count > 0 {
            self.move_out(&mut buffer[..count]);
            return Ok(count);
        }
        if buffer.is_empty() && !self.recv_buffer.is_empty() {
            return Ok(0);
        }
        if self.family == Family::Tcp && self.read_closed {
            return Ok(0);
        }
        match self.take_error() {
            Some(error) => Err(error.into()),
            None if self.read_closed || self.disconnected => Ok(0),
            None => Err(io::ErrorKind::WouldBlock.into()),
        }
    }

    fn move_out(&mut self, buffer: &mut [u8]) {
        let (front, back) = self.recv_buffer.as_slices();
        let split = front.len().min(buffer.len());
        buffer[..split].copy_from_slice(&front[..split]);
        let rest = buffer.len() - split;
        buffer[split..].copy_from_slice(&back[..rest]);
        self.recv_buffer.drain(..buffer.len());
    }

    /// Fails if this side cannot send. A full buffer is not checked here.
    pub(crate) fn check_send(&mut self) -> io::Result<()> {
        if self.connecting {
            return Err(io::ErrorKind::WouldBlock.into());
        }
        if !self.write_closed && !self.disconnected {
            return Ok(());
        }
        let error = match self.family {
            Family::Tcp => self.take_error(),
            Family::Unix => None,
        };
        Err(error.unwrap_or(io::ErrorKind::BrokenPipe).into())
    }

    /// Shuts down the sending half. Returns whether the peer gets a [`Segment::Fin`].
    ///
    /// [`Segment::Fin`]: crate::event_queue::Segment::Fin
    pub(crate) fn shutdown_write(&mut self) -> io::Result<bool> {
        if !self.is_connected() && self.family == Family::Tcp {
            return Err(io::ErrorKind::NotConnected.into());
        }
        let is_first = !self.write_closed && !self.disconnected;
        self.write_closed = true;
        Ok(is_first)
    }

    pub(crate) fn take_error(&mut self) -> Option<io::ErrorKind> {
        self.error.take()
    }

    /// The readiness that a poller reports. The rules are those of Linux's `tcp_poll`.
    pub(crate) fn ready(&self, other: &Self) -> Ready {
        let mut ready = Ready::NONE;
        if self.connecting {
            return ready;
        }
        let reads_end = self.read_closed || self.disconnected;
        let writes_end = self.write_closed || self.disconnected;
        if reads_end && writes_end {
            ready |= Ready::WRITE_CLOSED;
        }
        if reads_end {
            ready |= Ready::READABLE | Ready::READ_CLOSED;
        }
        if !self.recv_buffer.is_empty() {
            ready |= Ready::READABLE;
        }
        if writes_end || other.is_writable() {
            ready |= Ready::WRITABLE;
        }
        if self.error.is_some() {
            ready |= Ready::ERROR;
        }
        ready
    }

    pub(crate) fn on_data(&mut self, count: usize) {
        self.put_back = self.put_back.saturating_sub(count);
        if self.in_flight.len() == count && self.recv_buffer.is_empty() {
            std::mem::swap(&mut self.in_flight, &mut self.recv_buffer);
        } else {
            let count = count.min(self.in_flight.len());
            self.recv_buffer.extend(self.in_flight.drain(..count));
        }
    }

    /// Drops data that arrives after the end of the connection.
    pub(crate) fn drop_data(&mut self, count: usize) {
        self.put_back = self.put_back.saturating_sub(count);
        self.in_flight.drain(..count.min(self.in_flight.len()));
    }

    /// Puts back in flight the bytes that a short read has not returned. Returns their number.
    pub(crate) fn unreceive(&mut self) -> usize {
        debug_assert!(self.in_flight.is_empty(), "no segment may overtake another");
        std::mem::swap(&mut self.in_flight, &mut self.recv_buffer);
        self.put_back = self.in_flight.len();
        self.put_back
    }

    pub(crate) fn on_fin(&mut self) {
        self.read_closed = true;
    }

    pub(crate) fn on_reset(&mut self) {
        if self.disconnected {
            return;
        }
        self.disconnected = true;
        self.error = Some(if self.read_closed {
            io::ErrorKind::BrokenPipe
        } else {
            io::ErrorKind::ConnectionReset
        });
    }

    /// Handles the close of a Unix socket's peer.
    pub(crate) fn on_hang_up(&mut self, had_unread: bool) {
        (self.read_closed, self.disconnected) = (true, true);
        if had_unread {
            self.error = Some(io::ErrorKind::ConnectionReset);
        }
    }

    pub(crate) fn close(&mut self) -> CloseNotice {
        let had_unread = !self.recv_buffer.is_empty() || self.put_back > 0;
        let notice = match self.family {
            Family::Unix => CloseNotice::HangUp(had_unread),
            Family::Tcp if !self.is_connected() => CloseNotice::None,
            Family::Tcp if had_unread => CloseNotice::Reset,
            Family::Tcp if self.write_closed => CloseNotice::None,
            Family::Tcp => CloseNotice::Fin,
        };
        self.owner = Owner::None;
        self.recv_buffer.clear();
        self.write_closed = true;
        notice
    }
}

/// The notice that the peer gets when an endpoint is closed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum CloseNotice {
    None,
    Fin,
    Reset,
    HangUp(bool),
}

#[cfg(test)]
mod tests {
    use super::*;
    use io::ErrorKind;

    fn endpoint_with(bytes: &[u8]) -> Endpoint {
        let mut end = Endpoint::new(Family::Tcp, 100);
        end.in_flight.extend(bytes);
        end.on_data(bytes.len());
        end
    }

    fn read(end: &mut Endpoint) -> Result<usize, ErrorKind> {
        end.read(&mut [0; 8], usize::MAX)
            .map_err(|error| error.kind())
    }

    #[test]
    fn received_data_comes_before_a_reset_which_comes_once() {
        let mut end = endpoint_with(b"abc");
        end.on_reset();
        assert_eq!(read(&mut end), Ok(3));
        assert_eq!(read(&mut end), Err(ErrorKind::ConnectionReset));
        assert_eq!(read(&mut end), Ok(0));
        assert_eq!(end.check_send().unwrap_err().kind(), ErrorKind::BrokenPipe);
    }

    #[test]
    fn a_reset_after_the_end_of_the_stream_breaks_the_pipe() {
        let mut end = endpoint_with(b"");
        end.on_fin();
        end.on_reset();
        assert_eq!(read(&mut end), Ok(0));
        assert_eq!(end.check_send().unwrap_err().kind(), ErrorKind::BrokenPipe);
    }

    #[test]
    fn a_failed_connect_is_reported_once() {
        let (mut end, other) = (endpoint_with(b""), endpoint_with(b""));
        end.begin_connecting();
        assert_eq!(end.ready(&other), Ready::NONE);
        assert_eq!(end.check_send().unwrap_err().kind(), ErrorKind::WouldBlock);
        assert_eq!(read(&mut end), Err(ErrorKind::WouldBlock));
        end.on_connect_failed(ErrorKind::ConnectionRefused);
        assert!(end.ready(&other).is_writable() && end.ready(&other).is_error());
        assert_eq!(end.take_error(), Some(ErrorKind::ConnectionRefused));
        assert_eq!(end.check_send().unwrap_err().kind(), ErrorKind::BrokenPipe);
    }

    #[test]
    fn a_close_with_unread_bytes_is_a_reset() {
        assert_eq!(endpoint_with(b"abc").close(), CloseNotice::Reset);
        assert_eq!(endpoint_with(b"").close(), CloseNotice::Fin);
        let mut finished = endpoint_with(b"");
        assert!(finished.shutdown_write().unwrap());
        assert_eq!(finished.close(), CloseNotice::None);
    }

    #[test]
    fn bytes_keep_their_order_across_pieces() {
        let mut end = Endpoint::new(Family::Tcp, 100);
        let mut seen = Vec::new();
        for piece in ["ab", "cde", "f"] {
            end.in_flight.extend(piece.as_bytes());
        }
        for count in [1, 4, 1] {
            end.on_data(count);
            let mut buffer = [0; 2];
            let n = end.read(&mut buffer, 2).unwrap();
            seen.extend_from_slice(&buffer[..n]);
        }
        let mut buffer = [0];
        while let Ok(1) = end.read(&mut buffer, 1) {
            seen.push(buffer[0]);
        }
        assert_eq!(seen, b"abcdef");
    }

    #[test]
    fn a_send_queue_is_empty_after_a_read_or_on_tcp_after_arrival() {
        for (family, takes_unread) in [(Family::Tcp, true), (Family::Unix, false)] {
            let mut end = Endpoint::new(family, 100);
            assert!(end.has_taken_all());
            end.in_flight.extend(b"abc");
            assert!(!end.has_taken_all());
            end.on_data(3);
            assert_eq!(end.has_taken_all(), takes_unread);
            read(&mut end).unwrap();
            assert!(end.has_taken_all());
        }
    }

    #[test]
    fn free_space_excludes_unread_bytes_and_bytes_in_flight() {
        let mut end = endpoint_with(&[0; 60]);
        end.in_flight.extend([0; 10]);
        assert_eq!(end.free_space(), 30);
        assert!(!end.is_writable());
        read(&mut end).unwrap();
        assert!(end.is_writable());
    }
}
