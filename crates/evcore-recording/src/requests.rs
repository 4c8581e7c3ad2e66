//! Requests of other threads, which reach a recorded loop only at the end of a wait.
//!
//! A replay could not repeat a request in the middle of a turn. So the request stays here until a
//! wait ends. The backend then records it, and passes it to the loop through the loop's own
//! [`Handle`].

use std::{
    mem,
    sync::Arc,
    thread::{self, ThreadId},
    time::Duration,
};

use evcore::{Handle, Ready, Token, poller::Waker};

use crate::call::{Call, What};

/// A flag of a recorded wait: a waker has ended the wait.
pub(crate) const WOKEN: u32 = 1;

/// A flag of a recorded wait: the program has borrowed the waker's descriptor. It can wake the loop
/// by that descriptor without a request, so each wake-up is passed to the loop as a `Handle::wake`.
pub(crate) const LENT: u32 = 2;

/// A flag of a recorded wait: another thread has ended the wait by the loop's own handle. A replay
/// cannot repeat such a wake-up.
pub(crate) const FOREIGN: u32 = 4;

#[derive(Default)]
pub(crate) struct Requests {
    /// The number of the recorded loop and of its handles. A request by the handle of an earlier
    /// loop is ignored, because a token of that loop may also be a token of this one.
    number: u32,
    waker: Option<Waker>,
    /// The loop's own handle, if the program has made a recorded handle.
    handle: Option<Arc<Handle>>,
    waiting: Vec<Request>,
    is_lent: bool,
    is_foreign: bool,
    /// The thread that currently passes requests to the loop. The wake-ups of these requests end no
    /// wait.
    pub(crate) delivers: Option<ThreadId>,
    /// The thread of the loop, from its first wait on.
    waits: Option<ThreadId>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Request {
    Wake,
    Shutdown(Duration),
    Post(Token, Ready),
}

impl Request {
    pub(crate) fn to_call(self) -> Call {
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
        Call::new(What::Request, of, result).with_bytes(bytes)
    }

    /// Decodes the request of a call. Returns `None` if the call is damaged.
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
    pub(crate) fn begin_loop(&mut self, waker: Waker) {
        *self = Self {
            number: self.number + 1,
            waker: Some(waker),
            ..Self::default()
        };
    }

    /// Sets the loop's own handle, and returns the number of the loop.
    pub(crate) fn set_handle(&mut self, handle: Handle) -> u32 {
        self.handle = Some(Arc::new(handle));
        self.number
    }

    /// Returns the waker of the loop with this number. The program borrows the waker's descriptor,
    /// so later waits have the flag `LENT`.
    pub(crate) fn lend(&mut self, number: u32) -> Option<Waker> {
        if self.number != number {
            return None;
        }
        self.is_lent = true;
        self.waker.clone()
    }

    /// Takes the bits of a wait that has ended.
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

impl Requests {
    /// Takes the pending requests, and the handle by which they are passed to the loop.
    pub(crate) fn begin_delivery(&mut self) -> Option<(Arc<Handle>, Vec<Request>)> {
        let handle = self.handle.clone()?;
        self.delivers = Some(thread::current().id());
        Some((handle, mem::take(&mut self.waiting)))
    }

    /// Adds a request to the loop with this number.
    pub(crate) fn push(&mut self, number: u32, request: Request) {
        if self.number == number {
            self.waiting.push(request);
            self.wake();
        }
    }

    /// Ends the wait of the loop on behalf of the loop's own handle.
    pub(crate) fn wake_by_handle(&mut self) {
        let me = Some(thread::current().id());
        // A request that is passed on at the end of a wait must not end the next wait.
        if self.delivers != me {
            self.is_foreign |= self.waits.is_some() && self.waits != me;
            self.wake();
        }
    }

    fn wake(&self) {
        if let Some(waker) = &self.waker {
            waker.wake();
        }
    }
}
