//! What can be watched: a descriptor, or the stand-in for one.

use std::os::fd::{AsFd, AsRawFd, RawFd};

/// Something that a poller can watch.
///
/// Everything that has a descriptor ([`AsFd`]) is one. A simulator's sockets have none: they
/// implement this with a number that their own [`Backend`](crate::Backend) knows them by. A poller
/// over a kernel refuses such a number, as long as it is not that of an open descriptor: choose
/// high ones.
///
/// ```
/// use evcore_poller::{Interest, Mode, Source, Poller};
/// use std::os::fd::{AsRawFd, RawFd};
///
/// struct Simulated(u32);
///
/// impl Source for Simulated {
///     fn raw_fd(&self) -> RawFd {
///         0x4000_0000 + self.0 as RawFd
///     }
/// }
///
/// assert_eq!(std::io::stdin().raw_fd(), std::io::stdin().as_raw_fd());
/// let mut poller = Poller::new()?;
/// assert!(poller.add(&Simulated(7), 0, Interest::READ, Mode::Level).is_err());
/// # Ok::<(), evcore_poller::Error>(())
/// ```
pub trait Source {
    /// The number of its descriptor, or what stands for it; the same for as long as it is watched.
    /// -1 is no number: it is refused.
    fn raw_fd(&self) -> RawFd;
}

impl<T: AsFd + ?Sized> Source for T {
    #[inline]
    fn raw_fd(&self) -> RawFd {
        self.as_fd().as_raw_fd()
    }
}
