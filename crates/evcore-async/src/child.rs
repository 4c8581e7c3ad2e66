//! A child process, and a future that waits for its end.

use std::io;
use std::process::{self, Command, ExitStatus};
use std::time::Duration;

use signal_hook::consts::SIGCHLD;

use crate::signals::Signals;
use crate::timeout::timeout;

/// Interval at which the status of a child is read even if no signal comes.
const WITHOUT_SIGNAL: Duration = Duration::from_secs(1);

/// A child process, which keeps running when this value is dropped, like a child of the standard
/// library.
///
/// [`get_mut`](Self::get_mut) returns the [`std::process::Child`], which has the pipes.
/// [`Watched`](crate::Watched) waits for a non-blocking pipe. A job of a
/// [`BlockingPool`](crate::BlockingPool) can read a blocking pipe.
///
/// ```
/// use evcore_async::{Child, Runtime};
/// use std::process::Command;
///
/// let status = Runtime::new()?.block_on(async {
///     let mut child = Child::spawn(Command::new("sh").args(["-c", "exit 3"]))?;
///     child.wait().await
/// })??;
/// assert_eq!(status.code(), Some(3));
/// # Ok::<(), std::io::Error>(())
/// ```
#[derive(Debug)]
pub struct Child {
    child: process::Child,
    /// SIGCHLD, which reports the end of any child.
    ended: Signals,
}

impl Child {
    /// Starts a child process.
    ///
    /// # Errors
    ///
    /// The errors of [`Command::spawn`] and of [`Signals::new`].
    ///
    /// # Panics
    ///
    /// Outside a runtime.
    pub fn spawn(command: &mut Command) -> io::Result<Self> {
        let ended = Signals::new(SIGCHLD)?; // registered before the child can end
        let child = command.spawn()?;
        Ok(Self { child, ended })
    }

    /// Closes the child's standard input, and waits until the child ends. A later call returns the
    /// same status.
    ///
    /// # Errors
    ///
    /// The errors of [`std::process::Child::try_wait`].
    ///
    /// # Panics
    ///
    /// If the child runs, and the call is made outside the runtime in which the child was started.
    pub async fn wait(&mut self) -> io::Result<ExitStatus> {
        drop(self.child.stdin.take());
        loop {
            if let Some(status) = self.child.try_wait()? {
                return Ok(status);
            }
            // A shutdown waits for a sleep but not for a signal. So the timeout, which is a sleep,
            // makes a shutdown wait for the child. The timeout is short, because the signal does
            // not come if the process blocks it, or if other code has replaced its handler.
            let _ = timeout(WITHOUT_SIGNAL, self.ended.recv()).await;
        }
    }

    /// Returns the standard library's child, for its pipes, or to kill the process.
    pub fn get_mut(&mut self) -> &mut process::Child {
        &mut self.child
    }
}
