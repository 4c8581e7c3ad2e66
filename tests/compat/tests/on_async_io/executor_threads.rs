//! Runs an executor on several threads while one main future runs.

use std::{future::Future, thread};

use async_executor::Executor;
use async_io::block_on;

const THREADS: usize = 3;

/// Runs `main` on this thread, and the tasks that it spawns on several threads, until `main` ends.
///
/// A task's panic continues where the task is awaited.
pub(crate) fn run<'a, T, F>(executor: &Executor<'a>, main: F) -> T
where
    F: Future<Output = T>,
{
    let (running, ended) = async_channel::bounded::<()>(1);
    thread::scope(|scope| {
        for _ in 0..THREADS {
            // Each thread runs tasks until `running` is dropped, which closes the channel.
            scope.spawn(|| block_on(executor.run(ended.recv())));
        }
        let _running = running;
        block_on(main)
    })
}
