#![doc = include_str!("../README.md")]
#![forbid(unsafe_code)]

mod posted;
mod turn_queue;

mod links;

mod inbox;
mod mailbox;
mod send_error;
mod sync;

pub use inbox::{Drain, Inbox, Sender};
pub use posted::PostedQueue;
pub use send_error::SendError;
pub use turn_queue::TurnQueue;
