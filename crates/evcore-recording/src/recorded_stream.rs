//! Listeners, connectors and streams that are recorded.

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
    call::{Digest, What, number_of},
    filter::Filter,
    recorder::Recorder,
};

impl Recorder {
    /// Wraps a listener. The results of its calls, and of the calls of its streams, are recorded.
    #[must_use]
    pub fn listener<L: Acceptor>(&self, listener: L) -> RecordedListener<L> {
        let number = self.lock().next_listener();
        RecordedListener::new(self.clone(), number, listener)
    }

    /// Wraps a connector. The results of its calls, and of the calls of its streams, are recorded.
    #[must_use]
    pub fn connector<C: Connector>(&self, connector: C) -> RecordedConnector<C> {
        let number = self.lock().next_connector();
        RecordedConnector::new(self.clone(), number, connector)
    }
}

/// A listener that is recorded. [`Recorder::listener`] makes it.
#[derive(Debug)]
pub struct RecordedListener<L> {
    recorder: Recorder,
    number: u32,
    listener: L,
}

impl<L> RecordedListener<L> {
    fn new(recorder: Recorder, number: u32, listener: L) -> Self {
        Self {
            recorder,
            number,
            listener,
        }
    }
}

impl<L: Source> Source for RecordedListener<L> {
    fn target(&self) -> Target<'_> {
        self.listener.target()
    }
}

impl<L: Acceptor> Acceptor for RecordedListener<L> {
    type Stream = RecordedStream<L::Stream>;

    fn accept(&self) -> Result<Accept<Self::Stream>, net::Error> {
        let accepted = self.listener.accept();
        let of = self.number;
        let errno = |errno: Errno| -i64::from(errno.raw_os_error());
        let (result, bytes) = match &accepted {
            Ok(Accept::Connection(_, peer)) => {
                let number = self.recorder.lock().next_stream();
                (i64::from(number), address::to_bytes(peer))
            }
            Ok(Accept::WouldBlock) => (errno(Errno::AGAIN), Vec::new()),
            Ok(Accept::Aborted) => (errno(Errno::CONNABORTED), Vec::new()),
            Ok(Accept::Exhausted(Resource::Process)) => (errno(Errno::MFILE), Vec::new()),
            Ok(Accept::Exhausted(Resource::System)) => (errno(Errno::NFILE), Vec::new()),
            // The memory is exhausted, or a resource that a later version adds.
            Ok(Accept::Exhausted(_)) => (errno(Errno::NOBUFS), Vec::new()),
            Err(net::Error::Accept { source, .. }) => (number_of(source), Vec::new()),
            Err(_) => (errno(Errno::IO), Vec::new()),
        };
        self.recorder.call(What::Accept, of, result, &bytes);
        Ok(match accepted? {
            Accept::Connection(stream, peer) => {
                let stream = RecordedStream {
                    recorder: self.recorder.clone(),
                    number: u32::try_from(result).unwrap_or_default(),
                    filter: self.recorder.filter(),
                    stream,
                };
                Accept::Connection(stream, peer)
            }
            Accept::WouldBlock => Accept::WouldBlock,
            Accept::Aborted => Accept::Aborted,
            Accept::Exhausted(resource) => Accept::Exhausted(resource),
        })
    }
}

/// A connector that is recorded. [`Recorder::connector`] makes it.
#[derive(Debug)]
pub struct RecordedConnector<C> {
    recorder: Recorder,
    number: u32,
    connector: C,
}

impl<C> RecordedConnector<C> {
    fn new(recorder: Recorder, number: u32, connector: C) -> Self {
        Self {
            recorder,
            number,
            connector,
        }
    }
}

impl<C: Connector> Connector for RecordedConnector<C> {
    type Stream = RecordedStream<C::Stream>;

    fn connect(&self, address: &Address) -> Result<Self::Stream, net::Error> {
        let connected = self.connector.connect(address);
        let mut shared = self.recorder.lock();
        let result = match &connected {
            Ok(_) => i64::from(shared.next_stream()),
            Err(net::Error::Connect { source, .. } | net::Error::Option { source, .. }) => {
                number_of(source)
            }
            Err(net::Error::BacklogFull { .. }) => number_of(&Errno::AGAIN.into()),
            Err(net::Error::Unsupported { .. }) => number_of(&Errno::NOSYS.into()),
            Err(_) => number_of(&Errno::IO.into()),
        };
        shared.call(
            What::Connect,
            self.number,
            result,
            &address::to_bytes(address),
        );
        drop(shared);
        let stream = connected?;
        Ok(RecordedStream {
            recorder: self.recorder.clone(),
            number: u32::try_from(result).unwrap_or_default(),
            filter: self.recorder.filter(),
            stream,
        })
    }

    fn connects_by_sending(&self) -> bool {
        self.connector.connects_by_sending()
    }
}

/// A stream that is recorded. A [`RecordedListener`] or a [`RecordedConnector`] returns it.
#[derive(Debug)]
pub struct RecordedStream<S> {
    recorder: Recorder,
    number: u32,
    filter: Filter,
    stream: S,
}

impl<S> RecordedStream<S> {
    fn record(&self, what: What, result: &io::Result<usize>, bytes: &[u8]) {
        let number = match result {
            Ok(count) => *count as i64,
            Err(error) => number_of(error),
        };
        self.recorder.call(what, self.number, number, bytes);
    }
}

impl<S: Source> Source for RecordedStream<S> {
    fn target(&self) -> Target<'_> {
        self.stream.target()
    }
}

impl<S: Transport> Transport for RecordedStream<S> {
    fn recv(&self, buffer: &mut [u8]) -> io::Result<usize> {
        let result = self.stream.recv(buffer);
        let received = result.as_ref().map_or(0, |count| *count);
        self.filter.pass(&buffer[..received], |bytes| {
            self.record(What::Recv, &result, bytes);
        });
        result
    }

    fn recv_buf(&self, buffer: &mut Vec<u8>) -> io::Result<usize> {
        let held = buffer.len();
        let result = self.stream.recv_buf(buffer);
        self.filter.pass(&buffer[held..], |bytes| {
            self.record(What::Recv, &result, bytes);
        });
        result
    }

    fn send(&self, bytes: &[u8]) -> io::Result<usize> {
        let result = self.stream.send(bytes);
        self.record(What::Send, &result, Digest::of(bytes).as_bytes());
        result
    }

    fn send_vectored(&self, buffers: &[IoSlice<'_>]) -> io::Result<usize> {
        let result = self.stream.send_vectored(buffers);
        self.record(What::Send, &result, digest_of(buffers).as_bytes());
        result
    }

    fn send_file(&self, file: BorrowedFd<'_>, offset: u64, count: usize) -> io::Result<usize> {
        let result = self.stream.send_file(file, offset, count);
        self.record(What::SendFile, &result, &part_of_file(offset, count));
        result
    }

    fn send_more(&self, bytes: &[u8]) -> io::Result<usize> {
        let result = self.stream.send_more(bytes);
        self.record(What::Send, &result, Digest::of(bytes).as_bytes());
        result
    }

    fn is_delivered(&self) -> io::Result<bool> {
        let result = self.stream.is_delivered();
        let number = result
            .as_ref()
            .map_err(clone)
            .map(|delivered| usize::from(*delivered));
        self.record(What::IsDelivered, &number, &[]);
        result
    }

    fn since_last_packet(&self) -> io::Result<Duration> {
        let result = self.stream.since_last_packet();
        let in_ns = |since: &Duration| usize::try_from(since.as_nanos()).unwrap_or(usize::MAX);
        self.record(
            What::SinceLastPacket,
            &result.as_ref().map_err(clone).map(in_ns),
            &[],
        );
        result
    }

    fn shutdown_write(&self) -> io::Result<()> {
        let result = self.stream.shutdown_write();
        let number = result.as_ref().map_err(clone).map(|()| 0);
        self.record(What::ShutdownWrite, &number, &[]);
        result
    }

    fn peer_addr(&self) -> io::Result<Address> {
        let result = self.stream.peer_addr();
        let (number, bytes) = match &result {
            Ok(peer) => (Ok(0), address::to_bytes(peer)),
            Err(error) => (Err(clone(error)), Vec::new()),
        };
        self.record(What::PeerAddr, &number, &bytes);
        result
    }

    fn take_error(&self) -> io::Result<Option<io::Error>> {
        let result = self.stream.take_error();
        let (number, bytes) = match &result {
            Ok(None) => (Ok(0), Vec::new()),
            Ok(Some(error)) => (Ok(1), number_of(error).to_le_bytes().to_vec()),
            Err(error) => (Err(clone(error)), Vec::new()),
        };
        self.record(What::TakeError, &number, &bytes);
        result
    }
}

pub(crate) fn digest_of(buffers: &[IoSlice<'_>]) -> Digest {
    Digest::of_all(buffers.iter().map(|buffer| &buffer[..]))
}

pub(crate) fn part_of_file(offset: u64, count: usize) -> [u8; 16] {
    let mut bytes = [0; 16];
    bytes[..8].copy_from_slice(&offset.to_le_bytes());
    bytes[8..].copy_from_slice(&(count as u64).to_le_bytes());
    bytes
}

/// The same error, as far as a recording keeps it.
fn clone(error: &io::Error) -> io::Error {
    let number = i32::try_from(-number_of(error)).expect("an error number fits an i32");
    io::Error::from_raw_os_error(number)
}

impl<S> Drop for RecordedStream<S> {
    fn drop(&mut self) {
        self.recorder.call(What::Close, self.number, 0, &[]);
    }
}
