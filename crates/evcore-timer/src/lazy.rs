//! Re-arming that does less than it says, over any queue.
//!
//! A connection's timeout is re-armed on every event, nearly always to somewhat later, and hardly
//! ever fires.
//! So most of that work is thrown away, and there are two ways not to do it.
//!
//! - [`Lazy`] notes the new deadline and moves the timer when the old one comes up.
//! - [`Coalesced`] does not move a timer at all for a small difference, as nginx does.
//!
//! They are two types because they promise different things: the first that no timer fires early,
//! the second that a deadline may be off by the slack.

mod coalesced;
mod lazy_queue;

pub use coalesced::Coalesced;
pub use lazy_queue::Lazy;
