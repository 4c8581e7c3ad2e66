//! Tests that a program may define a connector of its own.

use std::cell::RefCell;
use std::io::{self, ErrorKind, Read};
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;

use evcore::poller::{Source, Target};
use evcore::{Address, Connector, Transport};

use crate::block_on;

/// A connector whose stream is ready at once and has no peer, as with TCP Fast Open before the
/// first bytes are sent.
#[derive(Debug)]
struct Deferred(RefCell<Option<evcore::Stream>>);

#[derive(Debug)]
struct DeferredStream(evcore::Stream);

impl Connector for Deferred {
    type Stream = DeferredStream;

    fn connect(&self, _: &Address) -> Result<DeferredStream, evcore::net::Error> {
        Ok(DeferredStream(self.0.take().expect("the first call")))
    }

    fn connects_by_sending(&self) -> bool {
        true
    }
}

impl Source for DeferredStream {
    fn target(&self) -> Target<'_> {
        self.0.target()
    }
}

impl Transport for DeferredStream {
    fn recv(&self, buffer: &mut [u8]) -> io::Result<usize> {
        self.0.recv(buffer)
    }

    fn send(&self, bytes: &[u8]) -> io::Result<usize> {
        self.0.send(bytes)
    }

    fn shutdown_write(&self) -> io::Result<()> {
        self.0.shutdown_write()
    }

    fn peer_addr(&self) -> io::Result<Address> {
        Err(ErrorKind::NotConnected.into())
    }

    fn take_error(&self) -> io::Result<Option<io::Error>> {
        self.0.take_error()
    }
}

#[test]
fn a_connect_that_sends_with_its_first_bytes_is_ready_at_once() {
    let (near, mut far) = UnixStream::pair().unwrap();
    near.set_nonblocking(true).unwrap();
    let near = evcore::Stream::from(OwnedFd::from(near));
    block_on(async {
        let connector = Deferred(Some(near).into());
        let stream = evcore_async::Stream::connect_with(&connector, &Address::Unnamed).await?;
        stream.write_all(b"hello").await
    });
    let mut received = [0; 5];
    far.read_exact(&mut received).unwrap();
    assert_eq!(&received, b"hello");
}
