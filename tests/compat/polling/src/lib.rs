//! The part of the interface of the crate `polling` that async-io and calloop use on Unix, over
//! `evcore-poller`.
//!
//! The two crates differ in ownership. Threads share a `polling::Poller`: any thread registers
//! while another waits. An `evcore_poller::Poller` has one owner, because the methods that register
//! and wait take `&mut self`. [`Poller`] bridges the difference by a loan (`loan.rs`). A thread
//! with a change wakes the thread that waits, which hands the poller over until the change is made.
//!
//! [`under_test`] has what `polling` lacks: the choice of a backend, and the proof that a program
//! used this crate.

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
