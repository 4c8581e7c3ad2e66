#![doc = include_str!("../README.md")]
//!
//! # What it connects
//!
//! A program that joins the parts itself can easily forget one of these links. The mistake shows
//! only when a worker dies, or during a reload:
//!
//! | link | without it |
//! |---|---|
//! | the group has a place for each worker that may live at once | a new worker panics during a reload |
//! | a worker joins the group by its slot | an old and a new worker share a place during a reload |
//! | a signal wakes the loop | a quiet worker does not notice a stop |
//! | a worker is ready when its first turn begins | a reload ends old workers although no new one serves |
//! | what a dead worker held is released | a dead worker may keep the accept lock |
//! | a worker stops within a time of its own | a stop kills the worker while it serves clients |
//! | a new binary inherits the listeners | an upgrade refuses connections |
//! | a worker that is replaced gives its connections to the successor | a reload closes idle clients |
//! | a service manager keeps the listeners and the mailboxes | a restart of the service closes all clients |
//! | a descriptor store hands on a dead worker's idle connections | a crash closes idle clients |
//!
//! The parts stay usable without this crate. A program with other needs, such as a loop over
//! streams that are not sockets, builds its loop from a worker's [`Parts`], and makes the other
//! links of the table itself.
#![forbid(unsafe_code)]

mod arrival;
mod awaited_headers;
#[cfg(all(test, target_os = "linux"))]
mod channel_tests;
mod departure;
mod deposit;
mod event;
mod giving;
mod handing_on;
mod handover;
mod keeping;
mod leaving;
mod listeners;
mod loops;
mod mailbox_ends;
mod parts;
mod proxy_header;
mod proxy_protocol;
mod refusal;
mod server;
mod service_manager;
mod service_store;
mod shortages;
mod stop_reports;
mod worker;

pub use arrival::Arrival;
pub use event::Event;
pub use handover::Moves;
pub use parts::Parts;
pub use proxy_protocol::{ProxyProtocol, ProxyProtocolError};
pub use server::Server;
pub use shortages::Shortage;
pub use worker::Worker;

pub use evcore_handover::STATE_BYTES_MAX;
pub use evcore_prefork as prefork;
