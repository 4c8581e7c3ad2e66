//! Errors of a ring, with advice.

use rustix::io::Errno;

use crate::error::{self, Error};

/// The failure of a call on a ring.
pub(super) fn failed(errno: Errno) -> Error {
    match errno {
        // The kernel has no memory for a request, or no room for completions.
        Errno::AGAIN | Errno::BUSY => Error::os(
            "io_uring_enter (tried again for a second: the system lacks memory, or room for completions)",
        )(errno),
        _ => Error::os("io_uring_enter")(errno),
    }
}

/// The error of a wait.
#[cold]
pub(super) fn wait_failed(errno: Errno) -> Error {
    match errno {
        // The handler of a signal has run.
        Errno::INTR => Error::Interrupted,
        other => failed(other),
    }
}

/// The refusal of a ring.
pub(super) fn refused(errno: Errno) -> Error {
    match errno {
        // Older kernels do not have the flags.
        Errno::INVAL => Error::os("io_uring_setup (Linux 6.1 or later is needed)")(errno),
        // A sandbox or the sysctl has refused it.
        Errno::PERM | Errno::NOSYS => Error::os(
            "io_uring_setup (this system does not permit it: a sandbox, \
             or the sysctl kernel.io_uring_disabled, which must be 0)",
        )(errno),
        // The kernel charges the queues to the locked memory of the user.
        Errno::NOMEM => Error::os(error::RING_MEMORY)(errno),
        _ => Error::os("io_uring_setup")(errno),
    }
}

/// The refusal of the first call on a new ring.
pub(super) fn refused_call(errno: Errno) -> Error {
    match errno {
        // A sandbox permits the ring and denies its use.
        Errno::PERM | Errno::NOSYS => {
            Error::os("io_uring_enter (this system does not permit it)")(errno)
        }
        _ => Error::os("io_uring_enter")(errno),
    }
}

#[test]
fn a_shortage_of_locked_memory_is_not_a_passing_exhaustion() {
    let without_memory = refused(Errno::NOMEM);
    assert!(!without_memory.is_exhaustion());
    assert!(without_memory.to_string().contains("RLIMIT_MEMLOCK"));
    for errno in [Errno::MFILE, Errno::NFILE] {
        assert!(refused(errno).is_exhaustion(), "this passes");
    }
}
