//! Runs a program on a recording: the program gets the recorded input in place of new input.

use std::{
    io,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use crate::{
    call::{Call, What},
    difference::Difference,
    recording::Recording,
    tape::Tape,
};

/// A recording that stands in for the outside of a loop: the loop gets from it what the recorded
/// loop got.
///
/// The program builds its loop in the same way as when it was recorded, with the clock, the backend
/// and the listeners of the replay. It then takes the same steps in the same order. The first call
/// that differs from the recorded one, or sends other bytes, is the
/// [`difference`](Self::difference). From then on, and after the end of the recording, waits and
/// the calls of streams and connectors fail. (The end of the recording is not a difference.)
#[derive(Clone, Debug)]
pub struct Replay {
    tape: Arc<Mutex<Tape>>,
}

impl Replay {
    /// A replay from the beginning.
    #[must_use]
    pub fn new(recording: Recording) -> Self {
        Self {
            tape: Arc::new(Mutex::new(Tape::new(recording))),
        }
    }

    /// The first call that is not the recorded one. `None` if every call so far was the recorded
    /// one.
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

    /// The turn of the recording that is replayed, from 0.
    #[must_use]
    pub fn turn(&self) -> usize {
        self.lock().turn()
    }

    pub(crate) fn lock(&self) -> MutexGuard<'_, Tape> {
        self.tape.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn call(&self, what: What, of: u32, bytes: &[u8]) -> io::Result<Call> {
        self.lock().take(what, of, bytes)
    }
}
