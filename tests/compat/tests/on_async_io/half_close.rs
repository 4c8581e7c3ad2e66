//! Streams that end while data is on its way, on one side only, or while a task waits.

use std::{
    fs::File,
    io::{self, Read, Write},
    net::Shutdown,
    os::unix::net::{UnixDatagram, UnixStream},
};

use async_executor::Executor;
use async_io::Async;
use evcore_compat::{letter, on_each_backend};
use futures_lite::{AsyncReadExt, AsyncWriteExt, future};

use crate::executor_threads;

on_each_backend!(
    data_on_its_way_arrives_before_the_end,
    the_other_side_still_writes_after_the_end,
    a_reader_that_waits_is_woken_by_the_end,
    a_writer_that_waits_is_woken_when_the_reader_is_gone,
    a_pipe_reports_that_its_other_end_is_gone,
    a_source_that_is_closed_while_others_wait_wakes_nobody_else,
    a_regular_file_is_refused_or_is_ready,
);

/// Number of bytes that fit into a socket's buffer, so that all are on their way when the writer
/// ends.
const FITS: usize = 32 << 10;

fn data_on_its_way_arrives_before_the_end() {
    let executor = Executor::new();
    let all = async {
        let pairs: Vec<_> = (0..50)
            .map(|seed| executor.spawn(sends_ends_and_is_read(seed)))
            .collect();
        for pair in pairs {
            pair.await.expect("no socket fails");
        }
    };
    executor_threads::run(&executor, all);
}

async fn sends_ends_and_is_read(seed: u64) -> io::Result<()> {
    let (mut near, mut far) = Async::<UnixStream>::pair()?;
    let sent = letter(seed, FITS);
    near.write_all(&sent).await?;
    near.get_ref().shutdown(Shutdown::Write)?;
    let mut came = Vec::new();
    far.read_to_end(&mut came).await?;
    assert!(came == sent, "pair {seed}");
    Ok(())
}

fn the_other_side_still_writes_after_the_end() {
    let half_closed = async {
        let (mut near, mut far) = Async::<UnixStream>::pair()?;
        near.get_ref().shutdown(Shutdown::Write)?;
        assert_eq!(far.read(&mut [0; 1]).await?, 0);
        // More bytes than fit, so that the writer waits for room on a half-closed stream.
        let sent = letter(7, FITS * 64);
        let mut came = Vec::new();
        let write = async {
            far.write_all(&sent).await?;
            far.get_ref().shutdown(Shutdown::Write)
        };
        future::try_zip(write, near.read_to_end(&mut came)).await?;
        assert!(came == sent);
        io::Result::Ok(())
    };
    async_io::block_on(half_closed).expect("no socket fails");
}

fn a_reader_that_waits_is_woken_by_the_end() {
    let executor = Executor::new();
    let waits = async {
        let (near, mut far) = Async::<UnixStream>::pair()?;
        let read = executor.spawn(async move { far.read(&mut [0; 1]).await });
        future::yield_now().await;
        near.get_ref().shutdown(Shutdown::Write)?;
        assert_eq!(read.await?, 0);
        io::Result::Ok(())
    };
    executor_threads::run(&executor, waits).expect("no socket fails");
}

fn a_writer_that_waits_is_woken_when_the_reader_is_gone() {
    let executor = Executor::new();
    let waits = async {
        let (mut near, far) = Async::<UnixStream>::pair()?;
        let write = executor.spawn(async move { near.write_all(&letter(1, FITS * 64)).await });
        // Now the writer is at work, and cannot end before somebody reads.
        far.readable().await?;
        drop(far);
        let error = write.await.expect_err("nobody reads");
        // The error is a reset if unread bytes were lost, and otherwise a broken pipe.
        let expected = [io::ErrorKind::BrokenPipe, io::ErrorKind::ConnectionReset];
        assert!(expected.contains(&error.kind()), "{error}");
        io::Result::Ok(())
    };
    executor_threads::run(&executor, waits).expect("no socket fails");
}

/// A pipe whose other end is gone may report only an error or a hang-up, without readiness.
fn a_pipe_reports_that_its_other_end_is_gone() {
    let executor = Executor::new();
    let pipes = async {
        let (reader, writer) = io::pipe()?;
        let reader = Async::new(reader)?;
        let read =
            executor.spawn(async move { reader.read_with(|mut end| end.read(&mut [0; 1])).await });
        future::yield_now().await;
        drop(writer);
        assert_eq!(read.await?, 0);

        let (reader, writer) = io::pipe()?;
        let writer = Async::new(writer)?;
        let fill = executor.spawn(async move {
            loop {
                writer.write_with(|mut end| end.write(&[0; 4_096])).await?;
            }
        });
        Async::new(reader)?.readable().await?;
        let error: io::Result<()> = fill.await;
        assert_eq!(
            error.expect_err("nobody reads").kind(),
            io::ErrorKind::BrokenPipe
        );
        io::Result::Ok(())
    };
    executor_threads::run(&executor, pipes).expect("no pipe fails");
}

/// Removes a source while a thread waits, and closes its descriptor at once, a thousand times.
/// Later sources may get the same numbers.
fn a_source_that_is_closed_while_others_wait_wakes_nobody_else() {
    let executor = Executor::new();
    let churn = async {
        let (kept, mut waiting) = Async::<UnixStream>::pair()?;
        let wait = executor.spawn(async move {
            let mut byte = [0; 1];
            waiting.read_exact(&mut byte).await.map(|()| byte)
        });
        for _ in 0..1_000 {
            let (_near, far) = Async::<UnixDatagram>::pair()?;
            // Polling once registers the descriptor in the kernel.
            assert!(future::poll_once(far.readable()).await.is_none());
            future::yield_now().await;
            assert!(!wait.is_finished());
        }
        (&kept).write_all(b"!").await?;
        assert_eq!(wait.await?, *b"!");
        io::Result::Ok(())
    };
    executor_threads::run(&executor, churn).expect("no socket fails");
}

/// A regular file is always ready, but epoll refuses to watch it.
fn a_regular_file_is_refused_or_is_ready() {
    let file = File::open(std::env::current_exe().expect("this program has a path"));
    let file = Async::new(file.expect("it can be read")).expect("nothing is asked of it yet");
    async_io::block_on(file.readable()).expect("the waiting task is woken");
}
