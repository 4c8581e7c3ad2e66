//! The parts of a runtime that hyper needs: streams, a timer and an executor.
//!
//! [`Stream`] implements hyper's traits of a connection. [`LoopTimer`] and [`LocalExecutor`] are
//! for hyper's builders. The example `hyper_hello` is a server.

use std::future::Future;
use std::io;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::{Duration, Instant};

use evcore::Transport;
use evcore::poller::Source;
use hyper::rt::{Executor, Read, ReadBufCursor, Timer, Write};
use send_wrapper::SendWrapper;

use crate::sleep::{Sleep, now, sleep, sleep_until};
use crate::spawn::try_spawn_local;
use crate::stream::Stream;

impl<S: Transport + Source> Read for Stream<S> {
    fn poll_read(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        mut buffer: ReadBufCursor<'_>,
    ) -> Poll<io::Result<()>> {
        // Receiving into the cursor itself would need an unsafe call, so the bytes are copied.
        let mut scratch = self.scratch();
        let wanted = buffer.remaining().min(scratch.len());
        let received = Self::poll_read(&self, cx, &mut scratch[..wanted]);
        if let Poll::Ready(Ok(received)) = received {
            buffer.put_slice(&scratch[..received]);
        }
        self.keep_scratch(scratch);
        received.map_ok(drop)
    }
}

impl<S: Transport + Source> Write for Stream<S> {
    fn poll_write(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        Self::poll_write(&self, cx, bytes)
    }

    fn is_write_vectored(&self) -> bool {
        true
    }

    fn poll_write_vectored(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buffers: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        Self::poll_write_vectored(&self, cx, buffers)
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

/// A timer for hyper that uses the loop's clock and timers.
///
/// ```
/// use evcore_async::hyper::LoopTimer;
/// use hyper::server::conn::http1;
///
/// let mut builder = http1::Builder::new();
/// builder.timer(LoopTimer);
/// ```
#[derive(Clone, Copy, Debug, Default)]
pub struct LoopTimer;

impl Timer for LoopTimer {
    fn sleep(&self, time: Duration) -> Pin<Box<dyn hyper::rt::Sleep>> {
        Box::pin(LoopSleep(SendWrapper::new(sleep(time))))
    }

    fn sleep_until(&self, deadline: Instant) -> Pin<Box<dyn hyper::rt::Sleep>> {
        Box::pin(LoopSleep(SendWrapper::new(sleep_until(deadline))))
    }

    fn now(&self) -> Instant {
        now()
    }

    fn reset(&self, sleep: &mut Pin<Box<dyn hyper::rt::Sleep>>, deadline: Instant) {
        match sleep.as_mut().downcast_mut_pin::<LoopSleep>() {
            Some(sleep) => sleep.get_mut().0.reset(deadline),
            None => *sleep = self.sleep_until(deadline),
        }
    }
}

/// A sleep for hyper, whose sleeps must be `Send`. hyper uses a sleep on the thread of its
/// connection. On another thread, the wrapper panics.
struct LoopSleep(SendWrapper<Sleep>);

impl Future for LoopSleep {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<()> {
        Pin::new(&mut *self.0).poll(cx)
    }
}

impl hyper::rt::Sleep for LoopSleep {}

/// An executor for hyper that spawns each future as a task.
///
/// The future is dropped if the executor has reached its
/// [limit](crate::Executor::set_tasks_max) of tasks. It is also dropped if no token of the loop is
/// free. On a server, this resets the HTTP/2 stream.
#[derive(Clone, Copy, Debug, Default)]
pub struct LocalExecutor;

impl<F: Future<Output: 'static> + 'static> Executor<F> for LocalExecutor {
    fn execute(&self, future: F) {
        drop(try_spawn_local(future));
    }
}
