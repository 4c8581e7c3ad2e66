//! A middleware between hyper and its streams, and the bugs that can be planted in it.

use std::{
    future::Future,
    io,
    pin::Pin,
    task::{Context, Poll, ready},
    time::Duration,
};

use evcore::{Transport, poller::Source};
use evcore_async::{Sleep, Stream, now, sleep, timeout};
use http_body_util::BodyExt;
use hyper::{
    body::{Bytes, Incoming},
    rt::{Read, ReadBufCursor, Write},
};

#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Bug {
    /// After a partial write, nothing wakes the task for the rest.
    LostWake,
    /// The timer of an idle connection is not moved when the client sends something.
    TimerNotReset,
    /// The received part of a body is kept in a future, which a timeout drops.
    BodyForgotten,
}

/// A stream that writes each buffer as a whole, and fails after an idle time of [`IDLE_MAX`].
pub(crate) struct Middleware<S: 'static> {
    stream: Stream<S>,
    bug: Option<Bug>,
    idle: Sleep,
    /// Number of bytes of the present buffer that are written.
    written: usize,
}

/// The idle time after which a stream fails. It is longer than the pauses of a client and the
/// delays of the network together, and shorter than the life of some connections.
const IDLE_MAX: Duration = Duration::from_secs(12);

impl<S> Middleware<S> {
    pub(crate) fn new(stream: Stream<S>, bug: Option<Bug>) -> Self {
        Self {
            stream,
            bug,
            idle: sleep(IDLE_MAX),
            written: 0,
        }
    }
}

impl<S: Transport + Source + Unpin> Read for Middleware<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buffer: ReadBufCursor<'_>,
    ) -> Poll<io::Result<()>> {
        let this = &mut *self;
        let received = Read::poll_read(Pin::new(&mut this.stream), cx, buffer);
        if received.is_ready() {
            if this.bug != Some(Bug::TimerNotReset) {
                this.idle.reset(now() + IDLE_MAX);
            }
            return received;
        }
        Pin::new(&mut this.idle)
            .poll(cx)
            .map(|()| Err(io::ErrorKind::TimedOut.into()))
    }
}

impl<S: Transport + Source + Unpin> Write for Middleware<S> {
    fn poll_write(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        while self.written < bytes.len() {
            let rest = &bytes[self.written..];
            self.written += ready!(self.stream.poll_write(cx, rest))?;
            if self.bug == Some(Bug::LostWake) && self.written < bytes.len() {
                return Poll::Pending;
            }
        }
        self.written = 0;
        Poll::Ready(Ok(bytes.len()))
    }

    fn poll_flush(self: Pin<&mut Self>, _cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Write::poll_shutdown(Pin::new(&mut self.stream), cx)
    }
}

/// The interval at which a server looks at a body that arrives slowly, for example to log it.
const LOOK: Duration = Duration::from_millis(50);

pub(crate) async fn collect(mut body: Incoming, bug: Option<Bug>) -> Result<Bytes, hyper::Error> {
    let mut kept = Vec::new();
    loop {
        let received = if bug == Some(Bug::BodyForgotten) {
            // The future owns the bytes, so the timeout drops them.
            timeout(LOOK, async {
                let mut all = Vec::new();
                receive(&mut body, &mut all).await?;
                Ok(all)
            })
            .await
            .map(|all| all.map(|all| kept = all))
        } else {
            timeout(LOOK, receive(&mut body, &mut kept)).await
        };
        if let Ok(received) = received {
            return received.map(|()| kept.into());
        }
    }
}

async fn receive(body: &mut Incoming, to: &mut Vec<u8>) -> Result<(), hyper::Error> {
    while let Some(frame) = body.frame().await {
        if let Some(data) = frame?.data_ref() {
            to.extend_from_slice(data);
        }
    }
    Ok(())
}
