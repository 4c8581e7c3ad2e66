//! A backend of any kind. epoll, the usual one, is called directly; every other through `dyn Backend`.
//!
//! The three calls in a connection's life are methods of [`AnyBackend`], so that the compiler puts
//! epoll's into the poller's. It derefs to `dyn Backend` for all else.

use std::ops::{Deref, DerefMut};
use std::time::Duration;

#[cfg(any(target_os = "linux", target_os = "android"))]
use rustix::io::Errno;

#[cfg(any(target_os = "linux", target_os = "android"))]
use super::epoll::Epoll;
use crate::{
    backend::{Backend, Registration},
    error::Result,
    events::Events,
};

/// How a wait on epoll has replaced the events. Its parts stay in registers.
#[derive(Clone, Copy)]
#[cfg_attr(
    not(any(target_os = "linux", target_os = "android")),
    expect(dead_code, reason = "only epoll makes the others")
)]
pub(crate) enum Refill {
    /// There is one event with these of epoll's flags, and room for another. It may be the waker's.
    One { key: u64, flags: u32 },
    /// There is this number of events, and room for another. None is the waker's.
    Some(usize),
    /// There is no room for another event, or one is the waker's.
    FullOrWoken,
    /// There is none, since the call has failed.
    #[cfg(any(target_os = "linux", target_os = "android"))]
    Failed(Errno),
    /// The backend is not epoll.
    Boxed,
}

#[derive(Debug)]
pub(crate) enum AnyBackend {
    #[cfg(any(target_os = "linux", target_os = "android"))]
    Epoll(Epoll),
    Boxed(Box<dyn Backend>),
}

impl AnyBackend {
    #[inline(always)]
    pub(crate) fn add(&mut self, new: &Registration) -> Result<()> {
        match self {
            #[cfg(any(target_os = "linux", target_os = "android"))]
            Self::Epoll(epoll) => epoll.add(new),
            Self::Boxed(backend) => backend.add(new),
        }
    }

    /// `old` makes the registration, which epoll does not need.
    #[inline(always)]
    pub(crate) fn remove_before_close(&mut self, old: impl FnOnce() -> Registration) {
        match self {
            #[cfg(any(target_os = "linux", target_os = "android"))]
            Self::Epoll(_) => {}
            Self::Boxed(backend) => backend.remove_before_close(&old()),
        }
    }

    /// Waits on epoll, and replaces the events. Does nothing on another backend.
    ///
    /// The waker's event is left among them: see [`take_wake`](Self::take_wake).
    #[inline(always)]
    pub(crate) fn refill(&mut self, events: &mut Events, timeout: Option<Duration>) -> Refill {
        match self {
            #[cfg(any(target_os = "linux", target_os = "android"))]
            Self::Epoll(epoll) => epoll.refill(events, timeout),
            Self::Boxed(_) => {
                let _ = (events, timeout);
                Refill::Boxed
            }
        }
    }

    /// Takes the waker's event out of the batch, if [`refill`](Self::refill) has left it there.
    #[cold]
    pub(crate) fn take_wake(&mut self, events: &mut Events) -> Result<()> {
        match self {
            #[cfg(any(target_os = "linux", target_os = "android"))]
            Self::Epoll(epoll) => epoll.take_wake(events),
            _ => Ok(()),
        }
    }
}

impl Deref for AnyBackend {
    type Target = dyn Backend;

    fn deref(&self) -> &Self::Target {
        match self {
            #[cfg(any(target_os = "linux", target_os = "android"))]
            Self::Epoll(epoll) => epoll,
            Self::Boxed(backend) => &**backend,
        }
    }
}

impl DerefMut for AnyBackend {
    fn deref_mut(&mut self) -> &mut Self::Target {
        match self {
            #[cfg(any(target_os = "linux", target_os = "android"))]
            Self::Epoll(epoll) => epoll,
            Self::Boxed(backend) => &mut **backend,
        }
    }
}
