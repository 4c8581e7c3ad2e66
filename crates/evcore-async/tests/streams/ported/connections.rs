//! Tests of connections. The doc comment of each test names the tests of tokio and async-io whose
//! assertions it repeats.

use std::future::Future;
use std::io::{self, ErrorKind, Read};
use std::net::{Shutdown, SocketAddr};
use std::pin::{Pin, pin};
use std::rc::Rc;

use evcore::net::ConnectOptions;
use evcore_async::{
    TcpListener, TcpStream, UnixListener, UnixStream, sleep, spawn_local, yield_now,
};
use evcore_testing::Scratch;
use futures_lite::{AsyncReadExt, AsyncWriteExt, future::zip};
use rustix::net::sockopt::set_socket_linger;

use crate::{MS, block_on, poll_once, socket_addr, tcp_pair, unix_pair};

const TEXT: &[u8] = b"Lorem ipsum dolor sit amet, consectetur adipiscing elit.";

/// Connects to a new listener, and compares the addresses of both ends.
async fn connect_and_compare(bound: &str) -> io::Result<()> {
    let listener = TcpListener::bind(bound)?;
    let address = listener.local_addr();
    let accepting = spawn_local(async move { listener.accept().await });
    let mine = TcpStream::connect(&address).await?;
    let (theirs, peer) = accepting.await.unwrap()?;
    assert_eq!(peer, theirs.peer_addr()?);
    assert_eq!(mine.local_addr()?, theirs.peer_addr()?);
    assert_eq!(theirs.local_addr()?, mine.peer_addr()?);
    Ok(())
}

/// tokio `tcp_connect.rs`: `connect_v4`; async-io `async.rs`: `tcp_connect`.
#[test]
fn the_addresses_of_both_ends_agree() {
    block_on(connect_and_compare("127.0.0.1:0"));
}

/// tokio `tcp_connect.rs`: `connect_v6`; `tcp_socket.rs`: `basic_usage_v6`.
#[test]
fn the_addresses_of_both_ends_agree_with_ipv6() {
    if std::net::TcpListener::bind("[::1]:0").is_err() {
        return evcore_testing::not_run("there is no IPv6");
    }
    block_on(connect_and_compare("[::1]:0"));
}

/// tokio `tcp_connect.rs`: `connect_addr_ip_string`, `connect_addr_ip_str_slice`,
/// `connect_addr_ip_port_tuple`; `tcp_accept.rs`: `ip_str`, `socket_addr`.
#[test]
fn an_address_has_many_types() {
    block_on(async {
        let any: SocketAddr = "127.0.0.1:0".parse().unwrap();
        let listener = TcpListener::bind(any)?;
        let address = socket_addr(listener.local_addr());
        let text = address.to_string();
        let clients = [
            TcpStream::connect(&*text).await?,
            TcpStream::connect(text.clone()).await?,
            TcpStream::connect(&text).await?,
            TcpStream::connect(address).await?,
            TcpStream::connect(SocketAddr::from((address.ip(), address.port()))).await?,
        ];
        for client in clients {
            assert_eq!(listener.accept().await?.1, client.local_addr()?);
        }
        Ok(())
    });
}

/// tokio `tcp_socket.rs`: `bind_before_connect`.
#[test]
fn a_client_has_the_local_address_that_it_chose() {
    block_on(async {
        let listener = TcpListener::bind("127.0.0.1:0")?;
        let any: SocketAddr = "127.0.0.2:0".parse().unwrap();
        let options = ConnectOptions::new().local_address(any);
        let _client = TcpStream::connect_with(&options, &listener.local_addr()).await?;
        let (_, peer) = listener.accept().await?;
        assert_eq!(socket_addr(peer).ip(), any.ip());
        Ok(())
    });
}

/// async-io `async.rs`: `tcp_connect`, `uds_connect`; tokio `uds_stream.rs`: `epollhup`.
#[test]
fn a_connect_after_the_listener_has_closed_is_refused() {
    block_on(async {
        let listener = TcpListener::bind("127.0.0.1:0")?;
        let address = listener.local_addr();
        TcpStream::connect(&address).await?;
        drop(listener);
        let error = TcpStream::connect(&address).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::ConnectionRefused);

        let folder = Scratch::new("evcore-async");
        let path = format!("unix:{}", folder.path().join("socket").display());
        let listener = UnixListener::bind(&path)?;
        UnixStream::connect(&path).await?;
        drop(listener);
        let error = UnixStream::connect(&path).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::ConnectionRefused);
        Ok(())
    });
}

/// A future that counts its polls.
struct Counted<'a, F>(Pin<&'a mut F>, usize);

impl<F: Future> Future for Counted<'_, F> {
    type Output = (F::Output, usize);

    fn poll(
        mut self: Pin<&mut Self>,
        cx: &mut std::task::Context<'_>,
    ) -> std::task::Poll<Self::Output> {
        self.1 += 1;
        let polls = self.1;
        self.0.as_mut().poll(cx).map(|output| (output, polls))
    }
}

/// tokio `tcp_accept.rs`: `no_extra_poll`.
#[test]
fn an_accept_is_polled_no_more_than_needed() {
    block_on(async {
        let listener = TcpListener::bind("127.0.0.1:0")?;
        let address = listener.local_addr();
        let accepting = spawn_local(async move {
            let (accepted, polls) = Counted(pin!(listener.accept()), 0).await;
            accepted.map(|_| polls)
        });
        for _ in 0..5 {
            yield_now().await;
        }
        let _client = TcpStream::connect(&address).await?;
        assert_eq!(accepting.await.unwrap()?, 2, "pending, and ready");
        Ok(())
    });
}

/// tokio `uds_stream.rs`: `accept_read_write`; async-io `async.rs`: `udp_connect`, which in spite
/// of its name tests a Unix socket.
#[test]
fn a_unix_stream_sends_both_ways_and_ends() {
    block_on(async {
        let folder = Scratch::new("evcore-async");
        let path = format!("unix:{}", folder.path().join("socket").display());
        let listener = UnixListener::bind(&path)?;
        let (client, accepted) = zip(UnixStream::connect(&path), listener.accept()).await;
        let (mut client, (mut server, _)) = (client?, accepted?);
        client.write_all(b"hello").await?;
        let mut buffer = [0; 5];
        server.read_exact(&mut buffer).await?;
        assert_eq!(&buffer, b"hello");
        server.write_all(b"world").await?;
        client.read_exact(&mut buffer).await?;
        assert_eq!(&buffer, b"world");
        drop(client);
        assert_eq!(server.read(&mut buffer).await?, 0);
        Ok(())
    });
}

/// async-io `async.rs`: `tcp_reader_hangup`, `uds_reader_hangup`.
#[test]
fn a_writer_ends_when_its_reader_has_left() {
    block_on(async {
        let (near, far) = tcp_pair().await?;
        let leaving = spawn_local(async move {
            sleep(MS).await;
            drop(far);
        });
        while near.write_all(TEXT).await.is_ok() {}
        leaving.await.unwrap();

        let (near, far) = unix_pair()?;
        let leaving = spawn_local(async move {
            sleep(MS).await;
            drop(far);
        });
        while near.write_all(TEXT).await.is_ok() {}
        leaving.await.unwrap();
        Ok(())
    });
}

/// async-io `async.rs`: `tcp_writer_hangup`.
#[test]
fn a_reader_ends_when_its_writer_has_left() {
    block_on(async {
        let (mut near, far) = tcp_pair().await?;
        let leaving = spawn_local(async move {
            sleep(MS).await;
            drop(far);
        });
        let mut received = Vec::new();
        near.read_to_end(&mut received).await?;
        assert!(received.is_empty());
        leaving.await.unwrap();
        Ok(())
    });
}

/// async-io `async.rs`: `tcp_peek_read`; tokio `tcp_peek.rs`: `peek`.
#[test]
fn bytes_that_were_peeked_at_are_read_again() {
    block_on(async {
        let (near, far) = tcp_pair().await?;
        far.write_all(TEXT).await?;
        let mut buffer = [0; 1024];
        let flags = rustix::net::RecvFlags::PEEK;
        let peek = |stream: &_| Ok(rustix::net::recv(stream, &mut buffer, flags)?.0);
        let peeked = near.watched().read_with(peek).await?;
        assert_eq!(&buffer[..peeked], TEXT);
        let read = near.read(&mut buffer).await?;
        assert_eq!(&buffer[..read], TEXT);
        Ok(())
    });
}

/// async-io `async.rs`: `tcp_duplex`: the readiness to read is not lost when the readiness to write
/// is reported, and vice versa.
#[test]
fn both_sides_wait_at_once_and_both_are_woken() {
    const PIECES: usize = 512;
    async fn read(stream: Rc<TcpStream>) -> io::Result<usize> {
        let (mut buffer, mut total) = (vec![0; 4096], 0);
        loop {
            match stream.read(&mut buffer).await? {
                0 => return Ok(total),
                n => total += n,
            }
        }
    }
    async fn write(stream: Rc<TcpStream>) -> io::Result<()> {
        for _ in 0..PIECES {
            stream.write_all(&[7; 4096]).await?;
        }
        stream.shutdown_write()
    }
    block_on(async {
        let (near, far) = tcp_pair().await?;
        let (near, far) = (Rc::new(near), Rc::new(far));
        let near_reads = spawn_local(read(Rc::clone(&near)));
        let near_writes = spawn_local(write(near));
        for _ in 0..5 {
            sleep(MS).await; // until reading and writing are both blocked
        }
        let far_reads = spawn_local(read(Rc::clone(&far)));
        near_writes.await.unwrap()?;
        assert_eq!(far_reads.await.unwrap()?, PIECES * 4096);
        let far_writes = spawn_local(write(far));
        assert_eq!(near_reads.await.unwrap()?, PIECES * 4096);
        far_writes.await.unwrap()
    });
}

/// async-io `async.rs`: `shutdown`; tokio `tcp_into_split.rs`: `drop_write`; `uds_stream.rs`:
/// `shutdown`.
#[test]
fn a_shutdown_of_the_sending_side_is_an_end_for_its_reader() {
    block_on(async {
        let (mut reader, writer) = tcp_pair().await?;
        let mut received = Vec::new();
        let ended = async { writer.shutdown_write() };
        let both = zip(reader.read_to_end(&mut received), ended).await;
        both.1?;
        assert_eq!(both.0?, 0);
        Ok(())
    });
}

/// tokio `tcp_shutdown.rs`: `shutdown`.
#[test]
fn a_copy_of_nothing_and_a_shutdown_end_both_peers() {
    block_on(async {
        let (mut near, far) = tcp_pair().await?;
        let client = spawn_local(async move {
            near.close().await?;
            near.read(&mut [0; 1]).await
        });
        let copied = futures_lite::io::copy(&far, &far).await?;
        assert_eq!(copied, 0);
        (&far).close().await?;
        assert_eq!(client.await.unwrap()?, 0);
        Ok(())
    });
}

/// tokio `tcp_shutdown.rs`: `shutdown_after_tcp_reset`; `tcp_stream.rs`: `set_linger`.
#[test]
fn a_shutdown_after_a_reset_fails_at_most_with_the_reset() {
    block_on(async {
        let (mut near, far) = tcp_pair().await?;
        let no_time = Some(std::time::Duration::ZERO);
        far.watched().with(|far| set_socket_linger(far, no_time))?;
        drop(far); // resets
        match near.close().await {
            Err(error) if error.kind() != ErrorKind::ConnectionReset => Err(error),
            _ => Ok(()),
        }
    });
}

/// tokio `tcp_shutdown.rs`: `shutdown_multiple_calls`.
#[test]
fn a_stream_may_be_shut_down_again_and_again() {
    block_on(async {
        let (mut near, mut far) = tcp_pair().await?;
        for _ in 0..3 {
            near.close().await?;
        }
        far.close().await?;
        assert_eq!(near.read(&mut [0; 1]).await?, 0);
        near.close().await
    });
}

/// tokio `tcp_stream.rs`: `try_read_write`, `poll_write_ready`, `write_closed`.
#[test]
fn a_writer_waits_while_the_buffers_are_full() {
    block_on(async {
        let (near, far) = tcp_pair().await?;
        let mut sent = 0;
        loop {
            let mut writing = pin!(near.write_all(&[7; 4000]));
            if poll_once(writing.as_mut()).await.is_pending() {
                let mut received = 0;
                let mut is_sent = false;
                while received < sent + 4000 {
                    received += far.read(&mut [0; 65536]).await?;
                    is_sent = is_sent || poll_once(writing.as_mut()).await.is_ready();
                }
                assert!(is_sent);
                break;
            }
            sent += 4000;
        }
        near.write_all(b"more").await?;
        assert_eq!(far.read(&mut [0; 16]).await?, 4);
        Ok(())
    });
}

/// tokio `tcp_stream.rs`: `poll_write_ready`: the end of the peer wakes a writer.
#[test]
fn a_writer_that_waits_is_woken_by_the_end_of_its_peer() {
    block_on(async {
        let (near, far) = tcp_pair().await?;
        let writing = spawn_local(async move {
            loop {
                near.write_all(&[7; 4000]).await?;
            }
            #[expect(unreachable_code, reason = "this line gives the async block its type")]
            Ok::<(), io::Error>(())
        });
        for _ in 0..5 {
            sleep(MS).await;
        }
        assert!(!writing.is_finished());
        drop(far);
        assert!(writing.await.unwrap().is_err());
        Ok(())
    });
}

/// tokio `tcp_stream.rs`: `poll_read_ready`, `read_closed`.
#[test]
fn a_reader_that_waits_is_woken_by_data_and_by_the_end() {
    block_on(async {
        let (near, far) = tcp_pair().await?;
        let mut buffer = [0; 16];
        for message in [&b"ping"[..], b""] {
            let mut reading = pin!(near.read(&mut buffer));
            assert!(poll_once(reading.as_mut()).await.is_pending());
            if message.is_empty() {
                far.shutdown_write()?;
            } else {
                far.write_all(message).await?;
            }
            assert_eq!(reading.await?, message.len());
        }
        Ok(())
    });
}

/// tokio `tcp_stream.rs`: `buffer_not_included_in_future`.
#[test]
fn a_buffer_inside_a_call_is_not_part_of_the_future() {
    let future = async {
        let stream = TcpStream::connect("127.0.0.1:0").await?; // the future is never polled
        loop {
            let read = stream.watched().read_with(|mut stream| {
                let mut buffer = [0; 4096];
                Read::read(&mut stream, &mut buffer)
            });
            if read.await? == 0 {
                return Ok::<(), io::Error>(());
            }
        }
    };
    assert!(size_of_val(&future) < 1000, "{}", size_of_val(&future));
}

/// tokio `tcp_into_std.rs`: `tcp_into_std`.
#[test]
fn a_stream_that_has_left_the_runtime_sends_and_receives() {
    block_on(async {
        let (near, mut far) = tcp_pair().await?;
        let near = std::net::TcpStream::from(std::os::fd::OwnedFd::from(near.into_inner()));
        near.set_nonblocking(false)?;
        std::io::Write::write_all(&mut &near, b"Hello world!")?;
        let mut buffer = [0; 12];
        far.read_exact(&mut buffer).await?;
        assert_eq!(&buffer, b"Hello world!");
        near.shutdown(Shutdown::Write)?;
        assert_eq!(far.read(&mut buffer).await?, 0);
        Ok(())
    });
}
