//! Converts the error numbers of `io_uring` calls to errors that advise the user.

use rustix::io::Errno;

use crate::error::{self, Error};

pub(super) fn failed(errno: Errno) -> Error {
    match errno {
        // The kernel has no memory for a request, or no room for completions.
        Errno::AGAIN | Errno::BUSY => Error::os(
            "io_uring_enter (tried again for a second: the system lacks memory, or room for \
             completions)",
        )(errno),
        _ => Error::os("io_uring_enter")(errno),
    }
}

#[cold]
pub(super) fn wait_failed(errno: Errno) -> Error {
    match errno {
        Errno::INTR => Error::Interrupted,
        other => failed(other),
    }
}

pub(super) fn refused(errno: Errno) -> Error {
    match errno {
        // Older kernels do not have the flags.
        Errno::INVAL => Error::os("io_uring_setup (Linux 6.1 or later is needed)")(errno),
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
        assert!(
            refused(errno).is_exhaustion(),
            "a shortage of descriptors passes"
        );
    }
}
