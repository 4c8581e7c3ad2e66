//! Requests of other threads, which a recorded loop gets at the end of a wait and nowhere else.
//!
//! A recorded loop must not see a request in the middle of a turn, because a replay could not repeat
//! that. So a request stays here until a wait ends. The backend then records it, and makes it by the
//! loop's own [`Handle`], as the backend of a replay does.

use std::{
    mem,
    os::fd::BorrowedFd,
    sync::Arc,
    thread::{self, ThreadId},
    time::Duration,
};

use evcore::{Handle, Ready, Token, poller::Waker};

use crate::{
    call::{Call, What},
    recorder::Recorder,
};

/// A waker ended the wait.
pub(crate) const WOKEN: u32 = 1;

/// The waker's descriptor is lent, so every wake is one for the program.
pub(crate) const LENT: u32 = 2;

/// Another thread used the loop's own handle, which a replay cannot repeat.
pub(crate) const FOREIGN: u32 = 4;

/// The requests that wait for the end of a wait.
#[derive(Default)]
pub(crate) struct Requests {
    /// The waker of the recorded backend.
    waker: Option<Waker>,
    /// The loop's own handle, once the program has asked for a recorded one.
    handle: Option<Arc<Handle>>,
    waiting: Vec<Request>,
    is_lent: bool,
    is_foreign: bool,
    /// The thread that makes requests now, which ends no wait.
    delivers: Option<ThreadId>,
    /// The thread of the last wait.
    waits: Option<ThreadId>,
}

/// A request of another thread.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Request {
    Wake,
    Shutdown(Duration),
    Post(Token, Ready),
}

impl Request {
    /// The request as a call.
    fn record(self, recorder: &Recorder) {
        let (of, result, ready) = match self {
            Self::Wake => (0, 0, None),
            Self::Shutdown(timeout) => {
                let ms = timeout.as_nanos().div_ceil(1_000_000);
                (1, i64::try_from(ms).unwrap_or(i64::MAX), None)
            }
            Self::Post(token, ready) => (2, token.to_bits() as i64, Some(ready)),
        };
        let bytes = ready.map(|ready| ready.bits().to_le_bytes());
        let bytes = bytes.as_ref().map_or(&[][..], |bytes| &bytes[..]);
        recorder.call(What::Request, of, result, bytes);
    }

    /// The request of a call; `None` if the call is damaged.
    pub(crate) fn of(call: &Call) -> Option<Self> {
        match call.of {
            0 => Some(Self::Wake),
            1 => Some(Self::Shutdown(Duration::from_millis(call.result as u64))),
            2 => {
                let ready = u16::from_le_bytes(call.bytes[..].try_into().ok()?);
                let token = Token::from_bits(call.result as u64)?;
                Some(Self::Post(token, Ready::from_bits_truncate(ready)))
            }
            _ => None,
        }
    }

    pub(crate) fn make(self, handle: &Handle) {
        match self {
            Self::Wake => handle.wake(),
            Self::Shutdown(timeout) => handle.shutdown(timeout),
            Self::Post(token, ready) => _ = handle.post(token, ready),
        }
    }
}

impl Requests {
    pub(crate) fn end_waits_by(&mut self, waker: Waker) {
        self.waker = Some(waker);
    }

    /// The bits of a wait that has ended.
    pub(crate) fn take_wakes(&mut self, is_woken: bool) -> u32 {
        self.waits.get_or_insert_with(|| thread::current().id());
        let is_foreign = mem::take(&mut self.is_foreign);
        let bits = [
            (is_woken, WOKEN),
            (self.is_lent, LENT),
            (is_foreign, FOREIGN),
        ];
        bits.into_iter()
            .fold(0, |bits, (has, bit)| bits | if has { bit } else { 0 })
    }
}

impl Recorder {
    /// A way to reach the loop of this handle from other threads, whose requests are recorded.
    pub(crate) fn handle(&self, handle: Handle) -> RecordedHandle {
        self.lock().requests.handle = Some(Arc::new(handle));
        RecordedHandle(Way::Recorded(self.clone()))
    }

    /// The waker of the recorded loop.
    pub(crate) fn waker(&self) -> Waker {
        let recorder = self.clone();
        Waker::from_fn(move || recorder.end_wait())
    }

    /// Ends the wait of the loop for its own handle.
    fn end_wait(&self) {
        let me = Some(thread::current().id());
        let requests = &mut self.lock().requests;
        if requests.delivers == me {
            return;
        }
        if requests.waits.is_some() && requests.waits != me {
            requests.is_foreign = true;
        }
        requests.wake();
    }

    /// Records the requests that wait, and makes them.
    pub(crate) fn deliver(&self, wakes: u32) {
        if wakes & WOKEN == 0 {
            return;
        }
        let begun = self.lock().requests.begin_delivery();
        let Some((handle, waiting)) = begun else {
            return;
        };
        for request in waiting {
            request.record(self);
            request.make(&handle);
        }
        if wakes & LENT != 0 {
            handle.wake();
        }
        self.lock().requests.delivers = None;
    }

    fn request(&self, request: Request) {
        let requests = &mut self.lock().requests;
        requests.waiting.push(request);
        requests.wake();
    }
}

impl Requests {
    /// The handle of the loop, and the requests to make by it.
    fn begin_delivery(&mut self) -> Option<(Arc<Handle>, Vec<Request>)> {
        let handle = self.handle.clone()?;
        self.delivers = Some(thread::current().id());
        Some((handle, mem::take(&mut self.waiting)))
    }

    fn wake(&self) {
        if let Some(waker) = &self.waker {
            waker.wake();
        }
    }
}

/// A way to reach a loop from other threads and signal handlers, by which requests are recorded and
/// replayed. [`Outside::handle`](crate::Outside::handle) makes it.
///
/// A recorded loop takes a request at the end of its next wait. A replay makes the recorded requests at
/// the same places, and ignores those of its threads.
#[derive(Clone, Debug)]
pub struct RecordedHandle(Way);

#[derive(Clone, Debug)]
enum Way {
    Direct(Handle),
    Recorded(Recorder),
    Replayed,
}

impl RecordedHandle {
    pub(crate) fn direct(handle: Handle) -> Self {
        Self(Way::Direct(handle))
    }

    pub(crate) fn replayed() -> Self {
        Self(Way::Replayed)
    }

    /// Wakes the loop, as [`Handle::wake`] does.
    pub fn wake(&self) {
        self.request(Request::Wake);
    }

    /// Shuts the loop down, as [`Handle::shutdown`] does.
    pub fn shutdown(&self, timeout: Duration) {
        self.request(Request::Shutdown(timeout));
    }

    /// Posts a token, as [`Handle::post`] does.
    pub fn post(&self, token: Token, ready: Ready) {
        self.request(Request::Post(token, ready));
    }

    fn request(&self, request: Request) {
        match &self.0 {
            Way::Direct(handle) => request.make(handle),
            Way::Recorded(recorder) => recorder.request(request),
            Way::Replayed => {}
        }
    }
}

impl RecordedHandle {
    /// Calls `lend` with the descriptor by which a signal handler wakes the loop, as
    /// [`Handle::descriptor`] returns it. Does not call it in a replay, or if there is none.
    pub fn with_descriptor<R>(&self, lend: impl FnOnce(BorrowedFd<'_>) -> R) -> Option<R> {
        match &self.0 {
            Way::Direct(handle) => handle.descriptor().map(lend),
            Way::Recorded(recorder) => {
                let waker = {
                    let requests = &mut recorder.lock().requests;
                    requests.is_lent = true;
                    requests.waker.clone()
                };
                waker.as_ref().and_then(Waker::descriptor).map(lend)
            }
            Way::Replayed => None,
        }
    }
}
