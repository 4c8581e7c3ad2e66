//! The clock and the backend of a replayed loop, which return the recorded time and reports.

use std::{io, time::Duration};

use evcore::{
    clock::{Clock, TimeSource, WallTime},
    poller::{Backend, Capabilities, Error, EventSink, Ready, Registration, Result, Waker},
};

use crate::{
    call::{Call, What},
    replay::Replay,
    requests::WOKEN,
};

impl Replay {
    /// The recorded clock. After the end of the recording or a difference, its monotonic time
    /// stands still, and its wall time is 0.
    #[must_use]
    pub fn clock(&self) -> Clock {
        Clock::with_source(ReplayedTime(self.clone()))
    }

    /// The recorded backend. After the end of the recording, a wait of the backend fails with an
    /// [`Error::Os`](evcore::poller::Error::Os) of the kind
    /// [`UnexpectedEof`](io::ErrorKind::UnexpectedEof). After a difference, it fails with that
    /// difference.
    #[must_use]
    pub fn backend(&self) -> impl Backend + use<> {
        ReplayedBackend(self.clone())
    }
}

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
            // Even in a damaged recording, the fraction must stay below a second.
            subsecond_ns: subsecond_ns.min(999_999_999),
        }
    }

    fn offset_at(&self, _: i64) -> i32 {
        let call = self.0.call(What::Offset, 0, &[]);
        call.map_or(0, |call| i32::try_from(call.result).unwrap_or_default())
    }
}

#[derive(Debug)]
struct ReplayedBackend(Replay);

impl ReplayedBackend {
    fn register(&self) -> Result<()> {
        let refusal = self.0.lock().take_answer(What::Refused, 0, &[]);
        match refusal.and_then(|call| call.error()) {
            None => Ok(()),
            Some(source) => Err(failed(source)),
        }
    }
}

impl ReplayedBackend {
    /// Passes the recorded requests of other threads to the loop.
    fn deliver(&self, wakes: u32) {
        let (requests, handle) = {
            let mut tape = self.0.lock();
            (tape.take_requests(wakes), tape.handle.clone())
        };
        for request in requests {
            handle.iter().for_each(|handle| request.make(handle));
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
        let call = self.0.lock().take_wait().map_err(failed)?;
        self.deliver(call.of);
        if let Some(error) = call.error() {
            return Err(match error.kind() {
                io::ErrorKind::Interrupted => Error::Interrupted,
                _ => failed(error),
            });
        }
        if call.of & WOKEN != 0 {
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
        // The recording has the wake-ups, so this waker does nothing.
        Waker::from_fn(|| {})
    }
}
