//! Detects, without a system call, a forked child of the process that made a poller.
//!
//! A forked child shares its parent's epoll set, so the child's removals would affect the parent. A
//! child does not inherit a kqueue, and has no access to an inherited `/dev/poll`. So a poller
//! refuses to work in a forked child.
//!
//! The C library's `fork` calls the function that [`ForkGuard::new`] registers. A child that was
//! made without `fork`, by a bare `clone` or by `vfork`, is not detected.

#![allow(unsafe_code, reason = "pthread_atfork is called")]

use std::sync::{
    Once,
    atomic::{AtomicU32, Ordering},
};

use crate::error::{Error, Result};

/// The number of forks between the process that made the first guard and the present process.
static FORKS: AtomicU32 = AtomicU32::new(0);

/// The process that made a poller.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ForkGuard {
    forks: u32,
    process: u32,
}

impl ForkGuard {
    pub(crate) fn new() -> Self {
        static REGISTERED: Once = Once::new();
        REGISTERED.call_once(|| {
            // SAFETY: the function that is called in the child only adds to an atomic number. (If
            // there is no memory to register it, forks are not detected.)
            unsafe { libc::pthread_atfork(None, None, Some(count_a_fork)) };
        });
        Self {
            forks: FORKS.load(Ordering::Relaxed),
            process: std::process::id(),
        }
    }

    /// Returns a guard of another process, as if the present process were its forked child.
    #[cfg(all(test, target_os = "linux"))]
    pub(crate) fn of_a_parent() -> Self {
        let here = Self::new();
        let forks = here.forks.wrapping_sub(1);
        Self { forks, ..here }
    }

    /// Returns whether the present process is a forked child of the one that made the poller. Costs
    /// a load and a comparison.
    #[inline]
    pub(crate) fn is_in_child(self) -> bool {
        // Relaxed is enough, because the child's one thread counts its fork before it does anything
        // else.
        FORKS.load(Ordering::Relaxed) != self.forks
    }

    #[inline]
    pub(crate) fn check(self) -> Result<()> {
        if self.is_in_child() {
            return Err(Error::Forked {
                process: self.process,
            });
        }
        Ok(())
    }
}

extern "C" fn count_a_fork() {
    FORKS.fetch_add(1, Ordering::Relaxed);
}
