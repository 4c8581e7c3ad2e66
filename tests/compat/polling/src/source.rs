//! A source that can be watched: anything with a descriptor.

use std::os::fd::{AsFd, AsRawFd, BorrowedFd, RawFd};

/// Something with a descriptor, or the bare number of one.
///
/// ```
/// use polling::AsRawSource;
///
/// assert_eq!((&std::io::stdin()).raw(), 0.raw());
/// ```
pub trait AsRawSource {
    /// The number of the descriptor.
    fn raw(&self) -> RawFd;
}

impl<T: AsRawFd> AsRawSource for &T {
    fn raw(&self) -> RawFd {
        self.as_raw_fd()
    }
}

impl AsRawSource for RawFd {
    fn raw(&self) -> RawFd {
        *self
    }
}

/// Something that guarantees an open descriptor.
///
/// ```
/// use polling::AsSource;
/// use std::os::fd::AsRawFd;
///
/// assert_eq!(std::io::stdin().source().as_raw_fd(), 0);
/// ```
pub trait AsSource: AsFd {
    /// The descriptor.
    fn source(&self) -> BorrowedFd<'_> {
        self.as_fd()
    }
}

impl<T: AsFd> AsSource for T {}
