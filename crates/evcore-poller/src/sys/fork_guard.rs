//! Whether this is still the process that made a poller, told without a system call.
//!
//! A forked child shares its parent's epoll set (what it removes is removed for the parent), and
//! has no kqueue at all. So a poller notes where it was made, and refuses to work elsewhere.
//!
//! The C library's `fork` calls what [`ForkGuard::here`] registers. A child that was made past it,
//! by a bare `clone` or by `vfork`, is not told apart.

#![allow(unsafe_code, reason = "pthread_atfork is called")]

use std::sync::{
    Once,
    atomic::{AtomicU32, Ordering},
};

use crate::{Error, Result};

/// How many forks there were between the process that registered first and this one.
static FORKS: AtomicU32 = AtomicU32::new(0);

/// A process, as seen from inside.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ForkGuard {
    forks: u32,
    process: u32,
}

impl ForkGuard {
    /// This process.
    pub(crate) fn new() -> Self {
        static REGISTERED: Once = Once::new();
        REGISTERED.call_once(|| {
            // SAFETY: what is called in the child adds to an atomic number, and no more. (Where
            // there is no memory to register it, forks go unnoticed.)
            unsafe { libc::pthread_atfork(None, None, Some(count_a_fork)) };
        });
        Self {
            forks: FORKS.load(Ordering::Relaxed),
            process: std::process::id(),
        }
    }

    /// Whether it is this process. A load and a comparison.
    #[inline]
    pub(crate) fn check(self) -> Result<()> {
        // Relaxed: the child's one thread counts its fork before it does anything else.
        if FORKS.load(Ordering::Relaxed) == self.forks {
            Ok(())
        } else {
            Err(Error::Forked {
                process: self.process,
            })
        }
    }
}

extern "C" fn count_a_fork() {
    FORKS.fetch_add(1, Ordering::Relaxed);
}
