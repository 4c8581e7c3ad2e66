//! Handles by which other threads reach a loop that is recorded or replayed.

use std::{os::fd::BorrowedFd, time::Duration};

use evcore::{Handle, Ready, Token, poller::Waker};

use crate::{
    recorder::Recorder,
    requests::{LENT, Request, WOKEN},
};

impl Recorder {
    /// A handle by which other threads reach the loop of `handle`. Their requests are recorded.
    pub(crate) fn handle(&self, handle: Handle) -> RecordedHandle {
        let number = self.lock().requests.set_handle(handle);
        RecordedHandle(Way::Recorded(self.clone(), number))
    }

    pub(crate) fn waker(&self) -> Waker {
        let recorder = self.clone();
        Waker::from_fn(move || recorder.end_wait())
    }

    fn end_wait(&self) {
        self.lock().requests.wake_by_handle();
    }

    /// Records the pending requests, and passes them to the loop.
    pub(crate) fn deliver(&self, wakes: u32) {
        if wakes & WOKEN == 0 {
            return;
        }
        let begun = self.lock().requests.begin_delivery();
        let Some((handle, waiting)) = begun else {
            return;
        };
        for request in waiting {
            let call = request.to_call();
            self.call(call.what, call.of, call.result, &call.bytes);
            request.make(&handle);
        }
        if wakes & LENT != 0 {
            handle.wake();
        }
        self.lock().requests.delivers = None;
    }
}

/// A handle by which other threads reach a loop, and whose requests are recorded and replayed.
/// [`Outside::handle`](crate::Outside::handle) makes it.
///
/// A signal handler may use a [`Handle`], but not this handle, because a request takes a lock. Let
/// the signal handler write to the [descriptor](Self::with_descriptor), or use the crate
/// signal-hook.
///
/// A request ends the wait of a recorded loop, and the loop takes the request at the end of that
/// wait. A replay makes the recorded requests at the same places, and ignores the requests of its
/// own threads.
#[derive(Clone, Debug)]
pub struct RecordedHandle(Way);

#[derive(Clone, Debug)]
enum Way {
    Direct(Handle),
    /// The recorder, and the number of the loop.
    Recorded(Recorder, u32),
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
            Way::Recorded(recorder, number) => recorder.lock().requests.push(*number, request),
            Way::Replayed => {}
        }
    }
}

impl RecordedHandle {
    /// Calls `lend` with the descriptor by which a signal handler wakes the loop, as
    /// [`Handle::descriptor`] returns it. `lend` is not called in a replay, after another recorded
    /// loop has begun, or if there is no such descriptor.
    pub fn with_descriptor<R>(&self, lend: impl FnOnce(BorrowedFd<'_>) -> R) -> Option<R> {
        match &self.0 {
            Way::Direct(handle) => handle.descriptor().map(lend),
            Way::Recorded(recorder, number) => {
                let waker = recorder.lock().requests.lend(*number)?;
                waker.descriptor().map(lend)
            }
            Way::Replayed => None,
        }
    }
}
