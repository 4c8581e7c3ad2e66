//! The error numbers of calls that go through the C library.

use rustix::io::Errno;

/// The error number of the call that has just failed.
#[cold]
pub(super) fn last() -> Errno {
    Errno::from_io_error(&std::io::Error::last_os_error()).unwrap_or(Errno::INVAL)
}
