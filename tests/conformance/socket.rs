//! One end of a connection. The connection is a real one of the kernel, or one of the simulator.

use std::{
    io::{self, ErrorKind, Read, Write},
    os::{fd::OwnedFd, unix::net::UnixStream},
};

use evcore_poller::{Source, Target};
use evcore_sim::SimStream;

/// A non-blocking stream socket.
#[derive(Debug)]
pub(crate) enum Socket {
    Real(UnixStream),
    Simulated(SimStream),
}

impl Socket {
    pub(crate) fn shutdown_write(&self) -> io::Result<()> {
        match self {
            Self::Real(stream) => stream.shutdown(std::net::Shutdown::Write),
            Self::Simulated(stream) => stream.shutdown_write(),
        }
    }

    /// Another descriptor of the same socket, if the platform has duplicates.
    pub(crate) fn duplicate(&self) -> Option<Self> {
        match self {
            Self::Real(stream) => Some(Self::Real(stream.try_clone().expect("a duplicate"))),
            Self::Simulated(_) => None,
        }
    }
}

impl Source for Socket {
    fn target(&self) -> Target<'_> {
        match self {
            Self::Real(stream) => stream.target(),
            Self::Simulated(stream) => stream.target(),
        }
    }
}

impl From<OwnedFd> for Socket {
    fn from(fd: OwnedFd) -> Self {
        Self::Real(fd.into())
    }
}

impl Read for &Socket {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        match self {
            Socket::Real(stream) => (&mut &*stream).read(buffer),
            Socket::Simulated(stream) => (&mut &*stream).read(buffer),
        }
    }
}

impl Write for &Socket {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        match self {
            Socket::Real(stream) => (&mut &*stream).write(bytes),
            Socket::Simulated(stream) => (&mut &*stream).write(bytes),
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl Read for Socket {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        (&*self).read(buffer)
    }
}

impl Write for Socket {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        (&*self).write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// Writes until the socket is full, and returns the number of written bytes.
pub(crate) fn fill(mut stream: impl Write) -> usize {
    let mut written = 0;
    loop {
        match stream.write(&[b'x'; 4096]) {
            Ok(n) => written += n,
            Err(error) if error.kind() == ErrorKind::WouldBlock => return written,
            Err(error) => panic!("write: {error}"),
        }
    }
}

/// The state in which [`drain`] found a stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Drained {
    /// The next read would block.
    Empty,
    /// The next read returns 0 bytes, because the stream has ended.
    AtEnd,
}

/// Reads until nothing is left. Returns the number of bytes, and the state of the stream.
pub(crate) fn drain(mut stream: impl Read) -> (usize, Drained) {
    let (mut bytes, mut count) = ([0; 4096], 0);
    loop {
        match stream.read(&mut bytes) {
            Ok(0) => return (count, Drained::AtEnd),
            Ok(n) => count += n,
            Err(error) if error.kind() == ErrorKind::WouldBlock => return (count, Drained::Empty),
            Err(error) => panic!("read: {error}"),
        }
    }
}
