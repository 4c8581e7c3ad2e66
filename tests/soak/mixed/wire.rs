//! A client's connection, with exact reads and writes.

use std::{
    io::{self, ErrorKind, Read, Write},
    net::{Shutdown, SocketAddr, TcpStream},
    os::{fd::OwnedFd, unix::net::UnixStream},
    path::Path,
    time::Duration,
};

use evcore_tests::PATIENCE;
use rustix::net::sockopt::{set_socket_linger, set_socket_recv_buffer_size};

use super::random::Random;

#[derive(Debug)]
pub(super) struct Wire {
    /// A TCP or a Unix socket. Reading, writing and shutting down work the same on both.
    stream: TcpStream,
    received: Vec<u8>,
}

impl Wire {
    pub(super) fn tcp(address: SocketAddr) -> io::Result<Self> {
        let stream = TcpStream::connect_timeout(&address, PATIENCE)?;
        stream.set_nodelay(true)?;
        Self::patient(stream)
    }

    pub(super) fn unix(path: &Path) -> io::Result<Self> {
        Self::patient(OwnedFd::from(UnixStream::connect(path)?).into())
    }

    fn patient(stream: TcpStream) -> io::Result<Self> {
        stream.set_read_timeout(Some(PATIENCE))?;
        stream.set_write_timeout(Some(PATIENCE))?;
        Ok(Self {
            stream,
            received: Vec::new(),
        })
    }

    pub(super) fn send(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.stream.write_all(bytes)
    }

    pub(super) fn send_slowly(&mut self, bytes: &[u8], random: &mut Random) -> io::Result<()> {
        let size = bytes.len().div_ceil(random.within(2..12)).max(1);
        for piece in bytes.chunks(size) {
            self.send(piece)?;
            random.pause(1..60);
        }
        Ok(())
    }

    pub(super) fn shutdown_write(&self) -> io::Result<()> {
        self.stream.shutdown(Shutdown::Write)
    }

    /// Shrinks the kernel's receive buffer, so that the server has to wait for this client.
    pub(super) fn shrink_receive_buffer(&self) -> io::Result<()> {
        Ok(set_socket_recv_buffer_size(&self.stream, 64 * 1024)?)
    }

    /// Makes the next close a reset, if the protocol has resets.
    pub(super) fn reset_on_close(&self) -> io::Result<()> {
        Ok(set_socket_linger(&self.stream, Some(Duration::ZERO))?)
    }

    /// The client's port; `None` on a Unix socket.
    pub(super) fn local_port(&self) -> Option<u16> {
        self.stream.local_addr().ok().map(|address| address.port())
    }

    pub(super) fn head(&mut self) -> io::Result<Vec<u8>> {
        loop {
            let ends = |four: &[u8]| four == b"\r\n\r\n";
            if let Some(end) = self.received.windows(4).position(ends) {
                return Ok(self.received.drain(..end + 4).collect());
            }
            self.receive(64 * 1024)?;
        }
    }

    pub(super) fn body(&mut self, length: usize) -> io::Result<Vec<u8>> {
        while self.received.len() < length {
            self.receive(64 * 1024)?;
        }
        Ok(self.received.drain(..length).collect())
    }

    pub(super) fn rest(&mut self) -> io::Result<Vec<u8>> {
        loop {
            match self.receive(64 * 1024) {
                Ok(()) => {}
                Err(error) if error.kind() == ErrorKind::UnexpectedEof => {
                    return Ok(std::mem::take(&mut self.received));
                }
                Err(error) => return Err(error),
            }
        }
    }

    pub(super) fn body_slowly(
        &mut self,
        length: usize,
        random: &mut Random,
    ) -> io::Result<Vec<u8>> {
        let size = length.div_ceil(random.within(4..40)).max(1);
        while self.received.len() < length {
            let wanted = (self.received.len() + size).min(length);
            while self.received.len() < wanted {
                self.receive(wanted - self.received.len())?;
            }
            random.pause(1..30);
        }
        self.body(length)
    }

    pub(super) fn has_nothing(&self) -> bool {
        self.received.is_empty()
    }

    /// Reads the end of the stream. No further byte may come before it.
    pub(super) fn end(&mut self) -> io::Result<()> {
        match self.receive(1024) {
            Err(error) if error.kind() == ErrorKind::UnexpectedEof && self.has_nothing() => Ok(()),
            Err(error) => Err(error),
            Ok(()) => Err(io::Error::other("bytes after the last response")),
        }
    }

    fn receive(&mut self, most: usize) -> io::Result<()> {
        let mut bytes = [0; 64 * 1024];
        let most = most.min(bytes.len());
        loop {
            match self.stream.read(&mut bytes[..most]) {
                Ok(0) => return Err(ErrorKind::UnexpectedEof.into()),
                Ok(n) => {
                    self.received.extend_from_slice(&bytes[..n]);
                    return Ok(());
                }
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
    }
}
