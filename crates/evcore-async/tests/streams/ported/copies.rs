use std::io::{self, ErrorKind};
use std::pin::Pin;
use std::task::{Context, Poll};

use evcore_async::{JoinHandle, TcpStream, copy_bidirectional, spawn_local, timeout};
use futures_lite::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};

use crate::{MS, block_on, tcp_pair};

type Copying = JoinHandle<io::Result<(u64, u64)>>;

/// Tests the copying with both orders of its arguments, as `io_copy_bidirectional.rs` of tokio
/// does.
fn symmetric(test: impl AsyncFn(Copying, TcpStream, TcpStream) -> io::Result<()>) {
    block_on(async {
        for is_swapped in [false, true] {
            let (a, mut a1) = tcp_pair().await?;
            let (b, mut b1) = tcp_pair().await?;
            let copying = spawn_local(async move {
                if is_swapped {
                    let (back, there) = copy_bidirectional(&mut b1, &mut a1).await?;
                    Ok((there, back))
                } else {
                    copy_bidirectional(&mut a1, &mut b1).await
                }
            });
            test(copying, a, b).await?;
        }
        Ok(())
    });
}

/// tokio `io_copy_bidirectional.rs`: `test_basic_transfer`.
#[test]
fn bytes_arrive_at_the_other_end() {
    symmetric(async |_copying, a, mut b| {
        a.write_all(b"test").await?;
        let mut received = [0; 4];
        b.read_exact(&mut received).await?;
        assert_eq!(&received, b"test");
        Ok(())
    });
}

/// tokio `io_copy_bidirectional.rs`: `test_transfer_after_close`.
#[test]
fn bytes_arrive_after_the_other_direction_has_ended() {
    symmetric(async |copying, mut a, mut b| {
        a.close().await?;
        b.read_to_end(&mut Vec::new()).await?;
        b.write_all(b"quux").await?;
        let mut received = [0; 4];
        a.read_exact(&mut received).await?;
        assert_eq!(&received, b"quux");
        drop(b);
        assert_eq!(copying.await.unwrap()?, (0, 4));
        Ok(())
    });
}

/// tokio `io_copy_bidirectional.rs`: `blocking_one_side_does_not_block_other`.
#[test]
fn a_direction_that_is_blocked_does_not_block_the_other() {
    symmetric(async |copying, mut a, mut b| {
        let mut sent = 0;
        let write = async {
            loop {
                sent += (&a).write(&[0; 2048]).await?;
            }
            #[expect(unreachable_code, reason = "for its type")]
            Ok::<(), io::Error>(())
        };
        assert!(
            timeout(10 * MS, write).await.is_err(),
            "all buffers are full"
        );
        b.write_all(b"quux").await?;
        let mut received = [0; 4];
        a.read_exact(&mut received).await?;
        assert_eq!(&received, b"quux");
        a.close().await?;
        let mut received = Vec::new();
        b.read_to_end(&mut received).await?;
        assert_eq!(received.len(), sent);
        drop(b);
        assert_eq!(copying.await.unwrap()?, (sent as u64, 4));
        Ok(())
    });
}

/// A stream whose calls have fixed results.
struct Fixed {
    reads: io::Result<usize>,
    writes: io::Result<()>,
}

fn refused<T>() -> io::Result<T> {
    Err(ErrorKind::PermissionDenied.into())
}

impl AsyncRead for Fixed {
    fn poll_read(
        self: Pin<&mut Self>,
        _: &mut Context<'_>,
        buffer: &mut [u8],
    ) -> Poll<io::Result<usize>> {
        Poll::Ready(match self.reads {
            Ok(length) => Ok(length.min(buffer.len())),
            Err(_) => refused(),
        })
    }
}

impl AsyncWrite for Fixed {
    fn poll_write(
        self: Pin<&mut Self>,
        _: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        Poll::Ready(match self.writes {
            Ok(()) => Ok(bytes.len()),
            Err(_) => refused(),
        })
    }

    fn poll_flush(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn poll_close(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }
}

/// tokio `io_copy_bidirectional.rs`: `immediate_exit_on_write_error`,
/// `immediate_exit_on_read_error`.
#[test]
fn an_error_of_a_side_ends_the_copying_at_once() {
    block_on(async {
        for (reads, writes) in [(Ok(15), false), (Err(()), true)] {
            let [mut a, mut b] = [(); 2].map(|()| Fixed {
                reads: reads.or_else(|()| refused()),
                writes: if writes { Ok(()) } else { refused() },
            });
            let error = copy_bidirectional(&mut a, &mut b).await.unwrap_err();
            assert_eq!(error.kind(), ErrorKind::PermissionDenied);
        }
        Ok(())
    });
}

/// tokio `io_copy_bidirectional.rs`: `copy_bidirectional_is_cooperative`.
#[test]
fn a_copy_that_never_waits_lets_others_run() {
    block_on(async {
        let copying = async {
            let [mut a, mut b] = [(); 2].map(|()| Fixed {
                reads: Ok(15),
                writes: Ok(()),
            });
            copy_bidirectional(&mut a, &mut b).await
        };
        assert!(timeout(MS, copying).await.is_err());
        Ok(())
    });
}
