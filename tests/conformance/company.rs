//! Scenarios run beside each other, but for those that fork: they wait until they are alone.
//!
//! A child has a duplicate of each descriptor of this process. So what another scenario closes
//! while the child lives is not closed: its peer sees no end of the stream, and epoll goes on to
//! report it.

use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};

/// How many are under way.
static PRESENT: Mutex<usize> = Mutex::new(0);
static NOBODY: Condvar = Condvar::new();

/// A scenario that is under way.
#[derive(Debug)]
pub(crate) struct Present(());

impl Present {
    pub(crate) fn enter() -> Self {
        *present() += 1;
        Self(())
    }
}

impl Drop for Present {
    fn drop(&mut self) {
        *present() -= 1;
        NOBODY.notify_all();
    }
}

/// Waits until none is under way. None begins as long as the guard lives.
pub(crate) fn alone() -> MutexGuard<'static, usize> {
    let alone = NOBODY.wait_while(present(), |present| *present > 0);
    alone.unwrap_or_else(PoisonError::into_inner)
}

fn present() -> MutexGuard<'static, usize> {
    // A scenario that fails is no reason for the others to.
    PRESENT.lock().unwrap_or_else(PoisonError::into_inner)
}
