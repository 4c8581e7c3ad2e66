#![doc = include_str!("../README.md")]
#![forbid(unsafe_code)]

mod posted_queue;
mod turn_queue;

mod links;

mod channel;
mod inbox;
mod merging;
mod requests;
mod send_error;
mod sync;

pub use inbox::{Drain, Inbox, Sender};
pub use posted_queue::PostedQueue;
pub use requests::{Requester, Requests};
pub use send_error::SendError;
pub use turn_queue::TurnQueue;

// All types are `Send`, so a value may be created on one thread and used on another.
const _: () = {
    const fn is_send<T: Send>() {}
    is_send::<PostedQueue>();
    is_send::<TurnQueue>();
    is_send::<Inbox<u8>>();
    is_send::<Sender<u8>>();
    is_send::<Requests<u8>>();
    is_send::<Requester<u8>>();
};
