//! A loop of ours inside tokio: one task sleeps until the loop's descriptor is readable or its next
//! timer is due, while other tasks of the same thread run.

use std::cell::Cell;
use std::io::{self, Read, Write};
use std::net::SocketAddr;
use std::os::fd::BorrowedFd;
use std::time::Duration;

use evcore::{EventLoop, Interest, Listener, Mode, Step, Stream, Timer, TokenMap};
use tokio::io::unix::AsyncFd;

const PATIENCE: Duration = Duration::from_secs(60);

type Result<T = ()> = std::result::Result<T, Box<dyn std::error::Error>>;

/// Runs a task to its end on one thread. Returns `None` after [`PATIENCE`].
fn run<T>(task: impl Future<Output = T>) -> Option<T> {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .expect("a runtime");
    runtime.block_on(async { tokio::time::timeout(PATIENCE, task).await.ok() })
}

/// Sleeps until the descriptor is readable or the timeout has passed.
///
/// The descriptor is registered only for this sleep, because the loop may have another descriptor
/// for the next one. Also, tokio watches edges, and reports present readiness only of a new
/// registration.
async fn sleep(descriptor: BorrowedFd<'_>, timeout: Option<Duration>) -> io::Result<()> {
    #[expect(
        deprecated,
        reason = "its successor is unsafe, because it also takes types that may close the descriptor"
    )]
    let watched = AsyncFd::with_interest(descriptor, tokio::io::Interest::READABLE)?;
    let readable = async { watched.readable().await.map(drop) };
    match timeout {
        Some(timeout) => tokio::time::timeout(timeout, readable)
            .await
            .unwrap_or(Ok(())),
        None => readable.await,
    }
}

/// Runs a loop inside tokio until `handle` returns false.
async fn drive(
    ev: &mut EventLoop,
    mut handle: impl FnMut(&mut EventLoop, Step<Stream>) -> Result<bool>,
) -> Result {
    let (mut goes_on, mut had_steps) = (true, true);
    while goes_on {
        let prepared = ev.prepare()?;
        if !had_steps && prepared.timeout != Some(Duration::ZERO) {
            let descriptor = prepared.descriptor;
            let descriptor = descriptor.ok_or("the backend has no descriptor")?;
            sleep(descriptor, prepared.timeout).await?;
        }
        ev.wait_at_most(Some(Duration::ZERO))?;
        had_steps = false;
        while let Some(step) = ev.next_step() {
            had_steps = true;
            goes_on &= handle(ev, step)?;
        }
        // Without this, the other tasks would not run while there is always another step.
        tokio::task::yield_now().await;
    }
    Ok(())
}

/// Sends back the bytes of a connection until there is nothing more to read. Returns whether the
/// connection is still open.
fn echo(mut stream: &Stream) -> bool {
    let mut buffer = [0; 4096];
    loop {
        match stream.read(&mut buffer) {
            Ok(0) => return false,
            Ok(length) => stream
                .write_all(&buffer[..length])
                .expect("there is room for an echo"),
            Err(error) => return error.kind() == io::ErrorKind::WouldBlock,
        }
    }
}

/// Sends a few bytes at a time, and expects them back before it sends the next.
async fn client(server: SocketAddr) -> io::Result<()> {
    let socket = tokio::net::TcpStream::connect(server).await?;
    for sent in [b"one  ", b"two  ", b"three"] {
        socket.writable().await?;
        assert_eq!(socket.try_write(sent)?, sent.len());
        let (mut received, mut length) = ([0; 5], 0);
        while length < sent.len() {
            socket.readable().await?;
            match socket.try_read(&mut received[length..]) {
                Ok(0) => return Err(io::ErrorKind::UnexpectedEof.into()),
                Ok(more) => length += more,
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                Err(error) => return Err(error),
            }
        }
        assert_eq!(&received, sent);
    }
    Ok(())
}

#[test]
fn a_loop_inside_tokio_serves_clients_of_the_same_thread() {
    const CLIENTS: usize = 10;
    let listener = Listener::bind("127.0.0.1:0").unwrap();
    let server = listener.local_addr().tcp().unwrap();
    let mut ev = EventLoop::builder().listener(listener).build().unwrap();
    let mut conns = TokenMap::new();
    let mut closed = 0;

    let serving = drive(&mut ev, |ev, step| {
        match step {
            Step::Accepted(new) => {
                conns.add(ev, new.stream, Interest::READ, Mode::Level)?;
            }
            Step::Ready(token, _) if !conns.get(token).is_some_and(echo) => {
                conns.close(ev, token);
                closed += 1;
            }
            _ => {}
        }
        Ok(closed < CLIENTS)
    });
    let connecting = async {
        let clients = [(); CLIENTS].map(|()| client(server));
        for client in clients {
            client.await?;
        }
        Ok(())
    };
    run(async { tokio::try_join!(serving, connecting) })
        .expect("no wake-up is lost")
        .unwrap();
}

#[test]
fn a_timer_of_the_loop_ends_the_sleep_in_tokio() {
    let mut ev = EventLoop::builder().build().unwrap();
    let token = ev.add_unwatched().unwrap();
    ev.arm(token, Timer::READ, Duration::from_millis(20));
    let deadline_ms = ev.timers().deadline(token, Timer::READ).unwrap();
    let driving = drive(&mut ev, |_, step| {
        assert!(matches!(step, Step::Expired(expired, Timer::READ) if expired == token));
        Ok(false)
    });
    run(driving).expect("no wake-up is lost").unwrap();
    assert!(ev.clock().monotonic_ms() >= deadline_ms, "early");
}

#[test]
fn a_handle_wakes_a_loop_that_sleeps_in_tokio() {
    let mut ev = EventLoop::builder().build().unwrap();
    let handle = ev.handle();
    let woken = Cell::new(false);
    let driving = drive(&mut ev, |_, step| {
        assert!(matches!(step, Step::Woken));
        woken.set(true);
        Ok(false)
    });
    let waking = async {
        // After these yields, the loop has found nothing to do and sleeps.
        for _ in 0..10 {
            tokio::task::yield_now().await;
        }
        handle.wake();
        Ok(())
    };
    run(async { tokio::try_join!(driving, waking) })
        .expect("no wake-up is lost")
        .unwrap();
    assert!(woken.get());
}
