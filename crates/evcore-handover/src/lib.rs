#![doc = include_str!("../README.md")]
//!
//! # Who owns a connection
//!
//! At each moment exactly one side owns a connection, whatever happens to the processes:
//!
//! | what happens | owner |
//! |---|---|
//! | [`Sender::send`] | the sender, which must not use it |
//! | [`Batch::accept`] succeeds | the receiver |
//! | the batch is refused or dropped | the sender, by [`Sender::next_answer`] |
//! | the acknowledgement cannot be sent | the sender, by [`Sender::take_back`] |
//! | the receiver dies or is dropped before it accepts | the sender, by [`Sender::take_back`] |
//! | the sender dies or is dropped | the receiver, when it accepts |
//! | [`Sender::take_back`] and [`Batch::accept`] run concurrently | one side: the results agree |
//! | both die | no process: the connection is closed |
//!
//! A receiver registers the connections of a batch with its poller, accepts the batch, and only
//! then reads. So a connection that goes back is untouched.
//!
//! # How it works
//!
//! A mailbox is one socket pair, and may have many senders. [`Sender::open`] makes another pair,
//! the channel, and sends one end of it to the mailbox. So each sender gets only the answers to its
//! own batches, and notices the death of its receiver.
//!
//! Both ends of a channel are Unix sockets of type `SOCK_SEQPACKET`: batches go one way with their
//! descriptors (`SCM_RIGHTS`), answers the other way. As soon as the acknowledgement is sent, the
//! receiver owns the batch. To take connections back, the sender shuts down its reading side. The
//! kernel refuses each later acknowledgement, and keeps those that were sent before. An `eventfd`,
//! the revocation, shows a receiver why the channel is closed: the counter is 1 if the sender has
//! taken its connections back, and 0 if the sender was dropped or has died.
//!
//! The process that takes the channel out of the mailbox sends a greeting. Until the sender has
//! read the greeting, it keeps a duplicate of the receiver's end. If no process takes the channel,
//! the sender empties it with this duplicate. Otherwise the connections in the channel would stay
//! open.

#![forbid(unsafe_code)]

mod connection;
mod descriptor;
mod error;
mod refusal;

mod ledger;
mod wire;

mod socket;

mod mailbox;
mod receiver;
mod sender;

pub use connection::Connection;
pub use descriptor::{Cut, Descriptor, Packet, Received, Unsent};
pub use error::{Error, Result};
pub use mailbox::Mailbox;
pub use receiver::{Batch, Receiver, TakenBack};
pub use refusal::Refusal;
pub use sender::{Answer, Sender};
pub use wire::{BATCH_CONNECTIONS_MAX, STATE_BYTES_MAX};
