//! The sources that a poller can watch: a descriptor, or a simulator's stand-in for one.

use std::os::fd::{AsFd, BorrowedFd};

/// Something that a poller can watch.
///
/// Every type that has a descriptor ([`AsFd`]) is a source. So safe code cannot register the number
/// of a descriptor that it does not hold.
///
/// A simulator's sockets have no descriptor. They implement this trait with a number that their
/// [`Backend`](crate::Backend) gave them:
///
/// ```
/// use evcore_poller::{Error, Interest, Mode, Poller, Source, Target};
///
/// struct SimulatedSocket(u32);
///
/// impl Source for SimulatedSocket {
///     fn target(&self) -> Target<'_> {
///         Target::Simulated(self.0)
///     }
/// }
///
/// let mut poller = Poller::new()?; // over the kernel, which has no such socket
/// let refused = poller.add(&SimulatedSocket(7), 0, Interest::READ, Mode::Level);
/// assert!(matches!(refused, Err(Error::SimulatedTarget { number: 7, .. })));
/// # Ok::<(), Error>(())
/// ```
pub trait Source {
    /// Returns the target to watch. It must stay the same while the source is registered.
    fn target(&self) -> Target<'_>;
}

/// The target that a poller watches for a [`Source`].
///
/// ```
/// use evcore_poller::{Source, Target};
///
/// let stdin = std::io::stdin();
/// assert!(matches!(stdin.target(), Target::Descriptor(_)));
/// ```
#[derive(Clone, Copy, Debug)]
pub enum Target<'a> {
    /// An open descriptor, for backends over a kernel.
    Descriptor(BorrowedFd<'a>),
    /// A number that only a [simulated](crate::Capabilities::simulated) backend understands. Every
    /// other backend refuses it. The number is at most `i32::MAX`.
    Simulated(u32),
}

impl<T: AsFd + ?Sized> Source for T {
    #[inline]
    fn target(&self) -> Target<'_> {
        Target::Descriptor(self.as_fd())
    }
}

impl Source for Target<'_> {
    #[inline]
    fn target(&self) -> Target<'_> {
        *self
    }
}
