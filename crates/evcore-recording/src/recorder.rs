//! Wraps what a loop gets from outside, and records what comes back.

use std::{
    fmt, io,
    os::fd::BorrowedFd,
    path::Path,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use evcore::{
    Acceptor, Address, Transport,
    clock::{Clock, TimeSource, WallTime},
    net::{self, Accept, Resource},
    poller::{
        Backend, Capabilities, Error, EventSink, Events, Registration, Result, Source, Target,
        Waker,
    },
};
use rustix::io::Errno;

use crate::{
    address,
    call::{Digest, What, number_of},
    file,
    recording::bits_of,
    writer::{LEAST, Writer},
};

/// Records what a loop gets from outside.
///
/// The program wraps the clock, the backend and the listeners of its loop once, when it builds the
/// loop. A clone is another handle to the same recording, which has a bounded size. When it is full,
/// nothing more is recorded until [`restart`](Self::restart).
///
/// **The recording has what clients have sent**, with their passwords.
///
/// ```
/// use evcore::{EventLoop, Builder, Listener, clock::SystemTimeSource, poller::BackendKind};
/// use evcore_recording::Recorder;
///
/// let recorder = Recorder::in_memory(1 << 20);
/// let listener = Listener::bind("127.0.0.1:0")?;
/// let mut ev = Builder::default()
///     .clock(recorder.clock(SystemTimeSource::new()))
///     .backend(recorder.backend(BackendKind::Poll.open()?))
///     .listener(recorder.listener(listener))
///     .build()?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone)]
pub struct Recorder {
    shared: Arc<Mutex<Shared>>,
}

struct Shared {
    writer: Writer,
    /// Number of streams and of listeners so far.
    streams: u32,
    listeners: u32,
}

impl Recorder {
    /// Records into memory, for tests and for a program that writes it somewhere itself.
    ///
    /// # Panics
    ///
    /// If there are fewer than 40 bytes.
    #[must_use]
    pub fn in_memory(bytes: usize) -> Self {
        assert!(bytes >= LEAST, "a recording needs at least {LEAST} bytes");
        Self::with(Writer::new(Box::new(vec![0; bytes])))
    }

    /// Records into a new file of this size, in place of one at that path. Only its owner may read it.
    ///
    /// The file is mapped memory, so recording makes no system call, and what is recorded survives a
    /// kill of the process.
    ///
    /// # Errors
    ///
    /// If the file cannot be made, or the disk has no room for it.
    ///
    /// # Panics
    ///
    /// If there are fewer than 40 bytes.
    pub fn create(path: impl AsRef<Path>, bytes: usize) -> io::Result<Self> {
        assert!(bytes >= LEAST, "a recording needs at least {LEAST} bytes");
        Ok(Self::with(Writer::new(Box::new(file::create(
            path.as_ref(),
            bytes,
        )?))))
    }

    fn with(writer: Writer) -> Self {
        let shared = Shared {
            writer,
            streams: 0,
            listeners: 0,
        };
        Self {
            shared: Arc::new(Mutex::new(shared)),
        }
    }

    /// A clock that records what its source returns.
    #[must_use]
    pub fn clock(&self, source: impl TimeSource + 'static) -> Clock {
        Clock::with_source(RecordedTime {
            recorder: self.clone(),
            source,
        })
    }

    /// A backend that records what its waits report. A turn of the recording ends when a wait begins.
    #[must_use]
    pub fn backend(&self, backend: Box<dyn Backend>) -> impl Backend + use<> {
        self.lock()
            .writer
            .set_capabilities(bits_of(backend.capabilities()));
        RecordedBackend {
            recorder: self.clone(),
            backend,
            events: Events::raw(1),
            bytes: Vec::new(),
        }
    }

    /// A listener that records what it accepts, and so do its streams.
    #[must_use]
    pub fn listener<L: Acceptor>(&self, listener: L) -> RecordedListener<L> {
        let mut shared = self.lock();
        shared.listeners += 1;
        RecordedListener {
            recorder: self.clone(),
            number: shared.listeners - 1,
            listener,
        }
    }

    /// Begins the recording anew, and forgets what was recorded. Call it before the program builds a new
    /// loop, because a replay begins with one: when a worker starts, or when no connection is open.
    ///
    /// The epoch in the recording's header counts these calls.
    pub fn restart(&self) {
        let mut shared = self.lock();
        shared.writer.restart();
        (shared.streams, shared.listeners) = (0, 0);
    }

    /// The recording so far.
    #[must_use]
    pub fn to_bytes(&self) -> Vec<u8> {
        self.lock().writer.bytes().to_vec()
    }

    /// Returns whether there was no room for something.
    #[must_use]
    pub fn is_full(&self) -> bool {
        self.lock().writer.is_full()
    }

    fn lock(&self) -> MutexGuard<'_, Shared> {
        // A recording of a thread that has panicked is what it is for.
        self.shared.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn call(&self, what: What, of: u32, result: i64, bytes: &[u8]) {
        self.lock().writer.call(what, of, result, bytes);
    }

    /// Ends the turn that is under way, so that it can be read.
    fn seal(&self) {
        self.lock().writer.seal();
    }
}

impl fmt::Debug for Recorder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Recorder")
            .field("is_full", &self.is_full())
            .finish_non_exhaustive()
    }
}

/// A source of time that is recorded.
struct RecordedTime<T> {
    recorder: Recorder,
    source: T,
}

impl<T: TimeSource> TimeSource for RecordedTime<T> {
    fn monotonic_ns(&self) -> u64 {
        let ns = self.source.monotonic_ns();
        self.recorder.call(What::Monotonic, 0, ns as i64, &[]);
        ns
    }

    fn wall_time(&self) -> WallTime {
        let time = self.source.wall_time();
        self.recorder.call(
            What::Wall,
            0,
            time.unix_seconds,
            &time.subsecond_ns.to_le_bytes(),
        );
        time
    }

    fn offset_at(&self, unix_seconds: i64) -> i32 {
        let offset = self.source.offset_at(unix_seconds);
        self.recorder.call(What::Offset, 0, offset.into(), &[]);
        offset
    }
}

/// A backend that is recorded.
#[derive(Debug)]
struct RecordedBackend {
    recorder: Recorder,
    backend: Box<dyn Backend>,
    /// What a wait has reported, with as much room as the loop's own.
    events: Events,
    /// The same for the recording. Kept for its memory.
    bytes: Vec<u8>,
}

impl RecordedBackend {
    /// Records a refusal. The other registrations need no record.
    fn refused<T>(&self, result: Result<T>) -> Result<T> {
        if let Err(Error::Os { source, .. }) = &result {
            self.recorder.call(What::Refused, 0, number_of(source), &[]);
        }
        result
    }
}

impl Backend for RecordedBackend {
    fn name(&self) -> &'static str {
        self.backend.name()
    }

    fn capabilities(&self) -> Capabilities {
        self.backend.capabilities()
    }

    fn add(&mut self, registration: &Registration) -> Result<()> {
        let result = self.backend.add(registration);
        self.refused(result)
    }

    fn modify(&mut self, registration: &Registration) -> Result<()> {
        let result = self.backend.modify(registration);
        self.refused(result)
    }

    fn reregister(&mut self, registration: &Registration) -> Result<()> {
        let result = self.backend.reregister(registration);
        self.refused(result)
    }

    fn remove(&mut self, registration: &Registration) -> Result<()> {
        let result = self.backend.remove(registration);
        self.refused(result)
    }

    fn remove_before_close(&mut self, registration: &Registration) {
        self.backend.remove_before_close(registration);
    }

    fn wait(&mut self, mut events: EventSink<'_>, timeout: Option<Duration>) -> Result<()> {
        self.recorder.seal();
        if self.events.capacity() < events.remaining() {
            self.events = Events::raw(events.remaining());
        }
        self.events.clear();
        let result = self
            .backend
            .wait(EventSink::from(&mut self.events), timeout);
        let bytes = &mut self.bytes;
        bytes.clear();
        for event in &self.events {
            events.push(event.key, event.ready);
            bytes.extend(event.key.to_le_bytes());
            bytes.extend(event.ready.bits().to_le_bytes());
        }
        let woken = self.events.was_woken();
        if woken {
            events.set_woken();
        }
        let number = match &result {
            Ok(()) => self.events.len() as i64,
            Err(Error::Interrupted) => -i64::from(Errno::INTR.raw_os_error()),
            Err(Error::Os { source, .. }) => number_of(source),
            Err(_) => -i64::from(Errno::IO.raw_os_error()),
        };
        self.recorder.call(What::Wait, woken.into(), number, bytes);
        result
    }

    fn reset(&mut self) -> Result<bool> {
        self.backend.reset()
    }

    fn descriptor(&self) -> Option<BorrowedFd<'_>> {
        self.backend.descriptor()
    }

    fn waker(&self) -> Waker {
        self.backend.waker()
    }
}

/// The last turn ends with the loop, also if a panic ends both.
impl Drop for RecordedBackend {
    fn drop(&mut self) {
        self.recorder.seal();
    }
}

/// A listener that is recorded. [`Recorder::listener`] makes it.
#[derive(Debug)]
pub struct RecordedListener<L> {
    recorder: Recorder,
    number: u32,
    listener: L,
}

impl<L: Source> Source for RecordedListener<L> {
    fn target(&self) -> Target<'_> {
        self.listener.target()
    }
}

impl<L: Acceptor> Acceptor for RecordedListener<L> {
    type Stream = RecordedStream<L::Stream>;

    fn accept(&self) -> std::result::Result<Accept<Self::Stream>, net::Error> {
        let accepted = self.listener.accept();
        let of = self.number;
        let errno = |errno: Errno| -i64::from(errno.raw_os_error());
        let (result, bytes) = match &accepted {
            Ok(Accept::Connection(_, peer)) => {
                let mut shared = self.recorder.lock();
                shared.streams += 1;
                (i64::from(shared.streams - 1), address::to_bytes(peer))
            }
            Ok(Accept::WouldBlock) => (errno(Errno::AGAIN), Vec::new()),
            Ok(Accept::Aborted) => (errno(Errno::CONNABORTED), Vec::new()),
            Ok(Accept::Exhausted(Resource::Process)) => (errno(Errno::MFILE), Vec::new()),
            Ok(Accept::Exhausted(Resource::System)) => (errno(Errno::NFILE), Vec::new()),
            // Memory, and whatever comes later.
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

/// A stream that is recorded. A [`RecordedListener`] accepts it.
#[derive(Debug)]
pub struct RecordedStream<S> {
    recorder: Recorder,
    number: u32,
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
        self.record(What::Recv, &result, &buffer[..received]);
        result
    }

    fn send(&self, bytes: &[u8]) -> io::Result<usize> {
        let result = self.stream.send(bytes);
        self.record(What::Send, &result, Digest::of(bytes).as_bytes());
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

/// The same error, as far as a recording keeps it.
fn clone(error: &io::Error) -> io::Error {
    let number = i32::try_from(-number_of(error)).expect("it was one");
    io::Error::from_raw_os_error(number)
}

impl<S> Drop for RecordedStream<S> {
    fn drop(&mut self) {
        self.recorder.call(What::Close, self.number, 0, &[]);
    }
}
