//! Random clients: they send requests, stall, half-close, reset and fall silent.

use std::{fmt, time::Duration};

use evcore_sim::{ClientOutcome, Rng, Script, ScriptHandle, Sim};

use crate::{
    config::ADDRESS,
    line_server::{IDLE_TIMEOUT, Reason, Reasons, SEND_TIMEOUT, answer},
};

/// Maximum silence that faults add to a client's own, by delays of the network and pauses of the
/// worker.
const SILENCE_SLACK: Duration = Duration::from_secs(15);

/// Maximum stall that faults add to a client's own: one delay of the network in each direction.
const STALL_SLACK: Duration = Duration::from_secs(7);

pub(crate) struct TestClient {
    client: ScriptHandle,
    expected: Vec<u8>,
    /// True if the client ends the connection before it has all answers.
    leaves: bool,
    /// True if the client requests the end of its connection.
    closes: bool,
    /// Number of times that the client requests the replacement of another connection.
    replaces: usize,
    /// True if the client may be silent, or not read, for longer than the server allows.
    may_expire: bool,
}

/// Prints the bytes as text.
impl fmt::Debug for TestClient {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("TestClient")
            .field("address", &self.client.local_addr())
            .field("outcome", &self.client.outcome())
            .field(
                "received",
                &String::from_utf8_lossy(&self.client.received()),
            )
            .field("expected", &String::from_utf8_lossy(&self.expected))
            .finish()
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Behaviour {
    Any,
    /// The client does nothing that keeps it, or another client, from an answer.
    Polite,
}

/// Circumstances that may keep a client of this run from its answers.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Circumstances {
    /// True if timeouts may fire early.
    pub(crate) clock_jumps: bool,
    /// True if a listener may have been closed while clients waited at it.
    pub(crate) may_refuse: bool,
    /// True if a worker may have had too many connections, or has shut down.
    pub(crate) may_evict: bool,
    /// True if a worker has shut down while clients were connected.
    pub(crate) stops_worker: bool,
}

impl TestClient {
    pub(crate) fn start(sim: &Sim, rng: &mut Rng, behaviour: Behaviour) -> Self {
        let mut builder = ScriptBuilder::new(rng, behaviour);
        builder.build();
        Self {
            client: sim.client(ADDRESS.into(), builder.script),
            expected: builder.expected,
            leaves: builder.leaves,
            closes: builder.closes,
            replaces: builder.replaces,
            may_expire: builder.silence_max + SILENCE_SLACK >= IDLE_TIMEOUT
                || builder.stall_max + STALL_SLACK >= SEND_TIMEOUT,
        }
    }

    /// Returns whether the client may lack answers: it has left, a fault ended its connection, or
    /// the server was allowed to end it.
    pub(crate) fn is_excused(&self, reasons: &Reasons, circumstances: Circumstances) -> bool {
        let is_excused = self.leaves || self.client.is_lost_to_fault();
        is_excused
            || match self.reason(reasons) {
                None => circumstances.may_refuse && self.is_refused(),
                Some(Reason::ClientEnded | Reason::Failed) => false,
                Some(Reason::Expired) => circumstances.clock_jumps || self.may_expire,
                Some(Reason::Requested) => self.closes,
                // `Served::check` counts the replaced connections.
                Some(Reason::Replaced) => true,
                Some(Reason::Evicted) => circumstances.may_evict,
                Some(Reason::ShutDown) => circumstances.stops_worker,
            }
    }

    /// Returns whether the client needs all its answers, because it neither leaves nor requests the
    /// end of its connection.
    pub(crate) fn stays(&self) -> bool {
        !self.leaves && !self.closes
    }

    /// Upper bound on the other connections that the client replaces.
    pub(crate) fn replaces(&self) -> usize {
        self.replaces
    }

    /// The reason why the server has ended the connection. `None` if it was not accepted, or its
    /// worker died.
    pub(crate) fn reason(&self, reasons: &Reasons) -> Option<Reason> {
        let address = self.client.local_addr()?.to_string();
        reasons.borrow().get(&address).copied()
    }

    fn is_refused(&self) -> bool {
        let outcome = self.client.outcome();
        [Some(ClientOutcome::Refused), Some(ClientOutcome::Reset)].contains(&outcome)
    }

    pub(crate) fn is_done(&self) -> bool {
        self.client.is_done()
    }

    /// Checks that the client received a prefix of the expected bytes.
    pub(crate) fn check(&self) {
        let received = self.client.received();
        assert!(
            self.expected.starts_with(&received),
            "received {:?} of {:?}",
            String::from_utf8_lossy(&received),
            String::from_utf8_lossy(&self.expected)
        );
    }

    pub(crate) fn is_answered(&self) -> bool {
        let outcome = self.client.outcome();
        outcome == Some(ClientOutcome::Completed) && self.client.received() == self.expected
    }
}

struct ScriptBuilder<'a> {
    rng: &'a mut Rng,
    behaviour: Behaviour,
    script: Script,
    expected: Vec<u8>,
    last: Vec<u8>,
    /// The number of the next request. The client's other requests have other numbers.
    number: u64,
    leaves: bool,
    closes: bool,
    replaces: usize,
    /// Upper bound on the longest time in which the client sends no complete request.
    silence_max: Duration,
    /// Upper bound on the time since the client's last complete request.
    silence: Duration,
    /// The time in which the client does not read.
    stall_max: Duration,
}

impl<'a> ScriptBuilder<'a> {
    fn new(rng: &'a mut Rng, behaviour: Behaviour) -> Self {
        Self {
            number: rng.below(1_000_000) * 1_000,
            rng,
            behaviour,
            script: Script::new(),
            expected: Vec::new(),
            last: Vec::new(),
            leaves: false,
            closes: false,
            replaces: 0,
            silence_max: Duration::ZERO,
            silence: Duration::ZERO,
            stall_max: Duration::ZERO,
        }
    }

    fn build(&mut self) {
        for _ in 0..self.rng.below(6) {
            match self.rng.below(4) {
                0 => self.send(1),
                1 => self.send_slowly(),
                2 => {
                    let requests = 2 + self.rng.below(5);
                    self.send(requests);
                }
                _ => self.pause(),
            }
        }
        match self.rng.below(6) {
            _ if self.behaviour == Behaviour::Polite => {}
            0 => self.half_close(),
            1 => self.reset(),
            2 => self.stall(),
            3 => self.fall_silent(),
            _ => {}
        }
    }

    fn send(&mut self, requests: u64) {
        let mut text = String::new();
        for _ in 0..requests {
            text += &self.request();
        }
        self.add(|script| script.send(text));
        self.recv();
    }

    fn send_slowly(&mut self) {
        let text = self.request();
        let piece = 1 + self.rng.index(8);
        let every = self
            .rng
            .duration(&(Duration::ZERO..=Duration::from_secs(1)));
        let pieces = u32::try_from(text.len().div_ceil(piece)).expect("a short request");
        self.be_silent(every * pieces);
        self.add(|script| script.send_slowly(text, piece, every));
        self.recv();
    }

    fn pause(&mut self) {
        let at_most = match self.behaviour {
            Behaviour::Any => Duration::from_secs(30),
            Behaviour::Polite => Duration::from_secs(5),
        };
        self.be_silent(at_most);
        self.add(|script| script.pause_between(Duration::ZERO..=at_most));
    }

    fn be_silent(&mut self, at_most: Duration) {
        self.silence += at_most;
        self.silence_max = self.silence_max.max(self.silence);
    }

    fn half_close(&mut self) {
        let text = self.request();
        self.add(|script| script.send(text).shutdown_write().recv_eof());
    }

    fn reset(&mut self) {
        self.leaves = true;
        let text = self.request();
        self.add(|script| script.send(text));
        if self.rng.below(2) == 0 {
            self.pause();
        }
        self.add(Script::reset);
    }

    fn stall(&mut self) {
        let text = self.request_of(200_000);
        let time = self
            .rng
            .duration(&(Duration::ZERO..=Duration::from_secs(30)));
        self.stall_max = time;
        self.add(|script| {
            let stalled = script.stop_reading().send(text).pause(time);
            stalled.resume_reading()
        });
        self.recv();
    }

    fn fall_silent(&mut self) {
        self.add(Script::recv_eof);
    }

    /// Waits for the last expected answer, whose number no other answer of the client has.
    fn recv(&mut self) {
        self.silence = Duration::ZERO;
        let last = std::mem::take(&mut self.last);
        self.add(|script| script.recv_until(last));
    }

    fn request(&mut self) -> String {
        let length = match self.rng.below(16) {
            0 => 100_000,
            1 => 5_000,
            _ => self.rng.index(200),
        };
        self.request_of(length)
    }

    fn request_of(&mut self, length: usize) -> String {
        let method = match self.rng.below(16) {
            0 if self.behaviour == Behaviour::Any => "replace",
            1 if self.behaviour == Behaviour::Any => "close",
            choice => ["now", "post", "post_next", "handle", "timer"][(choice % 5) as usize],
        };
        self.closes |= method == "close";
        self.replaces += usize::from(method == "replace");
        let number = self.number;
        self.number += 1;
        self.last = answer(number, length);
        self.expected.extend_from_slice(&self.last);
        format!("{number} {method} {length}\n")
    }

    fn add(&mut self, op: impl FnOnce(Script) -> Script) {
        self.script = op(std::mem::take(&mut self.script));
    }
}
