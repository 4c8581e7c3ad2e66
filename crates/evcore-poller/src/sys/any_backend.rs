//! A backend of any kind. epoll, the usual one, is called directly, and every other backend through
//! `dyn Backend`.
//!
//! The most frequent calls are methods of [`AnyBackend`], so that the compiler inlines epoll's
//! code. Most other calls go through the deref to `dyn Backend`.

use std::ops::{Deref, DerefMut};
use std::time::Duration;

#[cfg(any(target_os = "linux", target_os = "android"))]
use super::epoll::Epoll;
use crate::{
    backend::{Backend, Registration},
    busy_poll::BusyPoll,
    error::{Error, Result},
    events::Events,
    refill::Refill,
};

#[derive(Debug)]
pub(crate) enum AnyBackend {
    #[cfg(any(target_os = "linux", target_os = "android"))]
    Epoll(Epoll),
    Boxed(Box<dyn Backend>),
}

impl AnyBackend {
    pub(crate) fn into_boxed(self) -> Box<dyn Backend> {
        match self {
            #[cfg(any(target_os = "linux", target_os = "android"))]
            Self::Epoll(epoll) => Box::new(epoll),
            Self::Boxed(backend) => backend,
        }
    }

    #[inline(always)]
    pub(crate) fn add(&mut self, new: &Registration) -> Result<()> {
        match self {
            #[cfg(any(target_os = "linux", target_os = "android"))]
            Self::Epoll(epoll) => epoll.add(new),
            Self::Boxed(backend) => backend.add(new),
        }
    }

    /// Removes a registration before its descriptor is closed. `old` returns the value that
    /// describes the registration. It is not called for epoll, because epoll needs no removal.
    #[inline(always)]
    pub(crate) fn remove_before_close(&mut self, old: impl FnOnce() -> Registration) {
        match self {
            #[cfg(any(target_os = "linux", target_os = "android"))]
            Self::Epoll(_) => {}
            Self::Boxed(backend) => backend.remove_before_close(&old()),
        }
    }

    /// Waits on epoll, and replaces the events. Does nothing on another backend. The waker's event
    /// is left among the events: see [`take_wake`](Self::take_wake).
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

    pub(crate) fn set_busy_poll(&mut self, parameters: BusyPoll) -> Result<()> {
        match self {
            #[cfg(any(target_os = "linux", target_os = "android"))]
            Self::Epoll(epoll) => epoll.set_busy_poll(parameters),
            Self::Boxed(backend) => {
                let (backend, _) = (backend.name(), parameters);
                Err(Error::NoBusyPoll { backend })
            }
        }
    }

    /// Removes the waker's event if [`refill`](Self::refill) has left it among `events`, and
    /// records the wake. Fails with [`Error::Interrupted`] if there is nothing to report.
    #[cold]
    pub(crate) fn take_wake(&mut self, events: &mut Events) -> Result<()> {
        match self {
            #[cfg(any(target_os = "linux", target_os = "android"))]
            Self::Epoll(epoll) => epoll.take_wake(events),
            Self::Boxed(_) => {
                let _ = events;
                Ok(())
            }
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
