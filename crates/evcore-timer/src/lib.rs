#![doc = include_str!("../README.md")]
#![forbid(unsafe_code)]

mod queue;

mod blocks;

mod rows;

mod keyed_heap;

mod overdue;

mod wheel;

mod tree;

mod heap;

mod lazy;

mod coalesced;

mod timer;

mod table;

#[cfg(test)]
mod far_apart;

#[cfg(test)]
mod oracle;

pub use coalesced::Coalesced;
pub use heap::TimerHeap;
pub use lazy::Lazy;
pub use queue::TimerQueue;
pub use table::TimerTable;
pub use timer::Timer;
pub use tree::TimerTree;
pub use wheel::TimerWheel;

// All types are `Send`, so a value may be created on one thread and used on another.
const _: () = {
    const fn is_send<T: Send>() {}
    is_send::<TimerWheel>();
    is_send::<TimerTree>();
    is_send::<TimerHeap>();
    is_send::<Box<dyn TimerQueue>>();
};
