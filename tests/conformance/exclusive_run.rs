//! Lets scenarios run in parallel, except for those that fork, which run alone.
//!
//! A forked child has a duplicate of each descriptor of this process. If another scenario closed a
//! socket meanwhile, the socket's peer would see no end of the stream, and epoll would go on
//! reporting the socket.

use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};

static RUNNING: Mutex<usize> = Mutex::new(0);
static NONE_RUNNING: Condvar = Condvar::new();

#[derive(Debug)]
pub(crate) struct Running(());

impl Running {
    pub(crate) fn enter() -> Self {
        *running() += 1;
        Self(())
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        *running() -= 1;
        NONE_RUNNING.notify_all();
    }
}

/// Waits until no scenario runs. No other scenario begins while the guard lives.
pub(crate) fn alone() -> MutexGuard<'static, usize> {
    let alone = NONE_RUNNING.wait_while(running(), |count| *count > 0);
    alone.unwrap_or_else(PoisonError::into_inner)
}

fn running() -> MutexGuard<'static, usize> {
    // A failing scenario must not make the others fail.
    RUNNING.lock().unwrap_or_else(PoisonError::into_inner)
}
