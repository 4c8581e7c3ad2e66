//! Runs a program on a recording: what it gets from outside is what was recorded.

use std::{
    error, fmt, io,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use evcore::{
    Acceptor, Address, Transport,
    clock::{Clock, TimeSource, WallTime},
    net::{self, Accept, Resource},
    poller::{
        Backend, Capabilities, Error, EventSink, Ready, Registration, Result, Source, Target, Waker,
    },
};
use rustix::io::Errno;

use crate::{
    address,
    call::{Call, Digest, What},
    recording::Recording,
};

/// A recording from which a loop gets what it got then.
///
/// The program builds its loop as it was built when it was recorded, with the clock, the backend and
/// the listeners from here. It then takes the same steps in the same order. The first call that is not
/// the recorded one, with the same bytes to send, is the [`difference`](Self::difference). From then on
/// every call fails. So do calls after the end of the recording, which are no difference.
#[derive(Clone, Debug)]
pub struct Replay {
    tape: Arc<Mutex<Tape>>,
}

/// A recording, and how far it was replayed.
#[derive(Debug)]
struct Tape {
    recording: Recording,
    turn: usize,
    /// The next call of that turn.
    call: usize,
    difference: Option<Difference>,
    listeners: u32,
    /// The number of the next simulated descriptor.
    target: u32,
    /// The last time, for a clock that is read after the end.
    now_ns: u64,
}

/// The first call that is not the recorded one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Difference {
    /// The number of the turn of the recording, from 0.
    pub turn: usize,
    /// The number of the call in that turn, from 0.
    pub call: usize,
    /// The call that was recorded.
    pub recorded: Call,
    /// The call of the replay, without a result.
    pub replayed: Call,
}

impl fmt::Display for Difference {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            turn,
            call,
            recorded,
            replayed,
        } = self;
        write!(
            f,
            "in turn {turn}, call {call}, the program calls {replayed:?}, and the recording has \
             {recorded:?}"
        )
    }
}

impl error::Error for Difference {}

/// The error of a call after the end.
fn ended() -> io::Error {
    io::Error::new(io::ErrorKind::UnexpectedEof, "the recording ends here")
}

impl Replay {
    /// A replay from the beginning.
    #[must_use]
    pub fn new(recording: Recording) -> Self {
        Self {
            tape: Arc::new(Mutex::new(Tape {
                recording,
                turn: 0,
                call: 0,
                difference: None,
                listeners: 0,
                target: 0,
                now_ns: 0,
            })),
        }
    }

    /// The recorded clock.
    #[must_use]
    pub fn clock(&self) -> Clock {
        Clock::with_source(ReplayedTime(self.clone()))
    }

    /// The recorded backend. When the recording ends, its wait fails with an
    /// [`Error::Os`](evcore::poller::Error::Os) of the kind
    /// [`UnexpectedEof`](io::ErrorKind::UnexpectedEof).
    #[must_use]
    pub fn backend(&self) -> impl Backend + use<> {
        ReplayedBackend(self.clone())
    }

    /// The next recorded listener, in the order in which they were wrapped.
    #[must_use]
    pub fn listener(&self) -> ReplayedListener {
        let mut tape = self.lock();
        tape.listeners += 1;
        ReplayedListener {
            number: tape.listeners - 1,
            target: tape.new_target(),
            replay: self.clone(),
        }
    }

    /// The first call that is not the recorded one. `None` if there is none so far.
    #[must_use]
    pub fn difference(&self) -> Option<Difference> {
        self.lock().difference.clone()
    }

    /// Returns whether every recorded call was replayed.
    #[must_use]
    pub fn is_at_end(&self) -> bool {
        let mut tape = self.lock();
        tape.difference.is_none() && tape.peek().is_none()
    }

    fn lock(&self) -> MutexGuard<'_, Tape> {
        self.tape.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The recorded call, if it is this one.
    fn call(&self, what: What, of: u32, bytes: &[u8]) -> io::Result<Call> {
        self.lock().take(what, of, bytes)
    }
}

impl Tape {
    fn new_target(&mut self) -> u32 {
        self.target += 1;
        self.target - 1
    }

    fn peek(&mut self) -> Option<&Call> {
        let turns = self.recording.turns();
        while turns
            .get(self.turn)
            .is_some_and(|calls| self.call >= calls.len())
        {
            self.turn += 1;
            self.call = 0;
        }
        turns.get(self.turn)?.get(self.call)
    }

    /// Takes the next call if it is the one that the program makes.
    fn take(&mut self, what: What, of: u32, bytes: &[u8]) -> io::Result<Call> {
        if let Some(difference) = &self.difference {
            return Err(io::Error::other(difference.clone()));
        }
        let recorded = self.peek().cloned().ok_or_else(ended)?;
        // What is sent is compared, and what is received is taken.
        let is_of = recorded.of == of || what == What::Wait;
        let is_sent = what != What::Send || recorded.bytes == bytes;
        if recorded.what == what && is_of && is_sent {
            self.call += 1;
            return Ok(recorded);
        }
        let difference = Difference {
            turn: self.turn,
            call: self.call,
            recorded,
            replayed: Call::new(what, of, 0).with_bytes(bytes),
        };
        self.difference = Some(difference.clone());
        Err(io::Error::other(difference))
    }

    /// Takes a recorded refusal of a registration.
    fn take_refusal(&mut self) -> Option<io::Error> {
        let call = self.peek().filter(|call| call.what == What::Refused)?;
        let error = call.error();
        self.call += 1;
        error
    }
}

/// Recorded time.
struct ReplayedTime(Replay);

impl TimeSource for ReplayedTime {
    fn monotonic_ns(&self) -> u64 {
        let mut tape = self.0.lock();
        if let Ok(call) = tape.take(What::Monotonic, 0, &[]) {
            tape.now_ns = call.result as u64;
        }
        tape.now_ns
    }

    fn wall_time(&self) -> WallTime {
        let call = self.0.call(What::Wall, 0, &[]);
        let call = call.unwrap_or_else(|_| Call::new(What::Wall, 0, 0));
        let subsecond_ns = call.bytes.try_into().map_or(0, u32::from_le_bytes);
        WallTime {
            unix_seconds: call.result,
            // A damaged one must not be more than a second.
            subsecond_ns: subsecond_ns.min(999_999_999),
        }
    }

    fn offset_at(&self, _: i64) -> i32 {
        let call = self.0.call(What::Offset, 0, &[]);
        call.map_or(0, |call| i32::try_from(call.result).unwrap_or_default())
    }
}

/// The recorded reports of a kernel.
#[derive(Debug)]
struct ReplayedBackend(Replay);

impl ReplayedBackend {
    fn register(&self) -> Result<()> {
        match self.0.lock().take_refusal() {
            None => Ok(()),
            Some(source) => Err(failed(source)),
        }
    }
}

fn failed(source: io::Error) -> Error {
    let call = "the replayed call";
    Error::Os { call, source }
}

impl Backend for ReplayedBackend {
    fn name(&self) -> &'static str {
        "replay"
    }

    fn capabilities(&self) -> Capabilities {
        self.0.lock().recording.capabilities()
    }

    fn add(&mut self, _: &Registration) -> Result<()> {
        self.register()
    }

    fn modify(&mut self, _: &Registration) -> Result<()> {
        self.register()
    }

    fn remove(&mut self, _: &Registration) -> Result<()> {
        self.register()
    }

    fn remove_before_close(&mut self, _: &Registration) {}

    fn wait(&mut self, mut events: EventSink<'_>, _: Option<Duration>) -> Result<()> {
        let call = self.0.call(What::Wait, 0, &[]).map_err(failed)?;
        if let Some(error) = call.error() {
            return Err(match error.kind() {
                io::ErrorKind::Interrupted => Error::Interrupted,
                _ => failed(error),
            });
        }
        if call.of == 1 {
            events.set_woken();
        }
        for event in call.bytes.chunks_exact(10).take(events.remaining()) {
            let (key, ready) = event.split_at(8);
            let key = u64::from_le_bytes(key.try_into().unwrap_or_default());
            let ready = u16::from_le_bytes(ready.try_into().unwrap_or_default());
            events.push(key, Ready::from_bits_truncate(ready));
        }
        Ok(())
    }

    fn waker(&self) -> Waker {
        // The recording has the wakes.
        Waker::from_fn(|| {})
    }
}

/// A recorded listener. [`Replay::listener`] returns it.
#[derive(Debug)]
pub struct ReplayedListener {
    replay: Replay,
    number: u32,
    target: u32,
}

impl Source for ReplayedListener {
    fn target(&self) -> Target<'_> {
        Target::Simulated(self.target)
    }
}

impl Acceptor for ReplayedListener {
    type Stream = ReplayedStream;

    fn accept(&self) -> std::result::Result<Accept<ReplayedStream>, net::Error> {
        // After a difference, nothing comes: the next wait says so.
        let Ok(call) = self.replay.call(What::Accept, self.number, &[]) else {
            return Ok(Accept::WouldBlock);
        };
        let Some(error) = call.error() else {
            let stream = ReplayedStream {
                number: u32::try_from(call.result).unwrap_or_default(),
                target: self.replay.lock().new_target(),
                replay: self.replay.clone(),
            };
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

/// A recorded stream. A [`ReplayedListener`] accepts it.
#[derive(Debug)]
pub struct ReplayedStream {
    replay: Replay,
    number: u32,
    target: u32,
}

impl ReplayedStream {
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
        let count = self
            .call(What::Send, Digest::of(bytes).as_bytes())?
            .count()?;
        Ok(count.min(bytes.len()))
    }

    fn is_delivered(&self) -> io::Result<bool> {
        Ok(self.call(What::IsDelivered, &[])?.count()? == 1)
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
