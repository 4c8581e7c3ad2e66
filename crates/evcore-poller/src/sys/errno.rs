//! The error number of a call that goes through the C library and has just failed.

use rustix::io::Errno;

#[cold]
pub(super) fn last() -> Errno {
    Errno::from_io_error(&std::io::Error::last_os_error()).unwrap_or(Errno::INVAL)
}
