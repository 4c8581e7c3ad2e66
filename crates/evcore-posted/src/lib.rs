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

// Each may be made on one thread and used on another.
const _: () = {
    const fn is_send<T: Send>() {}
    is_send::<PostedQueue>();
    is_send::<TurnQueue>();
    is_send::<Inbox<u8>>();
    is_send::<Sender<u8>>();
};
