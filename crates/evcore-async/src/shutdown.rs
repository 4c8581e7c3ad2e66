//! A shutdown that tasks await, and the loop's handle.

use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll};

use evcore::Handle;

use crate::context;
use crate::registration::Registration;
use crate::shared::Shared;
use crate::slot::{Event, Slot};

/// Waits until a [shutdown](evcore::EventLoop::shutdown) of the loop begins. A task of a server
/// should then finish its present work, and end.
///
/// The shutdown is complete when its timeout has passed, or when no work is left. A watched
/// descriptor is work (except those of [`Signals`](crate::Signals)), and so is a task that is due,
/// that sleeps, or that waits for a [`BlockingPool`](crate::BlockingPool) or a
/// [`Child`](crate::Child). So a task that accepts clients should drop its listener. The shutdown
/// does not wait for tasks that only another thread or a signal can wake.
///
/// ```
/// use evcore_async::{Runtime, handle, shutting_down, spawn_local};
/// use std::time::Duration;
///
/// Runtime::new()?.block_on(async {
///     let task = spawn_local(async {
///         shutting_down().await;
///         "good-bye"
///     });
///     handle().shutdown(Duration::from_secs(30)); // from any thread
///     assert_eq!(task.await.unwrap(), "good-bye");
/// })?;
/// # Ok::<(), evcore_async::Error>(())
/// ```
///
/// When a shutdown begins, a server stops accepting. Its future then waits without end, so that
/// `block_on` runs the tasks of the clients until the shutdown is complete:
///
/// ```
/// use evcore_async::{Error, Runtime, TcpListener, TcpStream, handle, shutting_down, spawn_local};
/// use futures_lite::future::or;
/// use std::{future::pending, io, time::Duration};
///
/// async fn greet(stream: TcpStream) -> io::Result<()> {
///     stream.write_all(b"hello\n").await
/// }
///
/// async fn accept(listener: TcpListener) -> io::Result<()> {
///     loop {
///         let (stream, _peer) = listener.accept().await?;
///         drop(spawn_local(greet(stream)));
///     }
/// }
///
/// let mut runtime = Runtime::new()?;
/// let stopped = runtime.block_on(async {
///     let listener = TcpListener::bind("127.0.0.1:0")?;
///     handle().shutdown(Duration::from_secs(30)); // a program does this at a signal
///     let stops = async { Ok(shutting_down().await) };
///     or(accept(listener), stops).await?; // drops the listener
///     pending::<io::Result<()>>().await
/// });
/// assert!(matches!(stopped, Err(Error::ShutDown)), "all clients have ended");
/// # Ok::<(), Error>(())
/// ```
///
/// # Panics
///
/// A poll outside a runtime panics. So does a poll in another runtime than that of the first poll,
/// unless this other runtime is shutting down.
pub fn shutting_down() -> ShuttingDown {
    ShuttingDown { registration: None }
}

/// Returns whether a shutdown of the loop has begun. A server should then answer a request as the
/// last one of its connection.
///
/// # Panics
///
/// Outside a runtime.
#[must_use]
pub fn is_shutting_down() -> bool {
    context::with(|lent| lent.is_shutting_down())
}

/// Returns the handle of the loop, by which other threads wake the loop or shut it down.
///
/// # Panics
///
/// Outside a runtime.
#[must_use]
pub fn handle() -> Handle {
    Shared::current().handle().clone()
}

/// A future that ends when a shutdown of the loop begins. [`shutting_down`] returns it.
#[must_use = "a future does nothing unless it is polled"]
pub struct ShuttingDown {
    /// `None` before the first poll, and if the shutdown had begun by then.
    registration: Option<Registration>,
}

impl Future for ShuttingDown {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<()> {
        if is_shutting_down() {
            return Poll::Ready(());
        }
        // The token of this future counts as work. A loop without work ends its shutdown at once,
        // and would not return the step that wakes this future.
        let begin = || Registration::new_work(Slot::Shutdown(Event::default()));
        self.registration.get_or_insert_with(begin).poll_event(cx)
    }
}

impl fmt::Debug for ShuttingDown {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ShuttingDown").finish_non_exhaustive()
    }
}
