//! Ending a wait from another thread, or from a signal handler.
//!
//! A flag in front of the descriptor makes any number of wakes between two waits cost one write.
//! The order is what makes it right, on both sides: the waker sets the flag and then writes; the
//! poller takes what was written and then clears the flag. So whoever finds the flag set knows
//! that a wait that has not yet returned will return, and that its return comes after.

use std::{
    io,
    os::fd::{AsFd, BorrowedFd, OwnedFd},
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
};

use rustix::io::Errno;

/// Ends the wait of the [`Poller`](crate::Poller) it came from. Cheap to clone, fit for any thread.
///
/// A wake that comes while nobody waits is kept for the next wait. Many wakes may be seen as one.
///
/// ```
/// # use evcore_poller::{Events, Poller};
/// let (mut poller, mut events) = (Poller::new()?, Events::with_capacity(4));
/// let waker = poller.waker();
/// std::thread::spawn(move || waker.wake());
/// poller.wait(&mut events, None)?;
/// assert!(events.woken());
/// # Ok::<(), evcore_poller::Error>(())
/// ```
#[derive(Clone, Debug)]
pub struct Waker {
    shared: Arc<Shared>,
}

#[derive(Debug)]
struct Shared {
    /// Set from a wake until the wait that it ended.
    pending: AtomicBool,
    /// An eventfd, or the writing end of a socket pair.
    write: OwnedFd,
}

impl Waker {
    /// Ends the present wait or, if nobody waits, the next one.
    ///
    /// Costs one `write`, or a few nanoseconds where a wake is pending already. It takes no lock
    /// and allocates nothing, so a signal handler may call it.
    pub fn wake(&self) {
        if !self.shared.pending.swap(true, Ordering::AcqRel) {
            write_one(&self.shared.write);
        }
    }
}

/// The descriptor itself: eight bytes written to it, the number 1 in native order, wake the poller
/// too, for code that can write and no more.
impl AsFd for Waker {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.shared.write.as_fd()
    }
}

/// The poller's side of its wakers: what a backend watches and acknowledges.
#[derive(Debug)]
pub struct WakeChannel {
    shared: Arc<Shared>,
    /// Where it is another descriptor than the one that is written to.
    read: Option<OwnedFd>,
}

impl WakeChannel {
    /// An eventfd on Linux, a pair of sockets elsewhere: non-blocking, closed on exec.
    ///
    /// # Errors
    ///
    /// Out of descriptors, most likely.
    pub fn new() -> io::Result<Self> {
        let (write, read) = open()?;
        let shared = Arc::new(Shared {
            pending: AtomicBool::new(false),
            write,
        });
        Ok(Self { shared, read })
    }

    /// A handle for others.
    #[must_use]
    pub fn waker(&self) -> Waker {
        Waker {
            shared: Arc::clone(&self.shared),
        }
    }

    /// Takes what was written, so that a level-triggered watch falls silent; then lets the next
    /// wake write again.
    pub fn drain(&self) {
        let mut bytes = [0u8; 64];
        while rustix::io::read(self, &mut bytes).is_ok_and(|n| n == bytes.len()) {}
        self.acknowledge();
    }

    /// Lets the next wake write again. Enough where the watch is edge-triggered: an eventfd tells
    /// of each write, whether the one before was read or not.
    pub fn acknowledge(&self) {
        // A read-modify-write, not a store: it takes part in the same order as every `swap` of
        // `wake`, so what was done before a wake that wrote nothing is visible from here on.
        self.shared.pending.swap(false, Ordering::AcqRel);
    }
}

/// What to watch for readability.
impl AsFd for WakeChannel {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.read.as_ref().unwrap_or(&self.shared.write).as_fd()
    }
}

#[cfg(any(target_os = "linux", target_os = "android"))]
fn open() -> io::Result<(OwnedFd, Option<OwnedFd>)> {
    use rustix::event::{EventfdFlags, eventfd};
    Ok((
        eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?,
        None,
    ))
}

#[cfg(not(any(target_os = "linux", target_os = "android")))]
fn open() -> io::Result<(OwnedFd, Option<OwnedFd>)> {
    let (write, read) = std::os::unix::net::UnixStream::pair()?;
    write.set_nonblocking(true)?;
    read.set_nonblocking(true)?;
    Ok((write.into(), Some(read.into())))
}

fn write_one(fd: &OwnedFd) {
    loop {
        match rustix::io::write(fd, &1u64.to_ne_bytes()) {
            Err(Errno::INTR) => {}
            // The counter is full, after 2^64 - 2 wakes that an edge-triggered watch never read.
            // (A full socket needs nothing more: it is readable.)
            Err(Errno::AGAIN) if cfg!(any(target_os = "linux", target_os = "android")) => {
                let _ = rustix::io::read(fd, &mut [0u8; 8]);
            }
            _ => return,
        }
    }
}
