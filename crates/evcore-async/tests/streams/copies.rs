//! Tests of copying in both directions.

use std::io::{self, ErrorKind};

use evcore_async::{TcpStream, copy_bidirectional, sleep, spawn_local};
use futures_lite::AsyncReadExt;

use crate::{MS, block_on, tcp_pair};

/// Copies between two connections. Returns the outer end of each, and the task that copies.
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
        drop(far); // resets the connection, because of unread data
        let error = copying.await.unwrap().unwrap_err();
        assert_eq!(error.kind(), ErrorKind::ConnectionReset);
        Ok(())
    });
}
