//! An edge stream as the standard library's `Read` and `Write`.

use std::fmt;
use std::io::{self, IoSlice, Read, Write};

use evcore_net::Transport;

use crate::acceptor::Acceptor;
use crate::edge_stream::EdgeStream;
use crate::event_loop::EventLoop;

/// An [`EdgeStream`] with its loop, as [`Read`] and [`Write`]. [`EdgeStream::io`] returns it.
///
/// It fails with [`WouldBlock`](io::ErrorKind::WouldBlock) as the stream does, so a library that
/// works with a non-blocking socket works with it.
pub struct EdgeIo<'a, S, L: Acceptor> {
    stream: &'a mut EdgeStream<S>,
    ev: &'a mut EventLoop<L>,
}

impl<'a, S, L: Acceptor> EdgeIo<'a, S, L> {
    #[inline]
    pub(crate) fn new(stream: &'a mut EdgeStream<S>, ev: &'a mut EventLoop<L>) -> Self {
        Self { stream, ev }
    }
}

impl<S: Transport, L: Acceptor> Read for EdgeIo<'_, S, L> {
    #[inline]
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        self.stream.recv(self.ev, buffer)
    }
}

impl<S: Transport, L: Acceptor> Write for EdgeIo<'_, S, L> {
    #[inline]
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.stream.send(self.ev, bytes)
    }

    fn write_vectored(&mut self, buffers: &[IoSlice<'_>]) -> io::Result<usize> {
        self.stream.send_vectored(self.ev, buffers)
    }

    /// Does nothing: nothing is buffered.
    #[inline]
    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl<S: fmt::Debug, L: Acceptor> fmt::Debug for EdgeIo<'_, S, L> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("EdgeIo").field(&self.stream).finish()
    }
}
