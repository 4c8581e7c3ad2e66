//! An adapter through which an edge-triggered stream implements the standard library's `Read` and
//! `Write`.

use std::fmt;
use std::io::{self, IoSlice, Read, Write};

use crate::edge_stream::{EdgeLoop, EdgeStream};
use crate::transport::Transport;

/// An [`EdgeStream`] with its loop, as [`Read`] and [`Write`]. [`EdgeStream::io`] returns it.
///
/// It fails with [`WouldBlock`](io::ErrorKind::WouldBlock) as the stream does, so a library that
/// works with a non-blocking socket works with it.
pub struct EdgeIo<'a, S, T, E> {
    stream: &'a mut EdgeStream<S, T>,
    ev: &'a mut E,
}

impl<S: Transport, T: Copy> EdgeStream<S, T> {
    /// Borrows the stream as [`Read`] and [`Write`], for a library that reads and writes through
    /// these, such as one for TLS, WebSocket or SSH. Their methods call [`recv`](Self::recv),
    /// [`send`](Self::send) and [`send_vectored`](Self::send_vectored). Nothing is buffered.
    #[inline]
    pub fn io<'a, E: EdgeLoop<Token = T>>(&'a mut self, ev: &'a mut E) -> EdgeIo<'a, S, T, E> {
        EdgeIo { stream: self, ev }
    }
}

impl<S: Transport, E: EdgeLoop> Read for EdgeIo<'_, S, E::Token, E> {
    #[inline]
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        self.stream.recv(self.ev, buffer)
    }
}

impl<S: Transport, E: EdgeLoop> Write for EdgeIo<'_, S, E::Token, E> {
    #[inline]
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.stream.send(self.ev, bytes)
    }

    fn write_vectored(&mut self, buffers: &[IoSlice<'_>]) -> io::Result<usize> {
        self.stream.send_vectored(self.ev, buffers)
    }

    /// Does nothing, because nothing is buffered.
    #[inline]
    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl<S: fmt::Debug, T: fmt::Debug, E> fmt::Debug for EdgeIo<'_, S, T, E> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("EdgeIo").field(&self.stream).finish()
    }
}
