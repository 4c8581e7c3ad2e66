//! A descriptor that is kept for the moment when there is no other.
//!
//! A client that cannot be accepted waits in the backlog, perhaps for ever, and does not learn why.
//! With the descriptor that is set aside here one can be accepted all the same, and closed at once:
//! it then knows, and can ask elsewhere.
//!
//! Who is told how often is not decided here: see [`Backoff`](crate::Backoff).

use std::os::fd::OwnedFd;

use crate::sys;

/// A descriptor set aside, to be given up for one accept.
///
/// Keep one a process or thread that accepts, and begin to [`hold`](Self::acquire) it while there are
/// descriptors left.
///
/// # Examples
///
/// ```
/// use evcore_accept::{Accept, Listener, ReserveFd};
/// use std::{io::Read, net::TcpStream};
///
/// let listener = Listener::bind("127.0.0.1:0")?;
/// let mut reserve = ReserveFd::empty();
/// assert!(reserve.acquire());
///
/// let mut client = TcpStream::connect(listener.local_addr())?;
/// // Later, when accept says Exhausted:
/// reserve.with_released(|| {
///     while let Ok(Accept::Aborted) = listener.accept() {} // any other is closed, being dropped
/// });
/// assert!(reserve.is_held());
/// assert_eq!(client.read(&mut [0])?, 0, "the client has been told");
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug)]
pub struct ReserveFd {
    /// Any open file would do: a socket needs no file system, and counts against the limits of the
    /// process (EMFILE) and of the system (ENFILE) alike.
    fd: Option<OwnedFd>,
}

impl ReserveFd {
    /// A reserve that holds nothing yet.
    #[must_use]
    pub const fn empty() -> Self {
        Self { fd: None }
    }

    /// Sets a descriptor aside, unless one is; returns whether one is now.
    ///
    /// One system call if none was. What it takes is missing elsewhere: after a shortage, first
    /// accept who is waiting.
    pub fn acquire(&mut self) -> bool {
        if self.fd.is_none() {
            self.fd = sys::unix_socket().ok();
        }
        self.is_held()
    }

    /// Whether a descriptor is set aside.
    #[must_use]
    pub const fn is_held(&self) -> bool {
        self.fd.is_some()
    }

    /// Calls with the descriptor free, and sets it aside again. `None`, without the call: there was
    /// none.
    ///
    /// What the call keeps open takes the descriptor's place, and so can another thread in between:
    /// then none [is held](Self::is_held) after it.
    pub fn with_released<T>(&mut self, call: impl FnOnce() -> T) -> Option<T> {
        drop(self.fd.take()?);
        let result = call();
        self.acquire();
        Some(result)
    }
}

impl Default for ReserveFd {
    fn default() -> Self {
        Self::empty()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn without_a_descriptor_nothing_is_called() {
        let mut reserve = ReserveFd::empty();
        assert_eq!(
            reserve.with_released(|| unreachable!("there is none to lend")),
            None::<()>
        );
        assert!(!reserve.is_held());
    }

    #[test]
    fn what_was_lent_is_held_again() {
        let mut reserve = ReserveFd::empty();
        assert!(reserve.acquire() && reserve.acquire());
        assert_eq!(reserve.with_released(|| 7), Some(7));
        assert!(reserve.is_held());
    }
}
