//! A recording, and the position of its replay.

use std::{collections::VecDeque, io};

use evcore::Handle;

use crate::{
    call::{Call, What},
    difference::Difference,
    recording::Recording,
    requests::{FOREIGN, LENT, Request, WOKEN},
};

#[derive(Debug)]
pub(crate) struct Tape {
    pub(crate) recording: Recording,
    /// The number of the turn that is replayed.
    turn: usize,
    /// The calls of that turn that are not replayed yet.
    calls: VecDeque<Call>,
    call: usize,
    pub(crate) difference: Option<Difference>,
    /// Number of queries with the answer "nothing" since the last call.
    quiet: i64,
    /// The first turn in which another thread ended the wait by a `Handle` of the loop, not by a
    /// `RecordedHandle`.
    foreign_wake: Option<usize>,
    /// The handle of the loop that gets the recorded requests.
    pub(crate) handle: Option<Handle>,
    pub(crate) listeners: u32,
    pub(crate) connectors: u32,
    pub(crate) pools: u32,
    target: u32,
    /// The last recorded time, which the clock returns after the end of the recording.
    pub(crate) now_ns: u64,
}

/// The error of a call after the end of the recording.
fn ended() -> io::Error {
    io::Error::new(io::ErrorKind::UnexpectedEof, "the recording ends here")
}

impl Tape {
    pub(crate) fn new(recording: Recording) -> Self {
        let calls = recording.turn(0).unwrap_or_default().into();
        Self {
            recording,
            turn: 0,
            calls,
            call: 0,
            difference: None,
            quiet: 0,
            foreign_wake: None,
            handle: None,
            listeners: 0,
            connectors: 0,
            pools: 0,
            target: 0,
            now_ns: 0,
        }
    }

    pub(crate) fn new_target(&mut self) -> u32 {
        self.target += 1;
        self.target - 1
    }

    pub(crate) fn turn(&self) -> usize {
        self.turn
    }

    pub(crate) fn peek(&mut self) -> Option<&Call> {
        while self.calls.is_empty() {
            self.calls = self.recording.turn(self.turn + 1)?.into();
            self.turn += 1;
            self.call = 0;
        }
        self.calls.front()
    }

    fn pop(&mut self) -> Option<Call> {
        self.call += 1;
        self.quiet = 0;
        self.calls.pop_front()
    }

    /// Takes the next call if the program makes the same one. Otherwise keeps the difference.
    pub(crate) fn take(&mut self, what: What, of: u32, bytes: &[u8]) -> io::Result<Call> {
        if let Some(difference) = &self.difference {
            return Err(io::Error::other(difference.clone()));
        }
        let recorded = self.peek().ok_or_else(ended)?;
        let is_of = recorded.of == of || what == What::Wait;
        let is_alike = match what {
            What::Value => recorded.bytes.starts_with(bytes),
            _ => !what.compares_bytes() || recorded.bytes == bytes,
        };
        if recorded.what == what && is_of && is_alike {
            return self.pop().ok_or_else(ended);
        }
        let recorded = recorded.clone();
        let difference = Difference {
            turn: self.turn,
            call: self.call,
            recorded,
            replayed: Call::new(what, of, 0).with_bytes(bytes),
            after: self.call_before(),
            foreign_wake: self.foreign_wake,
        };
        self.difference = Some(difference.clone());
        Err(io::Error::other(difference))
    }

    fn call_before(&self) -> Option<Call> {
        let (turn, call) = match self.call.checked_sub(1) {
            Some(call) => (self.turn, call),
            None => (self.turn.checked_sub(1)?, usize::MAX),
        };
        let mut calls = self.recording.turn(turn)?;
        let last = calls.len().checked_sub(1)?;
        Some(calls.swap_remove(call.min(last)))
    }

    /// Takes the recorded answer to a query. Returns `None` if the answer was "nothing".
    pub(crate) fn take_answer(&mut self, what: What, of: u32, bytes: &[u8]) -> Option<Call> {
        let quiet = self.quiet;
        let answers =
            |call: &Call| call.what == what && call.of == of && call.bytes.starts_with(bytes);
        let next = self.peek()?;
        let is_here = match next.what {
            What::Quiet => next.result == quiet && self.calls.get(1).is_some_and(answers),
            _ => quiet == 0 && answers(next),
        };
        if !is_here || self.difference.is_some() {
            self.quiet += 1;
            return None;
        }
        if quiet > 0 {
            self.pop();
        }
        self.pop()
    }

    /// Takes a wait. [`take_requests`](Self::take_requests) then takes the requests that ended it.
    pub(crate) fn take_wait(&mut self) -> io::Result<Call> {
        let call = self.take(What::Wait, 0, &[])?;
        if call.of & FOREIGN != 0 {
            self.foreign_wake.get_or_insert(self.turn);
        }
        Ok(call)
    }

    /// Takes the requests of other threads that came with a wait, in their order. `wakes` has the
    /// bits of that wait.
    pub(crate) fn take_requests(&mut self, wakes: u32) -> Vec<Request> {
        let mut requests = Vec::new();
        while wakes & WOKEN != 0 && self.peek().is_some_and(|call| call.what == What::Request) {
            requests.extend(self.pop().as_ref().and_then(Request::of));
        }
        if wakes & (WOKEN | LENT) == WOKEN | LENT {
            requests.push(Request::Wake);
        }
        requests
    }
}
