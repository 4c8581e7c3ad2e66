#![doc = include_str!("../README.md")]
#![forbid(unsafe_code)]

mod queue;

mod wheel;

mod tree;

mod heap;

mod lazy;

mod background;

#[cfg(test)]
mod oracle;

pub use background::WithBackground;
pub use heap::TimerHeap;
pub use lazy::{Coalesced, Lazy};
pub use queue::TimerQueue;
pub use tree::TimerTree;
pub use wheel::TimerWheel;

// Each may be made on one thread and used on another.
const _: () = {
    const fn is_send<T: Send>() {}
    is_send::<TimerWheel>();
    is_send::<TimerTree>();
    is_send::<TimerHeap>();
    is_send::<Box<dyn TimerQueue>>();
};
