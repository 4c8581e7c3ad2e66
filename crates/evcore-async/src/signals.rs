//! Signals of the process.

use std::ffi::c_int;
use std::fmt;
use std::future::poll_fn;
use std::io;
use std::os::unix::net::UnixStream;
use std::task::{Poll, ready};

use signal_hook::SigId;
use signal_hook::consts::FORBIDDEN;
use signal_hook::low_level::{pipe, unregister};

use crate::registration::Registration;
use crate::slot::{Event, Signal, Slot};

/// Receives a signal of this process until the value is dropped. Several values may receive the
/// same signal.
///
/// A shutdown of the loop does not wait for a `Signals`, and the loop's limit of connections does
/// not count it. After the drop, the signal does not get back its default action, because the
/// signal handler stays installed.
///
/// ```
/// use evcore_async::{Runtime, Signals};
/// use signal_hook::{consts::SIGHUP, low_level::raise};
///
/// Runtime::new()?.block_on(async {
///     let reload = Signals::new(SIGHUP)?;
///     raise(SIGHUP)?; // `kill -HUP`
///     reload.recv().await;
///     Ok::<(), std::io::Error>(())
/// })??;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct Signals {
    registration: Registration,
    handler: SigId,
}

impl Signals {
    /// Begins to receive a signal, by its number. The crates `signal-hook` and `libc` name the
    /// numbers.
    ///
    /// # Errors
    ///
    /// [`InvalidInput`](io::ErrorKind::InvalidInput) for a signal that no program should handle,
    /// such as SIGKILL or SIGSEGV. The errors of the system.
    ///
    /// # Panics
    ///
    /// Outside a runtime.
    pub fn new(signal: c_int) -> io::Result<Self> {
        if FORBIDDEN.contains(&signal) {
            let reason = format!("a program cannot handle signal {signal} and go on");
            return Err(io::Error::new(io::ErrorKind::InvalidInput, reason));
        }
        let (receiver, sender) = UnixStream::pair()?;
        receiver.set_nonblocking(true)?;
        let slot = |receiver| {
            let event = Event::default();
            Slot::Signal(Signal { receiver, event })
        };
        Ok(Self {
            registration: Registration::new_background(receiver, slot)?,
            handler: pipe::register(signal, sender)?,
        })
    }

    /// Waits for the signal. Several signals since the last call count as one.
    ///
    /// One task at a time may wait. If two tasks wait, only the later one is woken; give each task
    /// its own `Signals`.
    ///
    /// # Panics
    ///
    /// Outside the runtime in which these `Signals` were created.
    pub async fn recv(&self) {
        poll_fn(|cx| {
            ready!(self.registration.poll_event(cx));
            self.registration.with_slot(|slot| {
                if let Slot::Signal(signal) = slot {
                    signal.event.has_happened = false;
                }
            });
            Poll::Ready(())
        })
        .await;
    }
}

impl Drop for Signals {
    fn drop(&mut self) {
        unregister(self.handler);
    }
}

impl fmt::Debug for Signals {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Signals").field(&self.handler).finish()
    }
}
