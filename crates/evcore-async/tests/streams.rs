//! Streams, listeners, datagrams and time, as users of tokio and smol expect them.
//!
//! Each case is an assertion that tokio's or smol's tests of TCP, time or `copy_bidirectional` make, too.

use std::cell::Cell;
use std::future::{Future, poll_fn};
use std::io::{self, ErrorKind, IoSlice, Read, Write};
use std::net::{Shutdown, SocketAddr};
use std::os::fd::OwnedFd;
use std::pin::{Pin, pin};
use std::rc::Rc;
use std::task::Poll;
use std::thread;
use std::time::{Duration, Instant};

use evcore::{Address, EventLoop};
use evcore_async::{
    BlockingPool, Executor, JoinError, Runtime, Sleep, TcpListener, TcpStream, TimedOut, UdpSocket,
    UnixListener, UnixStream, Watched, copy_bidirectional, interval, now, sleep, sleep_until,
    spawn_local, timeout, yield_now,
};
use futures_lite::{AsyncReadExt, AsyncWriteExt, future};

const MS: Duration = Duration::from_millis(1);
const LONG: Duration = Duration::from_secs(3600);

fn block_on<F: Future<Output = io::Result<()>>>(future: F) {
    Runtime::new().unwrap().block_on(future).unwrap().unwrap();
}

/// Polls a future once.
async fn poll_once<F: Future>(mut future: Pin<&mut F>) -> Poll<F::Output> {
    poll_fn(|cx| Poll::Ready(future.as_mut().poll(cx))).await
}

/// A listener of the runtime, with a client of the runtime that it has accepted.
async fn tcp_pair() -> io::Result<(TcpStream, TcpStream)> {
    let listener = TcpListener::bind("127.0.0.1:0")?;
    let address = listener.local_addr();
    let (client, accepted) = future::zip(TcpStream::connect(&address), listener.accept()).await;
    Ok((client?, accepted?.0))
}

/// A Unix stream of the runtime, and its peer, which blocks.
fn unix_pair() -> io::Result<(UnixStream, std::os::unix::net::UnixStream)> {
    let (near, far) = std::os::unix::net::UnixStream::pair()?;
    Ok((
        UnixStream::new(evcore::Stream::from(OwnedFd::from(near)))?,
        far,
    ))
}

fn socket_addr(address: Address) -> SocketAddr {
    match address {
        Address::Tcp(address) => address,
        other => panic!("{other} is not of TCP"),
    }
}

// TCP.

#[test]
fn a_client_connects_and_is_accepted() {
    block_on(async {
        let listener = TcpListener::bind("127.0.0.1:0")?;
        let address = listener.local_addr();
        let accepting = spawn_local(async move { listener.accept().await });
        let client = TcpStream::connect(&address).await?;
        let (server, peer) = accepting.await.unwrap()?;
        assert_eq!(peer, client.local_addr()?);
        assert_eq!(server.peer_addr()?, client.local_addr()?);
        assert_eq!(client.peer_addr()?, server.local_addr()?);
        Ok(())
    });
}

#[test]
fn a_connect_to_nobody_is_refused() {
    block_on(async {
        let listener = std::net::TcpListener::bind("127.0.0.1:0")?;
        let address = listener.local_addr()?;
        drop(listener);
        let error = TcpStream::connect(address).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::ConnectionRefused);
        Ok(())
    });
}

#[test]
fn a_connect_to_a_missing_socket_file_fails() {
    block_on(async {
        let error = UnixStream::connect("unix:/nonexistent/socket")
            .await
            .unwrap_err();
        assert_eq!(error.kind(), ErrorKind::NotFound);
        Ok(())
    });
}

#[test]
fn an_address_that_is_none_is_an_error() {
    block_on(async {
        assert!(TcpStream::connect("example.org").await.is_err());
        assert!(TcpListener::bind("127.0.0.1").is_err());
        Ok(())
    });
}

#[test]
fn a_bound_address_is_in_use() {
    block_on(async {
        let listener = std::net::TcpListener::bind("127.0.0.1:0")?;
        let error = TcpListener::bind(listener.local_addr()?).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::AddrInUse);
        Ok(())
    });
}

#[test]
fn clients_are_accepted_one_after_another() {
    block_on(async {
        let listener = TcpListener::bind("127.0.0.1:0")?;
        let address = socket_addr(listener.local_addr());
        let clients: Vec<_> = (0..50)
            .map(|_| std::net::TcpStream::connect(address))
            .collect();
        for client in clients {
            let (_stream, peer) = listener.accept().await?;
            assert_eq!(socket_addr(peer), client?.local_addr()?);
        }
        Ok(())
    });
}

#[test]
fn nothing_is_accepted_that_nobody_awaits() {
    let mut runtime = Runtime::new().unwrap();
    let (listener, client) = runtime
        .block_on(async {
            let listener = TcpListener::bind("127.0.0.1:0")?;
            let client = std::net::TcpStream::connect(socket_addr(listener.local_addr()))?;
            for _ in 0..3 {
                sleep(MS).await; // turns of the loop
            }
            Ok::<_, io::Error>((listener, client))
        })
        .unwrap()
        .unwrap();
    assert_eq!(runtime.event_loop().stats().active, 1, "the listener");
    let (_stream, peer) = runtime.block_on(listener.accept()).unwrap().unwrap();
    assert_eq!(socket_addr(peer), client.local_addr().unwrap());
}

#[test]
fn accepting_waits_until_the_loop_has_room() {
    let ev = EventLoop::builder().connections(2).build().unwrap();
    let mut runtime = Runtime::from(ev);
    let test = async {
        let listener = TcpListener::bind("127.0.0.1:0")?;
        let address = socket_addr(listener.local_addr());
        let _clients = [1, 2].map(|_| std::net::TcpStream::connect(address).unwrap());
        let (first, _) = listener.accept().await?;
        let mut second = pin!(listener.accept());
        assert!(poll_once(second.as_mut()).await.is_pending());
        let full = unix_pair().unwrap_err();
        assert_eq!(full.kind(), ErrorKind::QuotaExceeded);
        drop(first);
        second.await?;
        Ok::<(), io::Error>(())
    };
    runtime.block_on(test).unwrap().unwrap();
}

#[test]
fn an_echo_returns_what_was_sent() {
    block_on(async {
        let (client, server) = tcp_pair().await?;
        let echo = spawn_local(async move {
            let mut buffer = [0; 1000];
            loop {
                match server.read(&mut buffer).await? {
                    0 => return Ok::<_, io::Error>(()),
                    n => server.write_all(&buffer[..n]).await?,
                }
            }
        });
        for round in 0..10_u8 {
            let sent = vec![round; 3_000];
            client.write_all(&sent).await?;
            let mut received = vec![0; 3_000];
            (&client).read_exact(&mut received).await?;
            assert_eq!(received, sent);
        }
        client.shutdown_write()?;
        assert_eq!(client.read(&mut [0; 1]).await?, 0);
        echo.await.unwrap()
    });
}

#[test]
fn a_transfer_larger_than_all_buffers_is_whole() {
    const LENGTH: usize = 16 << 20;
    block_on(async {
        let (client, server) = tcp_pair().await?;
        let sending = spawn_local(async move {
            let bytes: Vec<u8> = (0..=250).cycle().take(LENGTH).collect();
            client.write_all(&bytes).await
        });
        let mut received = Vec::new();
        (&server).read_to_end(&mut received).await?;
        sending.await.unwrap()?;
        assert_eq!(received.len(), LENGTH);
        assert!(received.into_iter().eq((0..=250).cycle().take(LENGTH)));
        Ok(())
    });
}

#[test]
fn one_task_reads_while_another_writes() {
    block_on(async {
        let (client, server) = tcp_pair().await?;
        let server = Rc::new(server);
        let writer = Rc::clone(&server);
        let writing = spawn_local(async move { writer.write_all(&[7; 1 << 20]).await });
        let reading = spawn_local(async move {
            let mut received = vec![0; 1 << 20];
            (&*server).read_exact(&mut received).await
        });
        let (sent, received) = future::zip(client.write_all(&[8; 1 << 20]), async {
            (&client).read_exact(&mut vec![0; 1 << 20]).await
        })
        .await;
        sent.and(received)?;
        writing.await.unwrap()?;
        reading.await.unwrap()
    });
}

#[test]
fn a_read_waits_for_data() {
    block_on(async {
        let (stream, mut far) = unix_pair()?;
        let mut buffer = [0; 16];
        let mut reading = pin!(stream.read(&mut buffer));
        assert!(poll_once(reading.as_mut()).await.is_pending());
        far.write_all(b"hello")?;
        assert_eq!(reading.await?, 5);
        Ok(())
    });
}

#[test]
fn a_read_into_nothing_is_no_end() {
    block_on(async {
        let (stream, mut far) = unix_pair()?;
        far.write_all(b"x")?;
        sleep(MS).await;
        assert_eq!(stream.read(&mut []).await?, 0);
        assert_eq!(stream.read(&mut [0; 4]).await?, 1);
        Ok(())
    });
}

#[test]
fn the_end_is_read_again_and_again() {
    block_on(async {
        let (stream, mut far) = unix_pair()?;
        far.write_all(b"bye")?;
        drop(far);
        assert_eq!(stream.read(&mut [0; 16]).await?, 3);
        for _ in 0..3 {
            assert_eq!(stream.read(&mut [0; 16]).await?, 0);
        }
        Ok(())
    });
}

#[test]
fn data_and_end_that_come_together_are_both_read() {
    block_on(async {
        let (stream, mut far) = unix_pair()?;
        let reading = spawn_local(async move {
            let mut all = Vec::new();
            (&stream).read_to_end(&mut all).await.map(|_| all)
        });
        yield_now().await; // it waits
        far.write_all(b"bye")?;
        drop(far);
        assert_eq!(reading.await.unwrap()?, b"bye");
        Ok(())
    });
}

#[test]
fn a_write_waits_for_room() {
    block_on(async {
        let (stream, mut far) = unix_pair()?;
        let mut writing = pin!(stream.write_all(&[0; 1 << 20]));
        assert!(poll_once(writing.as_mut()).await.is_pending());
        let reading = thread::spawn(move || far.read_exact(&mut vec![0; 1 << 20]));
        writing.await?;
        reading.join().unwrap()
    });
}

#[test]
fn a_write_to_a_peer_that_has_left_fails() {
    block_on(async {
        let (stream, far) = unix_pair()?;
        drop(far);
        let error = stream.write_all(b"hello").await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::BrokenPipe);
        Ok(())
    });
}

#[test]
fn a_reset_is_an_error_of_the_reader() {
    block_on(async {
        let (client, server) = tcp_pair().await?;
        client.write_all(b"unread").await?;
        let waiting = spawn_local(async move { (client.read(&mut [0; 16]).await, client) });
        server.read(&mut [0; 1]).await?;
        drop(server); // with unread data, which resets
        let (result, client) = waiting.await.unwrap();
        assert_eq!(result.unwrap_err().kind(), ErrorKind::ConnectionReset);
        (&client).close().await // not an error
    });
}

#[test]
fn a_half_closed_stream_still_receives() {
    block_on(async {
        let (client, server) = tcp_pair().await?;
        client.shutdown_write()?;
        assert_eq!(server.read(&mut [0; 1]).await?, 0);
        server.write_all(b"still here").await?;
        assert_eq!(client.read(&mut [0; 16]).await?, 10);
        Ok(())
    });
}

#[test]
fn close_ends_the_sending_side() {
    block_on(async {
        let (mut client, server) = tcp_pair().await?;
        client.close().await?;
        assert_eq!(server.read(&mut [0; 1]).await?, 0);
        server.write_all(b"x").await?;
        assert_eq!(client.read(&mut [0; 1]).await?, 1);
        Ok(())
    });
}

#[test]
fn a_vectored_write_sends_all_buffers() {
    block_on(async {
        let (stream, mut far) = unix_pair()?;
        let buffers = [
            IoSlice::new(b"hello"),
            IoSlice::new(b", "),
            IoSlice::new(b"world"),
        ];
        let sent = poll_fn(|cx| stream.poll_write_vectored(cx, &buffers)).await?;
        assert_eq!(sent, 12);
        let mut received = [0; 12];
        far.read_exact(&mut received)?;
        assert_eq!(&received, b"hello, world");
        Ok(())
    });
}

#[test]
fn dropping_a_stream_closes_it() {
    block_on(async {
        let (stream, mut far) = unix_pair()?;
        drop(stream);
        assert_eq!(far.read(&mut [0; 1])?, 0);
        Ok(())
    });
}

#[test]
fn into_inner_keeps_a_connection_open() {
    let mut runtime = Runtime::new().unwrap();
    let (inner, mut far) = runtime
        .block_on(async {
            let (stream, far) = unix_pair().unwrap();
            (stream.into_inner(), far)
        })
        .unwrap();
    assert_eq!(runtime.event_loop().stats().active, 0);
    inner.send(b"hello").unwrap();
    far.read_exact(&mut [0; 5]).unwrap();
}

#[test]
fn a_stream_that_is_always_ready_starves_nobody() {
    block_on(async {
        let (stream, mut far) = unix_pair()?;
        far.shutdown(Shutdown::Read)?;
        let feeding = thread::spawn(move || while far.write_all(&[0; 4096]).is_ok() {});
        let greedy = spawn_local(async move {
            loop {
                assert!(stream.read(&mut [0; 16]).await.unwrap() > 0);
            }
        });
        for _ in 0..100 {
            sleep(MS).await; // it comes back in spite of the other task
        }
        greedy.abort();
        drop(greedy);
        yield_now().await;
        feeding.join().unwrap();
        Ok(())
    });
}

#[test]
fn a_stream_of_another_runtime_is_an_error() {
    let mut runtime = Runtime::new().unwrap();
    let (stream, _far) = runtime.block_on(async { unix_pair() }).unwrap().unwrap();
    let other = async {
        let error = stream.read(&mut [0; 1]).await.unwrap_err();
        assert!(
            error.to_string().contains("belongs to another runtime"),
            "{error}"
        );
        let error = stream.write_all(b"x").await.unwrap_err();
        assert!(
            error.to_string().contains("belongs to another runtime"),
            "{error}"
        );
    };
    Runtime::new().unwrap().block_on(other).unwrap();
    drop(stream); // outside: its token ends at the next step
    assert_eq!(runtime.event_loop().stats().active, 1);
    runtime.block_on(async {}).unwrap();
    assert_eq!(runtime.event_loop().stats().active, 0);
}

#[test]
fn a_stream_that_outlives_its_runtime_is_closed() {
    let mut runtime = Runtime::new().unwrap();
    let (stream, mut far) = runtime.block_on(async { unix_pair() }).unwrap().unwrap();
    drop(runtime);
    drop(stream);
    assert_eq!(far.read(&mut [0; 1]).unwrap(), 0);
}

// Unix sockets.

#[test]
fn unix_listeners_accept() {
    let directory = evcore_testing::Scratch::new("evcore-async");
    let path = directory.path().join("socket");
    block_on(async {
        let address = format!("unix:{}", path.display());
        let listener = UnixListener::bind(address.as_str())?;
        let client = UnixStream::connect(&listener.local_addr()).await?;
        let (server, _) = listener.accept().await?;
        client.write_all(b"hello").await?;
        assert_eq!(server.read(&mut [0; 16]).await?, 5);
        Ok(())
    });
}

// Datagrams.

#[test]
fn datagrams_keep_their_ends() {
    block_on(async {
        let [near, far] = [
            UdpSocket::bind("127.0.0.1:0")?,
            UdpSocket::bind("127.0.0.1:0")?,
        ];
        let to = far.local_addr()?;
        for length in [1, 100, 0, 1000] {
            assert_eq!(near.send_to(&vec![7; length], to).await?, length);
        }
        for length in [1, 100, 0, 1000] {
            let received = far.recv_from(&mut [0; 2000]).await?;
            assert_eq!(received, (length, near.local_addr()?));
        }
        Ok(())
    });
}

#[test]
fn a_datagram_wakes_the_task_that_waits_for_it() {
    block_on(async {
        let socket = UdpSocket::bind("127.0.0.1:0")?;
        let to = socket.local_addr()?;
        let waiting = spawn_local(async move { socket.recv_from(&mut [0; 16]).await });
        yield_now().await;
        std::net::UdpSocket::bind("127.0.0.1:0")?.send_to(b"hello", to)?;
        assert_eq!(waiting.await.unwrap()?.0, 5);
        Ok(())
    });
}

#[test]
fn a_datagram_that_does_not_fit_is_cut() {
    block_on(async {
        let [near, far] = [
            UdpSocket::bind("127.0.0.1:0")?,
            UdpSocket::bind("127.0.0.1:0")?,
        ];
        near.connect(far.local_addr()?)?;
        near.send(b"hello").await?;
        let mut buffer = [0; 2];
        assert_eq!(far.recv_from(&mut buffer).await?.0, 2);
        assert_eq!(&buffer, b"he");
        Ok(())
    });
}

// Time.

#[test]
fn a_sleep_is_never_early() {
    block_on(async {
        for ms in [0, 1, 5, 20] {
            let (time, began) = (Duration::from_millis(ms), Instant::now());
            sleep(time).await;
            assert!(began.elapsed() >= time);
        }
        Ok(())
    });
}

#[test]
fn a_sleep_counts_from_its_call_and_not_from_the_turn() {
    block_on(async {
        let began = Instant::now();
        while began.elapsed() < 5 * MS {} // the turn's time is older now
        let before = Instant::now();
        sleep(5 * MS).await;
        assert!(before.elapsed() >= 5 * MS);
        Ok(())
    });
}

#[test]
fn a_sleep_until_the_past_ends_at_once() {
    block_on(async {
        let deadline = now();
        yield_now().await;
        sleep_until(deadline).await;
        assert!(now() >= deadline);
        Ok(())
    });
}

#[test]
fn the_longest_sleep_does_not_end() {
    block_on(async {
        assert_eq!(timeout(MS, sleep(Duration::MAX)).await, Err(TimedOut));
        Ok(())
    });
}

#[test]
fn sleeps_end_in_the_order_of_their_deadlines() {
    block_on(async {
        let order = Rc::new(std::cell::RefCell::new(Vec::new()));
        let tasks = [30, 10, 20].map(|ms| {
            let order = Rc::clone(&order);
            spawn_local(async move {
                sleep(Duration::from_millis(ms)).await;
                order.borrow_mut().push(ms);
            })
        });
        for task in tasks {
            task.await.unwrap();
        }
        assert_eq!(*order.borrow(), [10, 20, 30]);
        Ok(())
    });
}

#[test]
fn a_reset_moves_a_sleep_to_later() {
    block_on(async {
        let began = now();
        let mut sleeping = pin!(sleep(MS));
        assert!(poll_once(sleeping.as_mut()).await.is_pending());
        sleeping.as_mut().get_mut().reset(began + 10 * MS);
        sleeping.await;
        assert!(now() >= began + 10 * MS);
        Ok(())
    });
}

#[test]
fn a_reset_moves_a_sleep_to_earlier() {
    block_on(async {
        let mut sleeping = pin!(sleep(LONG));
        assert!(poll_once(sleeping.as_mut()).await.is_pending());
        sleeping.as_mut().get_mut().reset(now());
        sleeping.await;
        Ok(())
    });
}

#[test]
fn a_sleep_that_has_ended_can_be_reset() {
    block_on(async {
        let mut sleeping: Sleep = sleep(MS);
        (&mut sleeping).await;
        let deadline = now() + 2 * MS;
        sleeping.reset(deadline);
        (&mut sleeping).await;
        assert!(now() >= deadline && sleeping.deadline() == deadline);
        Ok(())
    });
}

#[test]
fn a_reset_before_the_first_poll_counts() {
    block_on(async {
        let mut sleeping = sleep(LONG);
        sleeping.reset(now() + MS);
        sleeping.await;
        Ok(())
    });
}

#[test]
fn a_timeout_returns_the_output_in_time() {
    block_on(async {
        assert_eq!(timeout(LONG, async { 42 }).await, Ok(42));
        let slow = async {
            sleep(MS).await;
            43
        };
        assert_eq!(timeout(LONG, slow).await, Ok(43));
        Ok(())
    });
}

#[test]
fn a_timeout_of_nothing_still_polls_its_future() {
    block_on(async {
        assert_eq!(timeout(Duration::ZERO, async { 42 }).await, Ok(42));
        Ok(())
    });
}

#[test]
fn a_timeout_ends_a_read() {
    block_on(async {
        let (stream, mut far) = unix_pair()?;
        let error: io::Error = timeout(MS, stream.read(&mut [0; 1]))
            .await
            .unwrap_err()
            .into();
        assert_eq!(error.kind(), ErrorKind::TimedOut);
        far.write_all(b"x")?; // nothing was lost
        assert_eq!(stream.read(&mut [0; 1]).await?, 1);
        Ok(())
    });
}

#[test]
fn an_interval_keeps_its_rate() {
    block_on(async {
        let began = now();
        let mut ticks = interval(3 * MS);
        let due = [ticks.tick().await, ticks.tick().await, ticks.tick().await];
        assert!(due[0] >= began + 3 * MS);
        for [before, after] in [[due[0], due[1]], [due[1], due[2]]] {
            let periods = (after - before).as_nanos() / 3_000_000;
            assert_eq!(after - before, u32::try_from(periods).unwrap() * 3 * MS);
        }
        Ok(())
    });
}

#[test]
fn an_interval_leaves_out_the_ticks_that_were_missed() {
    block_on(async {
        let mut ticks = interval(2 * MS);
        let began = Instant::now();
        while began.elapsed() < 15 * MS {} // blocks
        let first = ticks.tick().await;
        let second = ticks.tick().await;
        assert!(second - first >= 12 * MS, "{:?}", second - first);
        Ok(())
    });
}

#[test]
#[should_panic(expected = "an interval needs a period")]
fn an_interval_of_nothing_is_refused() {
    block_on(async {
        let _ = interval(Duration::ZERO);
        Ok(())
    });
}

#[test]
fn many_sleeps_end_together() {
    block_on(async {
        let ended = Rc::new(Cell::new(0));
        let deadline = now() + 5 * MS;
        let tasks: Vec<_> = (0..10_000)
            .map(|_| {
                let ended = Rc::clone(&ended);
                spawn_local(async move {
                    sleep_until(deadline).await;
                    ended.set(ended.get() + 1);
                })
            })
            .collect();
        for task in tasks {
            task.await.unwrap();
        }
        assert_eq!(ended.get(), 10_000);
        Ok(())
    });
}

// Copying.

/// A proxy between two pairs; returns the ends outside, and the task.
async fn proxy() -> io::Result<(
    TcpStream,
    TcpStream,
    evcore_async::JoinHandle<io::Result<(u64, u64)>>,
)> {
    let (near, mut a) = tcp_pair().await?;
    let (far, mut b) = tcp_pair().await?;
    let copying = spawn_local(async move { copy_bidirectional(&mut a, &mut b).await });
    Ok((near, far, copying))
}

#[test]
fn a_copy_goes_both_ways() {
    block_on(async {
        let (near, far, copying) = proxy().await?;
        near.write_all(b"ping").await?;
        far.write_all(b"pong!").await?;
        assert_eq!(far.read(&mut [0; 16]).await?, 4);
        assert_eq!(near.read(&mut [0; 16]).await?, 5);
        near.shutdown_write()?;
        far.shutdown_write()?;
        assert_eq!(copying.await.unwrap()?, (4, 5));
        Ok(())
    });
}

#[test]
fn a_copy_goes_on_when_one_side_has_ended() {
    block_on(async {
        let (near, far, copying) = proxy().await?;
        near.shutdown_write()?;
        assert_eq!(far.read(&mut [0; 16]).await?, 0);
        far.write_all(b"still here").await?;
        assert_eq!(near.read(&mut [0; 16]).await?, 10);
        assert!(!copying.is_finished());
        far.shutdown_write()?;
        assert_eq!(near.read(&mut [0; 16]).await?, 0);
        assert_eq!(copying.await.unwrap()?, (0, 10));
        Ok(())
    });
}

#[test]
fn a_copy_waits_for_a_slow_receiver() {
    block_on(async {
        let (near, far, copying) = proxy().await?;
        let sending = spawn_local(async move {
            near.write_all(&[7; 8 << 20]).await?;
            near.shutdown_write()?;
            near.read(&mut [0; 1]).await
        });
        for _ in 0..10 {
            sleep(MS).await;
        }
        assert!(!sending.is_finished(), "8 MiB do not fit into the buffers");
        let mut received = Vec::new();
        (&far).read_to_end(&mut received).await?;
        assert!(received == vec![7; 8 << 20]);
        drop(far);
        assert_eq!(sending.await.unwrap()?, 0);
        assert_eq!(copying.await.unwrap()?, (8 << 20, 0));
        Ok(())
    });
}

#[test]
fn a_copy_ends_with_an_error_of_a_stream() {
    block_on(async {
        let (near, far, copying) = proxy().await?;
        near.write_all(b"unread").await?;
        far.read(&mut [0; 1]).await?;
        drop(far); // with unread data: resets
        let error = copying.await.unwrap().unwrap_err();
        assert_eq!(error.kind(), ErrorKind::ConnectionReset);
        Ok(())
    });
}

// Blocking work, and other descriptors.

#[test]
fn blocking_jobs_run_beside_the_tasks() {
    block_on(async {
        let pool = BlockingPool::new(2, 100)?;
        let (sender, receiver) = std::sync::mpsc::channel();
        let blocked = pool.clone();
        let job = spawn_local(async move { blocked.run(move || receiver.recv()).await });
        for _ in 0..3 {
            yield_now().await; // the loop is not blocked
        }
        sender.send(42).unwrap();
        assert_eq!(job.await.unwrap().unwrap(), Ok(42));
        Ok(())
    });
}

#[test]
fn the_panic_of_a_job_is_its_error() {
    block_on(async {
        let pool = BlockingPool::new(1, 1)?;
        let error = pool.run(|| panic!("a bug")).await.unwrap_err();
        assert!(matches!(error, JoinError::Panicked(_)));
        assert_eq!(pool.run(|| 42).await.unwrap(), 42);
        Ok(())
    });
}

#[test]
fn jobs_beyond_the_limit_wait_for_room() {
    block_on(async {
        let pool = BlockingPool::new(1, 2)?;
        let jobs: Vec<_> = (0..20)
            .map(|number| {
                let pool = pool.clone();
                spawn_local(async move { pool.run(move || number).await })
            })
            .collect();
        for (number, job) in jobs.into_iter().enumerate() {
            assert_eq!(job.await.unwrap().unwrap(), number);
        }
        Ok(())
    });
}

#[test]
fn the_end_of_a_child_process_is_awaited() {
    // Its output ends with it.
    block_on(async {
        let mut child = std::process::Command::new("sh")
            .args(["-c", "echo hello; exit 3"])
            .stdout(std::process::Stdio::piped())
            .spawn()?;
        let output = OwnedFd::from(child.stdout.take().unwrap());
        rustix::io::ioctl_fionbio(&output, true)?;
        let output = Watched::new(std::fs::File::from(output))?;
        let mut buffer = [0; 16];
        let mut read = async || output.read_with(|mut file| file.read(&mut buffer)).await;
        assert_eq!(read().await?, 6);
        assert_eq!(read().await?, 0);
        assert_eq!(child.wait()?.code(), Some(3));
        Ok(())
    });
}

// A loop of steps.

#[test]
fn a_server_of_steps_uses_a_client_of_futures() {
    use evcore::{Listener, Step, Stream};
    let listener = Listener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().clone();
    let mut ev = EventLoop::builder().listener(listener).build().unwrap();
    let executor = Executor::new(&ev);
    let client = executor.spawn(&mut ev, async move {
        let stream = TcpStream::connect(&address).await?;
        let mut greeting = [0; 5];
        (&stream).read_exact(&mut greeting).await?;
        Ok::<_, io::Error>(greeting)
    });
    let client = client.unwrap();
    let mut accepted: Vec<Stream> = Vec::new();
    while !client.is_finished() {
        ev.wait().unwrap();
        while let Some(step) = ev.next_step() {
            if let Some(Step::Accepted(new)) = executor.on_step(&mut ev, step) {
                new.stream.send(b"hello").unwrap();
                accepted.push(new.stream);
            }
        }
    }
    assert_eq!(accepted.len(), 1);
    let greeting = Runtime::new().unwrap().block_on(client).unwrap().unwrap();
    assert_eq!(&greeting.unwrap(), b"hello");
}
