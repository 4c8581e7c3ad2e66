//! tokio's stream traits, implemented for [`Stream`].

use std::io;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use evcore::Transport;
use evcore::poller::Source;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

use crate::stream::Stream;

impl<S: Transport + Source> AsyncRead for Stream<S> {
    fn poll_read(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let received = ready!(Self::poll_read(&self, cx, buffer.initialize_unfilled()))?;
        buffer.advance(received);
        Poll::Ready(Ok(()))
    }
}

impl<S: Transport + Source> AsyncWrite for Stream<S> {
    fn poll_write(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        Self::poll_write(&self, cx, bytes)
    }

    fn poll_write_vectored(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buffers: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        Self::poll_write_vectored(&self, cx, buffers)
    }

    fn is_write_vectored(&self) -> bool {
        true
    }

    /// Does nothing, because nothing is buffered.
    fn poll_flush(self: Pin<&mut Self>, _cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    /// Ends the sending side.
    fn poll_shutdown(self: Pin<&mut Self>, _cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(self.close())
    }
}
