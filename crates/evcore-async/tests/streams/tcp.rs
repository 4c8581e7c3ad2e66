//! Tests of connections and listeners.

use std::cell::{Cell, RefCell};
use std::future::{Future, poll_fn};
use std::io::{self, ErrorKind, IoSlice, Read, Write};
use std::net::Shutdown;
use std::pin::pin;
use std::rc::Rc;
use std::sync::Arc;
use std::task::{Context, Poll, Wake, Waker};
use std::thread;

use evcore::EventLoop;
use evcore_async::{
    Runtime, TcpListener, TcpStream, UnixListener, UnixStream, sleep, spawn_local, timeout,
    yield_now,
};
use futures_lite::{AsyncReadExt, AsyncWriteExt, future};

use crate::{MS, block_on, poll_once, socket_addr, tcp_pair, unix_pair};

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
fn a_malformed_address_is_an_error() {
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
fn no_client_is_accepted_that_no_task_awaits() {
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
fn an_accept_waits_for_room_that_was_taken_while_it_waited() {
    let ev = EventLoop::builder().connections(3).build().unwrap();
    let test = async {
        let listener = TcpListener::bind("127.0.0.1:0")?;
        let mut accepting = pin!(listener.accept());
        assert!(poll_once(accepting.as_mut()).await.is_pending()); // there is room
        let taken = [unix_pair()?, unix_pair()?]; // now there is none
        let _client = std::net::TcpStream::connect(socket_addr(listener.local_addr()))?;
        assert!(timeout(20 * MS, accepting.as_mut()).await.is_err());
        drop(taken);
        accepting.await?;
        Ok::<(), io::Error>(())
    };
    Runtime::from(ev).block_on(test).unwrap().unwrap();
}

#[test]
fn listeners_get_the_room_of_a_full_loop_alternately() {
    const CLIENTS: usize = 20;
    let ev = EventLoop::builder().connections(3).build().unwrap();
    let test = async {
        let listeners = [(); 2].map(|()| TcpListener::bind("127.0.0.1:0").unwrap());
        let [first, second] = [0, 1].map(|index| socket_addr(listeners[index].local_addr()));
        let connect = |address| std::net::TcpStream::connect(address).unwrap();
        let _clients = [(); CLIENTS].map(|()| connect(first));
        let _client = connect(second);
        let order = Rc::new(RefCell::new(Vec::new()));
        for (index, listener) in listeners.into_iter().enumerate() {
            let order = Rc::clone(&order);
            drop(spawn_local(async move {
                loop {
                    let (stream, _) = listener.accept().await.unwrap();
                    order.borrow_mut().push(index);
                    drop(spawn_local(async move {
                        sleep(MS).await;
                        drop(stream);
                    }));
                }
            }));
        }
        while order.borrow().len() < CLIENTS + 1 {
            sleep(MS).await;
        }
        let place = order.borrow().iter().position(|index| *index == 1);
        assert!(place.unwrap() <= 2, "{order:?}");
    };
    Runtime::from(ev).block_on(test).unwrap();
}

/// A waker that drops the stream in `STREAM`.
struct DropsStream;

thread_local! {
    static STREAM: RefCell<Option<UnixStream>> = const { RefCell::new(None) };
}

impl Wake for DropsStream {
    fn wake(self: Arc<Self>) {
        STREAM.take();
    }
}

#[test]
fn a_waker_woken_for_room_may_drop_a_stream() {
    let ev = EventLoop::builder().connections(3).build().unwrap();
    let test = async {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let (first, _far) = unix_pair().unwrap();
        let (second, _far) = unix_pair().unwrap();
        STREAM.set(Some(second));
        let waker = Waker::from(Arc::new(DropsStream));
        let mut accepting = pin!(listener.accept());
        let polled = accepting.as_mut().poll(&mut Context::from_waker(&waker));
        assert!(polled.is_pending());
        drop(first);
        assert!(STREAM.take().is_none());
    };
    let mut runtime = Runtime::from(ev);
    runtime.block_on(test).unwrap();
    assert_eq!(runtime.event_loop().stats().active, 0);
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
fn a_read_into_an_empty_buffer_is_not_the_end() {
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
fn a_task_makes_at_most_128_calls_in_one_poll() {
    const BYTES: usize = 1_000;
    block_on(async {
        // In one turn (iteration of the loop), each of the eight streams could make 32 calls.
        let pairs = [(); 8].map(|()| unix_pair().unwrap());
        for (_, far) in &pairs {
            (&mut &*far).write_all(&[7; BYTES])?;
        }
        let (mut received, mut most) = (0, 0);
        poll_fn(|cx| {
            let mut calls = 0;
            for (near, _) in &pairs {
                while matches!(near.poll_read(cx, &mut [0]), Poll::Ready(Ok(1))) {
                    calls += 1;
                }
            }
            received += calls;
            most = most.max(calls);
            if received == 8 * BYTES {
                Poll::Ready(())
            } else {
                Poll::Pending
            }
        })
        .await;
        assert!((100..=128).contains(&most), "{most}");
        Ok(())
    });
}

#[test]
fn a_task_may_wait_for_more_streams_than_it_may_make_calls() {
    block_on(async {
        let mut pairs = Vec::new();
        for _ in 0..200 {
            pairs.push(unix_pair()?);
        }
        pairs[199].1.write_all(b"x")?;
        let mut polls = 0;
        let first = poll_fn(|cx| {
            polls += 1;
            let is_ready = |(near, _): &(UnixStream, _)| near.poll_read(cx, &mut [0]).is_ready();
            pairs
                .iter()
                .position(is_ready)
                .map_or(Poll::Pending, Poll::Ready)
        });
        assert_eq!(first.await, 199);
        assert!(polls < 10, "{polls} polls");
        Ok(())
    });
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
            sleep(MS).await; // it ends although the other task is always ready
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
            error.to_string().contains("watched by another runtime"),
            "{error}"
        );
        let error = stream.write_all(b"x").await.unwrap_err();
        assert!(
            error.to_string().contains("watched by another runtime"),
            "{error}"
        );
    };
    Runtime::new().unwrap().block_on(other).unwrap();
    drop(stream); // outside its runtime, so its token ends at the next step
    assert_eq!(runtime.event_loop().stats().active, 1);
    runtime.block_on(async {}).unwrap();
    assert_eq!(runtime.event_loop().stats().active, 0);
}

#[test]
fn a_stream_that_outlives_its_runtime_is_closed() {
    let mut runtime = Runtime::new().unwrap();
    let mut pair = || runtime.block_on(async { unix_pair() }).unwrap().unwrap();
    let streams = [pair(), pair()];
    drop(runtime);
    for (stream, mut far) in streams {
        drop(stream);
        assert_eq!(far.read(&mut [0; 1]).unwrap(), 0);
    }
}

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

#[test]
fn an_idle_connection_ends_in_a_shutdown_and_a_busy_one_stays() {
    let ev = EventLoop::builder().idle_grace(std::time::Duration::ZERO);
    let mut runtime = Runtime::from(ev.build().unwrap());
    let test = async {
        let (idle, _far) = unix_pair()?;
        let (busy, mut client) = unix_pair()?;
        let idle = spawn_local(async move { idle.read_idle(&mut [0; 1]).await });
        let is_busy = Rc::new(Cell::new(false));
        let became_busy = Rc::clone(&is_busy);
        let busy = spawn_local(async move {
            busy.read_idle(&mut [0; 1]).await?;
            is_busy.set(true);
            busy.read(&mut [0; 1]).await
        });
        client.write_all(b"1")?;
        while !became_busy.get() {
            yield_now().await;
        }
        evcore_async::handle().shutdown(std::time::Duration::from_secs(60));
        let error = idle.await.unwrap().unwrap_err();
        assert_eq!(error.kind(), ErrorKind::ConnectionAborted);
        assert!(!busy.is_finished());
        client.write_all(b"2")?;
        assert_eq!(busy.await.unwrap()?, 1);
        Ok::<(), io::Error>(())
    };
    runtime.block_on(test).unwrap().unwrap();
}
