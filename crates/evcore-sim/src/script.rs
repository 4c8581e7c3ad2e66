//! Clients that run a fixed list of operations.

use std::{
    fmt, io,
    net::SocketAddr,
    ops::RangeInclusive,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use crate::{
    client::{Client, ClientCx},
    client_event::ClientEvent,
    client_outcome::ClientOutcome,
    sim::Sim,
    trace::ClientWait,
};

/// The operations of a client, in their order. The client connects before the first operation, and
/// closes the connection after the last one.
///
/// The client reads the bytes that arrive, during every operation, unless it has
/// [stopped](Self::stop_reading) reading.
///
/// ```
/// use evcore_sim::Script;
/// use std::time::Duration;
///
/// let slow_and_rude = Script::new()
///     .send_slowly("GET / HTTP/1.1\r\n\r\n", 1, Duration::from_millis(300))
///     .stop_reading()
///     .pause(Duration::from_secs(5))
///     .reset();
/// ```
#[derive(Clone, Debug, Default)]
#[must_use]
pub struct Script {
    ops: Vec<Op>,
}

impl Sim {
    /// Starts a client that runs a script.
    #[allow(
        clippy::must_use_candidate,
        reason = "a client that only causes load needs no handle"
    )]
    pub fn client(&self, server: SocketAddr, script: Script) -> ScriptHandle {
        let (client, handle) = script.into_client(server);
        self.add_client(client);
        handle
    }
}

#[derive(Clone, Debug)]
enum Op {
    Pause(RangeInclusive<Duration>),
    Send {
        bytes: Vec<u8>,
        piece: usize,
        every: Duration,
    },
    Recv(usize),
    RecvUntil(Vec<u8>),
    RecvEof,
    SetReading(bool),
    ShutdownWrite,
    Reset,
}

impl Script {
    /// A script without operations. Its client connects and closes the connection.
    pub fn new() -> Self {
        Self::default()
    }

    /// Waits for a time.
    pub fn pause(self, time: Duration) -> Self {
        self.pause_between(time..=time)
    }

    /// Waits for a random time from a range.
    pub fn pause_between(self, times: RangeInclusive<Duration>) -> Self {
        self.and(Op::Pause(times))
    }

    /// Sends all the bytes, as fast as the server takes them.
    pub fn send(self, bytes: impl Into<Vec<u8>>) -> Self {
        self.and(Op::Send {
            bytes: bytes.into(),
            piece: usize::MAX,
            every: Duration::ZERO,
        })
    }

    /// Sends `piece` bytes at a time, and waits for `every` after each piece.
    ///
    /// # Panics
    ///
    /// If `piece` is 0.
    pub fn send_slowly(self, bytes: impl Into<Vec<u8>>, piece: usize, every: Duration) -> Self {
        assert!(piece > 0, "a piece must have at least one byte");
        self.and(Op::Send {
            bytes: bytes.into(),
            piece,
            every,
        })
    }

    /// Waits until `count` bytes have arrived, after the bytes that earlier operations waited for.
    pub fn recv(self, count: usize) -> Self {
        self.and(Op::Recv(count))
    }

    /// Waits until these bytes have arrived, after the bytes that earlier operations waited for.
    pub fn recv_until(self, bytes: impl Into<Vec<u8>>) -> Self {
        self.and(Op::RecvUntil(bytes.into()))
    }

    /// Waits for the end of the stream, or for a reset.
    pub fn recv_eof(self) -> Self {
        self.and(Op::RecvEof)
    }

    /// Stops reading, so that the server's sends fill the buffer. The client does not notice the
    /// end of the stream either.
    pub fn stop_reading(self) -> Self {
        self.and(Op::SetReading(false))
    }

    /// Reads again.
    pub fn resume_reading(self) -> Self {
        self.and(Op::SetReading(true))
    }

    /// Shuts down the sending half.
    pub fn shutdown_write(self) -> Self {
        self.and(Op::ShutdownWrite)
    }

    /// Resets the connection, which ends the script.
    pub fn reset(self) -> Self {
        self.and(Op::Reset)
    }

    fn and(mut self, op: Op) -> Self {
        self.ops.push(op);
        self
    }

    pub(crate) fn into_client(self, server: SocketAddr) -> (impl Client, ScriptHandle) {
        let progress = Arc::<Mutex<Progress>>::default();
        let client = ScriptedClient {
            server,
            ops: self.ops,
            position: 0,
            sent: 0,
            consumed: 0,
            reads: true,
            is_pausing: false,
            progress: Arc::clone(&progress),
        };
        (client, ScriptHandle { progress })
    }
}

/// A handle to a client with a [`Script`], from [`Sim::client`](crate::Sim::client).
///
/// ```
/// use evcore_sim::{ClientOutcome, Script, Sim};
/// use std::time::Duration;
///
/// let sim = Sim::new(7);
/// let client = sim.client("10.0.0.1:80".parse()?, Script::new().send("hello"));
/// sim.run_for(Duration::from_secs(1));
/// assert_eq!(client.outcome(), Some(ClientOutcome::Refused), "no process listens");
/// # Ok::<(), std::net::AddrParseError>(())
/// ```
#[derive(Clone)]
pub struct ScriptHandle {
    progress: Arc<Mutex<Progress>>,
}

impl ScriptHandle {
    /// The bytes that the client has received so far.
    #[must_use]
    pub fn received(&self) -> Vec<u8> {
        lock(&self.progress).received.clone()
    }

    /// The outcome of the client. `None` while it runs.
    #[must_use]
    pub fn outcome(&self) -> Option<ClientOutcome> {
        lock(&self.progress).outcome
    }

    /// Returns whether the client has ended, with any outcome.
    #[must_use]
    pub fn is_done(&self) -> bool {
        self.outcome().is_some()
    }

    /// Returns whether a fault has ended the client's connection: a [`Reset`](crate::Fault::Reset),
    /// an [`Abort`](crate::Fault::Abort), or a kill, such as [`Kill`](crate::Fault::Kill), of the
    /// process that held it.
    #[must_use]
    pub fn is_lost_to_fault(&self) -> bool {
        lock(&self.progress).is_lost_to_fault
    }

    /// The address that the client connected from, which the server sees as its peer. `None` before
    /// it connects.
    #[must_use]
    pub fn local_addr(&self) -> Option<SocketAddr> {
        lock(&self.progress).local_addr
    }
}

/// Shows the outcome, and the received bytes as text.
impl fmt::Debug for ScriptHandle {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let progress = lock(&self.progress);
        f.debug_struct("ScriptHandle")
            .field("outcome", &progress.outcome)
            .field("received", &String::from_utf8_lossy(&progress.received))
            .finish()
    }
}

/// The state that the client shares with its handle.
#[derive(Debug, Default)]
struct Progress {
    received: Vec<u8>,
    is_at_eof: bool,
    outcome: Option<ClientOutcome>,
    is_lost_to_fault: bool,
    local_addr: Option<SocketAddr>,
}

#[derive(Debug)]
struct ScriptedClient {
    server: SocketAddr,
    ops: Vec<Op>,
    position: usize,
    /// Number of bytes of the current `Send` that are sent.
    sent: usize,
    /// Number of received bytes that earlier operations have waited for.
    consumed: usize,
    reads: bool,
    /// True while the timer is armed. The next operation starts when it expires.
    is_pausing: bool,
    progress: Arc<Mutex<Progress>>,
}

/// The result of a part of an operation.
enum Flow {
    Continue,
    Wait,
    Finish(ClientOutcome),
}

impl Client for ScriptedClient {
    fn on_event(&mut self, event: ClientEvent, cx: &mut ClientCx<'_>) {
        if event == ClientEvent::Started {
            cx.connect(self.server);
        }
        self.update_progress(cx);
        match event {
            ClientEvent::Started => return,
            ClientEvent::Refused => return self.finish(ClientOutcome::Refused, cx),
            ClientEvent::Expired => self.is_pausing = false,
            ClientEvent::Connected | ClientEvent::Ready(_) => {}
        }
        if let Err(outcome) = self.read(cx) {
            return self.finish(outcome, cx);
        }
        while !self.is_pausing {
            match self.run_op(cx) {
                Flow::Continue => {}
                Flow::Wait => return cx.waits(|| self.wait()),
                Flow::Finish(outcome) => return self.finish(outcome, cx),
            }
        }
        cx.waits(|| ClientWait::Pause);
    }
}

impl ScriptedClient {
    fn update_progress(&self, cx: &ClientCx<'_>) {
        let mut progress = lock(&self.progress);
        progress.is_lost_to_fault = cx.is_lost_to_fault();
        if let Some(address) = cx.local_addr() {
            progress.local_addr = Some(address);
        }
    }

    /// Reads all that has arrived, unless reading is stopped.
    fn read(&mut self, cx: &mut ClientCx<'_>) -> Result<(), ClientOutcome> {
        let mut progress = lock(&self.progress);
        let mut buffer = [0; 4096];
        while self.reads && !progress.is_at_eof {
            match cx.recv(&mut buffer) {
                Ok(0) => progress.is_at_eof = true,
                Ok(n) => progress.received.extend_from_slice(&buffer[..n]),
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => break,
                // `recv_eof` accepts a reset as the end.
                Err(_) if matches!(self.ops.get(self.position), Some(Op::RecvEof)) => {
                    progress.is_at_eof = true;
                }
                Err(_) => return Err(ClientOutcome::Reset),
            }
        }
        Ok(())
    }

    fn run_op(&mut self, cx: &mut ClientCx<'_>) -> Flow {
        let Some(op) = self.ops.get(self.position).cloned() else {
            return Flow::Finish(ClientOutcome::Completed);
        };
        match op {
            Op::Pause(times) => {
                let time = cx.rng().duration(&times);
                self.pause(time, cx);
            }
            Op::Send {
                bytes,
                piece,
                every,
            } => return self.send(&bytes, piece, every, cx),
            Op::Recv(count) => {
                return self.consume(|unread| (unread.len() >= count).then_some(count));
            }
            Op::RecvUntil(bytes) => return self.consume(|unread| end_of(unread, &bytes)),
            Op::RecvEof => {
                if !lock(&self.progress).is_at_eof {
                    return Flow::Wait;
                }
            }
            Op::SetReading(reads) => {
                self.reads = reads;
                if let Err(outcome) = self.read(cx) {
                    return Flow::Finish(outcome);
                }
            }
            Op::ShutdownWrite => {
                if cx.shutdown_write().is_err() {
                    return Flow::Finish(ClientOutcome::Reset);
                }
            }
            Op::Reset => {
                cx.reset();
                return Flow::Finish(ClientOutcome::Completed);
            }
        }
        self.position += 1;
        Flow::Continue
    }

    fn send(&mut self, bytes: &[u8], piece: usize, every: Duration, cx: &mut ClientCx<'_>) -> Flow {
        let rest = &bytes[self.sent..];
        if rest.is_empty() {
            self.sent = 0;
            self.position += 1;
            return Flow::Continue;
        }
        match cx.send(&rest[..piece.min(rest.len())]) {
            Ok(n) => self.sent += n,
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Flow::Wait,
            Err(_) if lock(&self.progress).is_at_eof => {
                return Flow::Finish(ClientOutcome::ClosedEarly);
            }
            Err(_) => return Flow::Finish(ClientOutcome::Reset),
        }
        if !every.is_zero() {
            self.pause(every, cx);
        }
        Flow::Continue
    }

    /// Ends an operation that waits for bytes, if they have come. `enough` gets the received bytes
    /// that no operation has consumed. It returns the number of bytes that this operation consumes,
    /// or `None` if the operation needs more.
    fn consume(&mut self, enough: impl Fn(&[u8]) -> Option<usize>) -> Flow {
        let progress = lock(&self.progress);
        match enough(&progress.received[self.consumed..]) {
            Some(count) => {
                self.consumed += count;
                self.position += 1;
                Flow::Continue
            }
            None if progress.is_at_eof => Flow::Finish(ClientOutcome::ClosedEarly),
            None => Flow::Wait,
        }
    }

    /// The event that the current operation waits for, for the trace.
    fn wait(&self) -> ClientWait {
        let progress = lock(&self.progress);
        let unread = progress.received.len() - self.consumed;
        match self.ops.get(self.position) {
            Some(Op::Send { bytes, .. }) => ClientWait::Room(bytes.len() - self.sent),
            Some(Op::Recv(count)) => ClientWait::Bytes(count.saturating_sub(unread)),
            Some(Op::RecvUntil(bytes)) => ClientWait::Text(bytes.len(), unread),
            _ => ClientWait::End,
        }
    }

    fn pause(&mut self, time: Duration, cx: &mut ClientCx<'_>) {
        self.is_pausing = true;
        cx.arm(time);
    }

    fn finish(&mut self, outcome: ClientOutcome, cx: &mut ClientCx<'_>) {
        // A fault may have occurred in a call during this event.
        self.update_progress(cx);
        lock(&self.progress).outcome = Some(outcome);
        cx.ends(outcome);
        cx.exit();
    }
}

/// The offset behind the first occurrence of `wanted`.
fn end_of(bytes: &[u8], wanted: &[u8]) -> Option<usize> {
    if wanted.is_empty() {
        return Some(0);
    }
    let mut windows = bytes.windows(wanted.len());
    windows
        .position(|window| window == wanted)
        .map(|start| start + wanted.len())
}

/// Locks the progress. A poisoned lock is ignored, because a panic leaves the progress consistent.
fn lock(progress: &Mutex<Progress>) -> MutexGuard<'_, Progress> {
    progress.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn end_of_finds_the_first_occurrence() {
        assert_eq!(end_of(b"a-b-c", b"-"), Some(2));
        assert_eq!(end_of(b"a-b-c", b"-c"), Some(5));
        assert_eq!(end_of(b"a-b-c", b"x"), None);
        assert_eq!(end_of(b"a", b""), Some(0));
    }
}
