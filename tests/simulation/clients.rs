//! Random clients: they send requests, stall, half-close, reset and fall silent.

use std::{fmt, time::Duration};

use evcore_sim::{ClientOutcome, Rng, Script, ScriptHandle, Sim};

use crate::{config::ADDRESS, line_server::answer};

/// A client and the bytes that it should receive.
pub(crate) struct TestClient {
    client: ScriptHandle,
    expected: Vec<u8>,
}

/// The bytes as text.
impl fmt::Debug for TestClient {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("TestClient")
            .field("outcome", &self.client.outcome())
            .field(
                "received",
                &String::from_utf8_lossy(&self.client.received()),
            )
            .field("expected", &String::from_utf8_lossy(&self.expected))
            .finish()
    }
}

/// What a client may do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Behaviour {
    /// Everything.
    Any,
    /// Nothing that keeps this client, or another one, from an answer.
    Polite,
}

impl TestClient {
    pub(crate) fn start(sim: &Sim, rng: &mut Rng, behaviour: Behaviour) -> Self {
        let mut builder = ScriptBuilder::new(rng, behaviour);
        builder.build();
        Self {
            client: sim.client(ADDRESS.into(), builder.script),
            expected: builder.expected,
        }
    }

    /// Whether it was answered, or its connection has ended.
    pub(crate) fn is_done(&self) -> bool {
        self.client.is_done()
    }

    /// Checks that it received a prefix of what it should receive.
    pub(crate) fn check(&self) {
        let received = self.client.received();
        assert!(
            self.expected.starts_with(&received),
            "received {:?} of {:?}",
            String::from_utf8_lossy(&received),
            String::from_utf8_lossy(&self.expected)
        );
    }

    /// Whether it received an answer to each request.
    pub(crate) fn is_answered(&self) -> bool {
        let outcome = self.client.outcome();
        outcome == Some(ClientOutcome::Completed) && self.client.received() == self.expected
    }
}

/// Builds a random script and its expected answers.
struct ScriptBuilder<'a> {
    rng: &'a mut Rng,
    behaviour: Behaviour,
    script: Script,
    expected: Vec<u8>,
    /// The last expected answer.
    last: Vec<u8>,
    /// The number of the next request, which no other request has.
    number: u64,
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

    /// Sends pipelined requests and waits for their answers.
    fn send(&mut self, requests: u64) {
        let mut text = String::new();
        for _ in 0..requests {
            text += &self.request();
        }
        self.add(|script| script.send(text));
        self.recv();
    }

    /// Sends a request in pieces of a few bytes.
    fn send_slowly(&mut self) {
        let text = self.request();
        let piece = 1 + self.rng.index(8);
        let every = self
            .rng
            .duration(&(Duration::ZERO..=Duration::from_secs(1)));
        self.add(|script| script.send_slowly(text, piece, every));
        self.recv();
    }

    fn pause(&mut self) {
        let at_most = match self.behaviour {
            Behaviour::Any => Duration::from_secs(30),
            // Well below the idle timeout.
            Behaviour::Polite => Duration::from_secs(5),
        };
        self.add(|script| script.pause_between(Duration::ZERO..=at_most));
    }

    fn half_close(&mut self) {
        let text = self.request();
        self.add(|script| script.send(text).shutdown_write().recv_eof());
    }

    fn reset(&mut self) {
        let text = self.request();
        self.add(|script| script.send(text));
        if self.rng.below(2) == 0 {
            self.pause();
        }
        self.add(Script::reset);
    }

    /// Requests a long answer and does not read it for a while.
    fn stall(&mut self) {
        let text = self.request_of(200_000);
        let time = self
            .rng
            .duration(&(Duration::ZERO..=Duration::from_secs(30)));
        self.add(|script| {
            let stalled = script.stop_reading().send(text).pause(time);
            stalled.resume_reading()
        });
        self.recv();
    }

    fn fall_silent(&mut self) {
        self.add(Script::recv_eof);
    }

    /// Waits for the last expected answer, whose number is unique.
    fn recv(&mut self) {
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
