//! Tests of UDP sockets.

use evcore_async::{UdpSocket, spawn_local, yield_now};

use crate::block_on;

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
