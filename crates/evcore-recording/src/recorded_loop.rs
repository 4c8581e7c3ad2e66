//! The clock and the backend of a recorded loop, which record the time and the reports of the
//! poller.

use std::{os::fd::BorrowedFd, time::Duration};

use evcore::{
    clock::{Clock, TimeSource, WallTime},
    poller::{Backend, Capabilities, Error, EventSink, Events, Registration, Result, Waker},
};
use rustix::io::Errno;

use crate::{
    call::{What, number_of},
    recorder::Recorder,
    recording::bits_of,
};

impl Recorder {
    /// A clock that records what its source returns.
    #[must_use]
    pub fn clock(&self, source: impl TimeSource + 'static) -> Clock {
        Clock::with_source(RecordedTime::new(self.clone(), source))
    }

    /// A backend that records what its waits report. A turn of the recording ends when a wait
    /// begins.
    #[must_use]
    pub fn backend(&self, backend: Box<dyn Backend>) -> impl Backend + use<> {
        let mut shared = self.lock();
        shared.set_capabilities(bits_of(backend.capabilities()));
        shared.requests.begin_loop(backend.waker());
        RecordedBackend::new(self.clone(), backend)
    }
}

struct RecordedTime<T> {
    recorder: Recorder,
    source: T,
}

impl<T> RecordedTime<T> {
    fn new(recorder: Recorder, source: T) -> Self {
        Self { recorder, source }
    }
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

#[derive(Debug)]
struct RecordedBackend {
    recorder: Recorder,
    backend: Box<dyn Backend>,
    /// The events that a wait has reported. Their capacity is the room that is left in the loop's
    /// own events, because refused registrations also take room there.
    events: Events,
    /// The same events, encoded. The buffer is kept so that its memory is reused.
    bytes: Vec<u8>,
}

impl RecordedBackend {
    fn new(recorder: Recorder, backend: Box<dyn Backend>) -> Self {
        Self {
            recorder,
            backend,
            events: Events::raw(1),
            bytes: Vec::new(),
        }
    }

    /// Records a refused registration. Successful ones are only counted.
    fn refused<T>(&self, result: Result<T>) -> Result<T> {
        let number = match &result {
            Ok(_) => None,
            Err(Error::Os { source, .. }) => Some(number_of(source)),
            Err(Error::NotPollable { .. }) => Some(number_of(&Errno::PERM.into())),
            Err(_) => Some(number_of(&Errno::INVAL.into())),
        };
        let refusal = number.map(|number| (What::Refused, 0, number, &[][..]));
        self.recorder.answer(refusal);
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
        self.recorder.end_turn();
        if self.events.capacity() != events.remaining() {
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
        let wakes = self.recorder.lock().requests.take_wakes(woken);
        self.recorder.call(What::Wait, wakes, number, bytes);
        self.recorder.deliver(wakes);
        result
    }

    fn reset(&mut self) -> Result<bool> {
        self.backend.reset()
    }

    fn descriptor(&self) -> Option<BorrowedFd<'_>> {
        self.backend.descriptor()
    }

    fn waker(&self) -> Waker {
        self.recorder.waker()
    }
}

/// Ends the last turn when the loop is dropped, even in a panic.
impl Drop for RecordedBackend {
    fn drop(&mut self) {
        self.recorder.end_turn();
    }
}
