//! A time limit for programs, because a lost wake-up makes them hang.

use std::{process, sync::mpsc, thread, time::Duration};

const PATIENCE: Duration = Duration::from_secs(60);

/// Runs `program`. If it takes too long, aborts the process.
pub(crate) fn watch(name: &str, program: fn()) {
    let (_running, ended) = mpsc::channel::<()>();
    let name = name.to_owned();
    thread::spawn(move || {
        if ended.recv_timeout(PATIENCE) == Err(mpsc::RecvTimeoutError::Timeout) {
            eprintln!("{name} hangs: nothing ended it in {PATIENCE:?}");
            process::abort();
        }
    });
    program();
}
