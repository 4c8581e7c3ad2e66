//! Copying between streams.

use std::future::poll_fn;
use std::io;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use futures_io::{AsyncRead, AsyncWrite};

/// Maximum number of pieces that one poll copies in each direction before other tasks run.
const PIECES: usize = 64;

/// Size of the buffer of each direction.
const BUFFER: usize = 16 * 1024;

/// Copies in both directions until both streams have ended, and returns the number of bytes copied
/// from `a` to `b`, and from `b` to `a`.
///
/// When one stream ends, the other one is closed for writing, and the other direction goes on.
/// A stream is not read again until all bytes from its last read have been written to the other
/// stream.
///
/// # Errors
///
/// The first error of a stream. [`WriteZero`](io::ErrorKind::WriteZero) if a stream takes no byte.
///
/// ```
/// use evcore_async::{Runtime, TcpListener, TcpStream, copy_bidirectional, spawn_local};
///
/// Runtime::new()?.block_on(async {
///     let [near, far] = [TcpListener::bind("127.0.0.1:0")?, TcpListener::bind("127.0.0.1:0")?];
///     let client = TcpStream::connect(&near.local_addr()).await?;
///     let (mut downstream, _) = near.accept().await?;
///     let mut upstream = TcpStream::connect(&far.local_addr()).await?;
///     let (server, _) = far.accept().await?;
///     let proxy = spawn_local(async move { copy_bidirectional(&mut downstream, &mut upstream).await });
///
///     client.write_all(b"hello").await?;
///     drop(client);
///     let mut buffer = [0; 16];
///     assert_eq!(server.read(&mut buffer).await?, 5);
///     drop(server);
///     assert_eq!(proxy.await.unwrap()?, (5, 0));
///     Ok::<(), std::io::Error>(())
/// })??;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub async fn copy_bidirectional<A, B>(a: &mut A, b: &mut B) -> io::Result<(u64, u64)>
where
    A: AsyncRead + AsyncWrite + Unpin + ?Sized,
    B: AsyncRead + AsyncWrite + Unpin + ?Sized,
{
    let [mut there, mut back] = [Direction::new(), Direction::new()];
    poll_fn(|cx| {
        let there = there.poll(cx, a, b)?;
        let back = back.poll(cx, b, a)?;
        let copied = (ready!(there), ready!(back));
        Poll::Ready(Ok(copied))
    })
    .await
}

struct Direction {
    buffer: Box<[u8]>,
    /// The part of the buffer that was read and not written yet.
    held: std::ops::Range<usize>,
    copied: u64,
    /// True if bytes were written since the last flush.
    is_dirty: bool,
    stage: Stage,
}

#[derive(PartialEq)]
enum Stage {
    Copying,
    /// The reader has ended, and the writer is not closed yet.
    Closing,
    Closed,
}

impl Direction {
    fn new() -> Self {
        Self {
            buffer: vec![0; BUFFER].into(),
            held: 0..0,
            copied: 0,
            is_dirty: false,
            stage: Stage::Copying,
        }
    }

    fn poll<R, W>(
        &mut self,
        cx: &mut Context<'_>,
        reader: &mut R,
        writer: &mut W,
    ) -> Poll<io::Result<u64>>
    where
        R: AsyncRead + Unpin + ?Sized,
        W: AsyncWrite + Unpin + ?Sized,
    {
        let mut pieces = 0;
        while self.stage == Stage::Copying {
            if pieces == PIECES {
                cx.waker().wake_by_ref();
                return Poll::Pending;
            }
            pieces += 1;
            while !self.held.is_empty() {
                let bytes = &self.buffer[self.held.clone()];
                let sent = ready!(Pin::new(&mut *writer).poll_write(cx, bytes))?;
                if sent == 0 {
                    return Poll::Ready(Err(io::ErrorKind::WriteZero.into()));
                }
                self.held.start += sent;
                self.copied += sent as u64;
                self.is_dirty = true;
            }
            match Pin::new(&mut *reader).poll_read(cx, &mut self.buffer) {
                Poll::Ready(Ok(0)) => self.stage = Stage::Closing,
                Poll::Ready(received) => self.held = 0..received?,
                // The peer may wait for bytes that a writer has buffered.
                Poll::Pending if self.is_dirty => {
                    ready!(Pin::new(&mut *writer).poll_flush(cx))?;
                    self.is_dirty = false;
                    return Poll::Pending;
                }
                Poll::Pending => return Poll::Pending,
            }
        }
        if self.stage == Stage::Closing {
            ready!(Pin::new(writer).poll_close(cx))?;
            self.stage = Stage::Closed;
        }
        Poll::Ready(Ok(self.copied))
    }
}
