//! Listeners, connectors and streams of a replay.

use std::{
    io::{self, IoSlice},
    os::fd::BorrowedFd,
    time::Duration,
};

use evcore::{
    Acceptor, Address, Connector, Transport,
    net::{self, Accept, Resource},
    poller::{Source, Target},
};
use rustix::io::Errno;

use crate::{
    address,
    call::{Call, Digest, What},
    recorded_stream::{digest_of, part_of_file},
    replay::Replay,
};

impl Replay {
    /// The next recorded listener, in the order in which the recorded program wrapped its
    /// listeners.
    #[must_use]
    pub fn listener(&self) -> ReplayedListener {
        let mut tape = self.lock();
        tape.listeners += 1;
        ReplayedListener::new(self.clone(), tape.listeners - 1, tape.new_target())
    }

    /// The next recorded connector, in the order in which the recorded program wrapped its
    /// connectors.
    #[must_use]
    pub fn connector(&self) -> ReplayedConnector {
        let mut tape = self.lock();
        tape.connectors += 1;
        ReplayedConnector::new(self.clone(), tape.connectors - 1)
    }
}

/// A recorded listener. [`Replay::listener`] returns it.
#[derive(Debug)]
pub struct ReplayedListener {
    replay: Replay,
    number: u32,
    target: u32,
}

impl ReplayedListener {
    fn new(replay: Replay, number: u32, target: u32) -> Self {
        Self {
            replay,
            number,
            target,
        }
    }
}

impl Source for ReplayedListener {
    fn target(&self) -> Target<'_> {
        Target::Simulated(self.target)
    }
}

impl Acceptor for ReplayedListener {
    type Stream = ReplayedStream;

    fn accept(&self) -> Result<Accept<ReplayedStream>, net::Error> {
        // After a difference, and after the end, no connection arrives, and the next wait fails.
        let Ok(call) = self.replay.call(What::Accept, self.number, &[]) else {
            return Ok(Accept::WouldBlock);
        };
        let Some(error) = call.error() else {
            let stream = ReplayedStream::of(&self.replay, &call);
            return Ok(Accept::Connection(stream, address::from_bytes(&call.bytes)));
        };
        Ok(match Errno::from_io_error(&error) {
            Some(Errno::CONNABORTED) => Accept::Aborted,
            Some(Errno::MFILE) => Accept::Exhausted(Resource::Process),
            Some(Errno::NFILE) => Accept::Exhausted(Resource::System),
            Some(Errno::NOBUFS) => Accept::Exhausted(Resource::Memory),
            Some(Errno::AGAIN) => Accept::WouldBlock,
            _ => {
                let address = Address::Unnamed;
                return Err(net::Error::Accept {
                    address,
                    source: error,
                });
            }
        })
    }
}

/// A recorded connector. [`Replay::connector`] returns it.
#[derive(Debug)]
pub struct ReplayedConnector {
    replay: Replay,
    number: u32,
}

impl ReplayedConnector {
    fn new(replay: Replay, number: u32) -> Self {
        Self { replay, number }
    }
}

impl Connector for ReplayedConnector {
    type Stream = ReplayedStream;

    fn connect(&self, address: &Address) -> Result<ReplayedStream, net::Error> {
        let call = self
            .replay
            .call(What::Connect, self.number, &address::to_bytes(address));
        let connected = call.and_then(|call| match call.error() {
            Some(error) => Err(error),
            None => Ok(ReplayedStream::of(&self.replay, &call)),
        });
        let address = address.clone();
        connected.map_err(|source| match source.kind() {
            io::ErrorKind::WouldBlock => net::Error::BacklogFull { address },
            _ => net::Error::Connect {
                address,
                call: "the replayed call",
                source,
            },
        })
    }

    /// Returns true, because the recorded connector may have connected by sending, so that the
    /// program went on without the peer's address. If the program has read the address, the
    /// recording has the result.
    fn connects_by_sending(&self) -> bool {
        true
    }
}

/// A recorded stream. A [`ReplayedListener`] or a [`ReplayedConnector`] returns it.
#[derive(Debug)]
pub struct ReplayedStream {
    replay: Replay,
    number: u32,
    target: u32,
}

impl ReplayedStream {
    /// The stream that a call returned.
    fn of(replay: &Replay, call: &Call) -> Self {
        Self {
            number: u32::try_from(call.result).unwrap_or_default(),
            target: replay.lock().new_target(),
            replay: replay.clone(),
        }
    }

    /// Number of bytes that the recorded call took. It is at most `length`, even if the recording
    /// is damaged.
    fn sent(&self, what: What, bytes: &[u8], length: usize) -> io::Result<usize> {
        let count = self.call(what, bytes)?.count()?;
        Ok(count.min(length))
    }

    fn call(&self, what: What, bytes: &[u8]) -> io::Result<Call> {
        self.replay.call(what, self.number, bytes)
    }
}

impl Source for ReplayedStream {
    fn target(&self) -> Target<'_> {
        Target::Simulated(self.target)
    }
}

impl Transport for ReplayedStream {
    fn recv(&self, buffer: &mut [u8]) -> io::Result<usize> {
        let call = self.call(What::Recv, &[])?;
        let count = call.count()?.min(call.bytes.len()).min(buffer.len());
        buffer[..count].copy_from_slice(&call.bytes[..count]);
        Ok(count)
    }

    fn send(&self, bytes: &[u8]) -> io::Result<usize> {
        self.sent(What::Send, Digest::of(bytes).as_bytes(), bytes.len())
    }

    fn send_vectored(&self, buffers: &[IoSlice<'_>]) -> io::Result<usize> {
        let length = buffers.iter().map(|buffer| buffer.len()).sum();
        self.sent(What::Send, digest_of(buffers).as_bytes(), length)
    }

    fn send_file(&self, _: BorrowedFd<'_>, offset: u64, count: usize) -> io::Result<usize> {
        self.sent(What::SendFile, &part_of_file(offset, count), count)
    }

    fn is_delivered(&self) -> io::Result<bool> {
        Ok(self.call(What::IsDelivered, &[])?.count()? == 1)
    }

    fn since_last_packet(&self) -> io::Result<Duration> {
        let ns = self.call(What::SinceLastPacket, &[])?.count()?;
        Ok(Duration::from_nanos(ns as u64))
    }

    fn shutdown_write(&self) -> io::Result<()> {
        self.call(What::ShutdownWrite, &[])?.count().map(drop)
    }

    fn peer_addr(&self) -> io::Result<Address> {
        let call = self.call(What::PeerAddr, &[])?;
        call.count()?;
        Ok(address::from_bytes(&call.bytes))
    }

    fn take_error(&self) -> io::Result<Option<io::Error>> {
        let call = self.call(What::TakeError, &[])?;
        if call.count()? == 0 {
            return Ok(None);
        }
        let number = call.bytes.try_into().map_or(0, i64::from_le_bytes);
        Ok(Call::new(What::TakeError, 0, number).error())
    }
}

impl Drop for ReplayedStream {
    fn drop(&mut self) {
        // A difference is kept for the caller of `Replay::difference`.
        let _ = self.call(What::Close, &[]);
    }
}
