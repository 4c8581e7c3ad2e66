//! Streams, listeners, datagrams and time, as users of tokio and smol expect them.
//!
//! The tests in `ported`, and most tests in `processes`, repeat the assertions of tests of tokio
//! and async-io, and name these tests.

mod connectors;
mod copies;
mod datagrams;
mod others;
mod ported;
mod processes;
mod refused_clients;
mod tcp;
mod time;

use std::future::{Future, poll_fn};
use std::io;
use std::net::SocketAddr;
use std::os::fd::OwnedFd;
use std::pin::Pin;
use std::task::Poll;
use std::time::Duration;

use evcore::Address;
use evcore_async::{Runtime, TcpListener, TcpStream, UnixStream};
use futures_lite::future;

pub(crate) const MS: Duration = Duration::from_millis(1);
pub(crate) const LONG: Duration = Duration::from_secs(3600);

pub(crate) fn block_on<F: Future<Output = io::Result<()>>>(future: F) {
    Runtime::new().unwrap().block_on(future).unwrap().unwrap();
}

pub(crate) async fn poll_once<F: Future>(mut future: Pin<&mut F>) -> Poll<F::Output> {
    poll_fn(|cx| Poll::Ready(future.as_mut().poll(cx))).await
}

/// The two ends of a TCP connection of the runtime: the client's, and the accepted one.
pub(crate) async fn tcp_pair() -> io::Result<(TcpStream, TcpStream)> {
    let listener = TcpListener::bind("127.0.0.1:0")?;
    let address = listener.local_addr();
    let (client, accepted) = future::zip(TcpStream::connect(&address), listener.accept()).await;
    Ok((client?, accepted?.0))
}

/// A Unix stream of the runtime, and its blocking peer.
pub(crate) fn unix_pair() -> io::Result<(UnixStream, std::os::unix::net::UnixStream)> {
    let (near, far) = std::os::unix::net::UnixStream::pair()?;
    Ok((
        UnixStream::new(evcore::Stream::from(OwnedFd::from(near)))?,
        far,
    ))
}

pub(crate) fn socket_addr(address: Address) -> SocketAddr {
    match address {
        Address::Tcp(address) => address,
        other => panic!("{other} is not of TCP"),
    }
}
