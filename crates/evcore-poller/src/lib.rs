#![doc = include_str!("../README.md")]
//!
//! # The main types
//!
//! A [`Poller`] watches descriptors and fills a buffer of [`Events`]. [`Interest`] is what to watch
//! for, [`Ready`] is what the kernel reported, [`Mode`] is how often it is reported, and a
//! [`Waker`] ends a wait from another thread. [`Backend`], [`EventSink`], [`Registration`] and
//! [`WakeChannel`] matter only if you write a backend.
//!
//! # Portable use
//!
//! A program that follows these rules works on every backend. [`BackendKind`] has a table of the
//! differences.
//!
//! ## Spurious events
//!
//! An event is a hint. Use non-blocking descriptors, and expect `WouldBlock` after any event:
//! another process may have taken the data or the connection. On `io_uring` an event of an
//! [`Edge`](Mode::Edge) may also report data that was read before the wait.
//!
//! A wait that ends by its timeout, or only by a [`Waker`], reports no events. With [`Events::raw`]
//! a signal also ends a wait.
//!
//! ## Draining readiness
//!
//! With [`Edge`](Mode::Edge), read or write until `WouldBlock`, and then call [`Poller::rearm`].
//! Some backends report no new data before that call. To stop before `WouldBlock`, call
//! [`Poller::reregister`] instead, which reports present readiness again.
//!
//! With [`Level`](Mode::Level), an event comes in every wait while the readiness lasts. Remove an
//! interest in writing when there is nothing to write.
//!
//! ## Readiness operations
//!
//! Try the operation that the event reports, and let its result decide: a read of 0 bytes is the
//! end of the stream, and an error comes from the failing call.
//! [`READ_CLOSED`](Ready::READ_CLOSED), [`WRITE_CLOSED`](Ready::WRITE_CLOSED) and
//! [`ERROR`](Ready::ERROR) come earlier, but not every backend has them. If an event has `ERROR`
//! and the operation returns `WouldBlock`, the kernel has refused the registration, which is then
//! silent until [`Poller::modify`] or [`Poller::reregister`].
//!
//! Register a connecting socket with [`Interest::WRITE`], and read `SO_ERROR` when the socket is
//! writable. If it was registered with `Edge` before `connect`, also call [`Poller::rearm`] after
//! `EINPROGRESS`.
//!
//! ## Dropping
//!
//! Call [`Poller::remove`] or [`Poller::remove_before_close`] before a descriptor is closed. A
//! registration does not own its descriptor. Without the call, the poller may watch another file
//! that gets the same number, and `io_uring` keeps the closed file open.
//!
//! A dropped poller ends all its registrations; on `io_uring` this may take a moment. The wakers of
//! a dropped poller have no effect.

mod backend_kind;
mod event;
mod event_sink;
mod events;
mod id;
mod interest;
mod ready;
mod source;

mod error;

mod availability;
mod backend;
mod busy_poll;
mod entry;
mod fd_set;
mod growth;
mod poller;
mod refill;
mod registry;
mod watch_set;

mod wake_flag;
mod waker;

mod sys;

pub use availability::ParseBackendError;
pub use backend::{Backend, Capabilities, Registration};
pub use backend_kind::BackendKind;
pub use busy_poll::BusyPoll;
pub use error::{Error, Result};
pub use event::Event;
pub use event_sink::EventSink;
pub use events::{Events, Iter};
pub use id::MAX_ID;
pub use interest::{Interest, Mode};
pub use poller::Poller;
pub use ready::Ready;
pub use source::{Source, Target};
pub use waker::{WakeChannel, Waker};

// These types are `Send`, so a value may be made on one thread and used on another.
const _: () = {
    const fn is_send<T: Send>() {}
    is_send::<Poller>();
    is_send::<Events>();
    is_send::<Waker>();
};
