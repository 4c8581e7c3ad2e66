//! Tests of tokio's stream traits, with tokio's own functions and without its runtime.

use std::io::IoSlice;

use evcore::Stream as Socket;
use evcore_async::{Runtime, TcpListener, TcpStream, UnixStream, spawn_local};
use std::os::fd::OwnedFd;
use tokio::io::{
    AsyncBufReadExt, AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt, BufReader,
    copy_bidirectional,
};

/// The two ends of a connection, of which only tokio's traits are visible.
fn unix_pair() -> [impl AsyncRead + AsyncWrite + Unpin + 'static; 2] {
    let (near, far) = std::os::unix::net::UnixStream::pair().unwrap();
    [near, far].map(|stream| UnixStream::new(Socket::from(OwnedFd::from(stream))).unwrap())
}

#[test]
fn bytes_are_read_and_written_up_to_a_shutdown() {
    let done = Runtime::new().unwrap().block_on(async {
        let [mut near, mut far] = unix_pair();
        let sent = vec![7; 1 << 20];
        let all = sent.clone();
        let writer = spawn_local(async move {
            near.write_all(&all).await?;
            near.flush().await?;
            near.shutdown().await?;
            let mut answer = String::new();
            near.read_to_string(&mut answer).await?;
            std::io::Result::Ok(answer)
        });
        let mut received = Vec::new();
        far.read_to_end(&mut received).await.unwrap();
        assert_eq!(received, sent);
        far.write_all(b"thanks").await.unwrap();
        drop(far);
        assert_eq!(writer.await.unwrap().unwrap(), "thanks");
    });
    done.unwrap();
}

#[test]
fn buffers_are_written_in_one_call_and_read_in_lines() {
    let done = Runtime::new().unwrap().block_on(async {
        let [mut near, far] = unix_pair();
        assert!(near.is_write_vectored());
        let pieces = [IoSlice::new(b"one\n"), IoSlice::new(b"two\n")];
        assert_eq!(near.write_vectored(&pieces).await.unwrap(), 8);
        drop(near);
        let mut lines = BufReader::new(far).lines();
        assert_eq!(lines.next_line().await.unwrap().as_deref(), Some("one"));
        assert_eq!(lines.next_line().await.unwrap().as_deref(), Some("two"));
        assert_eq!(lines.next_line().await.unwrap(), None);
    });
    done.unwrap();
}

#[test]
fn a_proxy_copies_both_directions() {
    let done = Runtime::new().unwrap().block_on(async {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr();
        let [mut upstream, mut server] = unix_pair();
        let proxy = spawn_local(async move {
            let (mut client, _) = listener.accept().await?;
            copy_bidirectional(&mut client, &mut upstream).await
        });
        let echo = spawn_local(async move {
            let mut bytes = Vec::new();
            server.read_to_end(&mut bytes).await?;
            server.write_all(&bytes).await?;
            server.shutdown().await
        });
        let mut client = TcpStream::connect(&address).await.unwrap();
        client.write_all(b"to and fro").await.unwrap();
        AsyncWriteExt::shutdown(&mut client).await.unwrap();
        let mut back = String::new();
        BufReader::new(client)
            .read_to_string(&mut back)
            .await
            .unwrap();
        assert_eq!(back, "to and fro");
        assert_eq!(proxy.await.unwrap().unwrap(), (10, 10));
        echo.await.unwrap().unwrap();
    });
    done.unwrap();
}
