//! A spare descriptor for the moment when no other is left.
//!
//! A client that cannot be accepted waits in the backlog, perhaps for ever, and does not learn why.
//! If the server gives up its spare descriptor, it can accept that client and close it at once. The
//! client then sees the end of its connection, and can try another server. libev's
//! manual describes the same trick.
//!
//! [`Backoff`](crate::Backoff) limits how often a client is shed. The event loop of `evcore` sheds none:
//! it closes idle connections, and otherwise lets clients wait.

use std::os::fd::OwnedFd;

use crate::sys;

/// A spare descriptor, released for one accept when no other is left.
///
/// Each process or thread that accepts needs one of its own. [Acquire](Self::acquire) it early,
/// while descriptors are left.
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
/// // Later, when accept returns Exhausted:
/// reserve.with_released(|| {
///     while let Ok(Accept::Aborted) = listener.accept() {} // a connection is dropped, so closed
/// });
/// assert!(reserve.is_held());
/// assert_eq!(client.read(&mut [0])?, 0, "the server has closed the connection");
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug)]
pub struct ReserveFd {
    /// A socket. Like any open file it counts against the limits of the process (EMFILE) and of the
    /// system (ENFILE), and it needs no file system.
    fd: Option<OwnedFd>,
}

impl ReserveFd {
    /// A reserve that holds no descriptor yet.
    #[must_use]
    pub const fn empty() -> Self {
        Self { fd: None }
    }

    /// Acquires a descriptor if none is held. Returns whether one is held now.
    ///
    /// One system call if none was held. After exhaustion, accept the waiting clients first, because
    /// this takes a descriptor that one of them needs.
    pub fn acquire(&mut self) -> bool {
        if self.fd.is_none() {
            self.fd = sys::unix_socket().ok();
        }
        self.is_held()
    }

    /// Whether a descriptor is held.
    #[must_use]
    pub const fn is_held(&self) -> bool {
        self.fd.is_some()
    }

    /// Releases the descriptor, calls `call`, and acquires a descriptor again. Returns `None`, and
    /// does not call it, if no descriptor is held.
    ///
    /// If `call` keeps a descriptor open, or another thread takes the free one, then none [is
    /// held](Self::is_held) afterwards.
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
    fn without_a_held_descriptor_nothing_is_called() {
        let mut reserve = ReserveFd::empty();
        assert_eq!(
            reserve.with_released(|| unreachable!("no descriptor is held")),
            None::<()>
        );
        assert!(!reserve.is_held());
    }

    #[test]
    fn a_released_descriptor_is_held_again() {
        let mut reserve = ReserveFd::empty();
        assert!(reserve.acquire() && reserve.acquire());
        assert_eq!(reserve.with_released(|| 7), Some(7));
        assert!(reserve.is_held());
    }
}
