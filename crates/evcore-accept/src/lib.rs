#![doc = include_str!("../README.md")]
#![forbid(unsafe_code)]

mod listener;

mod options;

mod accept;

mod stream;

mod backoff;

mod error;

mod sys;

#[cfg(test)]
mod loopback;

pub use accept::{Accept, Shortage};
pub use backoff::Backoff;
pub use error::Error;
pub use listener::Listener;
pub use options::ListenerOptions;
pub use stream::Stream;
