use std::io::ErrorKind;
use std::os::unix::net::UnixDatagram;
use std::pin::pin;
use std::rc::Rc;

use evcore_async::{UdpSocket, Watched, spawn_local};

use crate::{block_on, poll_once};

const TEXT: &[u8] = b"Lorem ipsum dolor sit amet";

/// tokio `udp.rs`: `send_recv`, `send_recv_poll`; async-io `async.rs`: `udp_send_recv`.
#[test]
fn connected_sockets_send_and_receive() {
    block_on(async {
        let [near, far] = [
            UdpSocket::bind("127.0.0.1:0")?,
            UdpSocket::bind("127.0.0.1:0")?,
        ];
        near.connect(far.local_addr()?)?;
        far.connect(near.local_addr()?)?;
        assert_eq!(near.send(TEXT).await?, TEXT.len());
        let mut buffer = [0; 64];
        let length = far.recv(&mut buffer).await?;
        assert_eq!(&buffer[..length], TEXT);
        Ok(())
    });
}

/// tokio `udp.rs`: `send_to_recv_from`; async-io `async.rs`: `udp_send_recv`.
#[test]
fn a_datagram_names_its_sender() {
    block_on(async {
        let [near, far] = [
            UdpSocket::bind("127.0.0.1:0")?,
            UdpSocket::bind("127.0.0.1:0")?,
        ];
        near.send_to(TEXT, far.local_addr()?).await?;
        let mut buffer = [0; 64];
        let received = far.recv_from(&mut buffer).await?;
        assert_eq!(received, (TEXT.len(), near.local_addr()?));
        Ok(())
    });
}

/// tokio `udp.rs`: `send_to_peek_from`; async-io `async.rs`: `udp_send_recv`.
#[test]
fn a_datagram_that_was_peeked_at_is_received_again() {
    block_on(async {
        let [near, far] = [
            UdpSocket::bind("127.0.0.1:0")?,
            UdpSocket::bind("127.0.0.1:0")?,
        ];
        near.send_to(TEXT, far.local_addr()?).await?;
        let mut buffer = [0; 64];
        let peek = |socket: &std::net::UdpSocket| socket.peek_from(&mut buffer);
        let peeked = far.watched().read_with(peek).await?;
        assert_eq!(peeked, far.recv_from(&mut buffer).await?);
        Ok(())
    });
}

/// tokio `udp.rs`: `send_to_recv_closed_returns_err`.
#[test]
fn a_datagram_to_nobody_is_an_error_of_a_connected_socket() {
    block_on(async {
        let [near, far] = [
            UdpSocket::bind("127.0.0.1:0")?,
            UdpSocket::bind("127.0.0.1:0")?,
        ];
        near.connect(far.local_addr()?)?;
        drop(far);
        near.send(TEXT).await?;
        let error = near.recv(&mut [0; 64]).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::ConnectionRefused);
        Ok(())
    });
}

/// tokio `udp.rs`: `split`, `split_chan`.
#[test]
fn a_task_receives_while_another_sends() {
    block_on(async {
        let socket = Rc::new(UdpSocket::bind("127.0.0.1:0")?);
        let (address, receiver) = (socket.local_addr()?, Rc::clone(&socket));
        let receiving = spawn_local(async move {
            let mut buffer = [0; 64];
            let (length, _) = receiver.recv_from(&mut buffer).await?;
            Ok::<_, std::io::Error>(buffer[..length].to_vec())
        });
        socket.send_to(TEXT, address).await?;
        assert_eq!(receiving.await.unwrap()?, TEXT);
        Ok(())
    });
}

/// tokio `udp.rs`: `poll_ready`, `try_send_recv`.
#[test]
fn a_receiver_waits_until_a_datagram_comes() {
    block_on(async {
        let [near, far] = [
            UdpSocket::bind("127.0.0.1:0")?,
            UdpSocket::bind("127.0.0.1:0")?,
        ];
        let mut buffer = [0; 64];
        let mut receiving = pin!(far.recv_from(&mut buffer));
        assert!(poll_once(receiving.as_mut()).await.is_pending());
        near.send_to(TEXT, far.local_addr()?).await?;
        assert_eq!(receiving.await?.0, TEXT.len());
        Ok(())
    });
}

/// async-io `async.rs`: `uds_send_recv`.
#[test]
fn unix_datagrams_are_sent_and_received() {
    block_on(async {
        let (near, far) = UnixDatagram::pair()?;
        for socket in [&near, &far] {
            socket.set_nonblocking(true)?;
        }
        let (near, far) = (Watched::new(near)?, Watched::new(far)?);
        near.write_with(|socket| socket.send(TEXT)).await?;
        let mut buffer = [0; 64];
        let length = far.read_with(|socket| socket.recv(&mut buffer)).await?;
        assert_eq!(&buffer[..length], TEXT);
        Ok(())
    });
}
