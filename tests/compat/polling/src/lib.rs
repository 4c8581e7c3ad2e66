//! The interface of the crate `polling`, in so far as async-io and calloop use it on Unix, over
//! `evcore-poller`.
//!
//! What differs is how the two are held. A `polling::Poller` is shared: any thread registers while
//! another waits. An `evcore_poller::Poller` is owned: `&mut self` everywhere. [`Poller`] bridges
//! that by a loan (`loan.rs`): a thread with a change wakes the thread that waits, which hands the
//! poller over until the change is made.
//!
//! [`under_test`] is what `polling` does not have: the choice of a backend, and the proof that it
//! was this crate that ran.

mod event;
mod events;
mod mode;
mod source;

mod poller;

mod loan;
mod watch;

pub mod under_test;

pub use event::Event;
pub use events::Events;
pub use mode::PollMode;
pub use poller::Poller;
pub use source::{AsRawSource, AsSource};
