//! A thousand tasks that wait for timers, wait for sockets, or yield.

use std::{io, os::unix::net::UnixStream, time::Duration};

use async_executor::Executor;
use async_io::{Async, Timer};
use evcore_compat::on_each_backend;
use futures_lite::{AsyncReadExt, AsyncWriteExt, future};

use crate::executor_threads;

on_each_backend!(a_thousand_tasks_come_to_their_end);

const TASKS: u32 = 1_000;

const STEPS: u32 = 10;

/// One task in five has a pair of sockets, so that the 1,024 descriptors that select can watch are
/// enough.
fn a_thousand_tasks_come_to_their_end() {
    let executor = Executor::new();
    let all = async {
        let tasks: Vec<_> = (0..TASKS)
            .map(|task| match task % 5 {
                0 => executor.spawn(count_over_a_pair(task)),
                1 => executor.spawn(count_by_yielding(task)),
                _ => executor.spawn(count_by_timers(task)),
            })
            .collect();
        let mut steps = 0;
        for task in tasks {
            steps += task.await.expect("no socket fails");
        }
        steps
    };
    assert_eq!(executor_threads::run(&executor, all), TASKS * STEPS);
}

/// Sends a number back and forth between two futures. One of them pauses and adds one each time.
async fn count_over_a_pair(task: u32) -> io::Result<u32> {
    let (near, far) = Async::<UnixStream>::pair()?;
    let there = async {
        let mut far = &far;
        for step in 0..STEPS {
            assert_eq!(receive(far).await?, step, "task {task}");
            pause(task + step).await;
            far.write_all(&(step + 1).to_ne_bytes()).await?;
        }
        io::Result::Ok(())
    };
    let here = async {
        let mut near = &near;
        let mut number = 0u32;
        for _ in 0..STEPS {
            near.write_all(&number.to_ne_bytes()).await?;
            number = receive(near).await?;
        }
        Ok(number)
    };
    let (number, ()) = future::try_zip(here, there).await?;
    Ok(number)
}

async fn receive(mut stream: &Async<UnixStream>) -> io::Result<u32> {
    let mut bytes = [0; 4];
    stream.read_exact(&mut bytes).await?;
    Ok(u32::from_ne_bytes(bytes))
}

async fn count_by_timers(task: u32) -> io::Result<u32> {
    for step in 0..STEPS {
        pause(task + step).await;
    }
    Ok(STEPS)
}

async fn count_by_yielding(_: u32) -> io::Result<u32> {
    for _ in 0..STEPS {
        future::yield_now().await;
    }
    Ok(STEPS)
}

/// Pauses for 0 to 5 ms.
async fn pause(salt: u32) {
    Timer::after(Duration::from_micros(u64::from(salt % 11) * 500)).await;
}
