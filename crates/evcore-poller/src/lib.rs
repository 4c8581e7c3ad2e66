#![doc = include_str!("../README.md")]
//!
//! # In a hurry
//!
//! [`Poller`] is what you hold, [`Events`] is what it fills, [`Interest`] is what you ask,
//! [`Ready`] is what the kernel said, [`Mode`] is how often it says so, and [`Waker`] ends a
//! wait from another thread. [`Backend`] matters only to those who write one.

mod event;
mod event_sink;
mod events;
mod interest;
mod kind;
mod ready;
mod source;

mod error;

mod asked;
mod backend;
mod descriptors;
mod entry;
mod poller;
mod registry;

mod alarm;
mod waker;

mod sys;

pub use backend::{Backend, Capabilities, Registration};
pub use error::{Error, Result};
pub use event::Event;
pub use event_sink::EventSink;
pub use events::{Events, Iter};
pub use interest::{Interest, Mode};
pub use kind::{BackendKind, ParseBackendError};
pub use poller::{MAX_ID, Poller};
pub use ready::Ready;
pub use source::{Source, Target};
pub use waker::{WakeChannel, Waker};

// Each may be made on one thread and used on another.
const _: () = {
    const fn is_send<T: Send>() {}
    is_send::<Poller>();
    is_send::<Events>();
    is_send::<Waker>();
};
