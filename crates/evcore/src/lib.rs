#![doc = include_str!("../README.md")]
//!
//! # The order of a turn
//!
//! [`EventLoop::wait`] asks the balancer for a plan, starts or stops listening, waits, and updates
//! the clock. [`EventLoop::next_step`] then yields, one by one:
//!
//! 1. what the kernel reported, as [`Step::Ready`] and [`Step::Accepted`]; while this worker holds
//!    the accept lock, only the accepts, and the lock is released after the last of them;
//! 2. [`Step::Woken`], if a [`Handle`] woke the loop;
//! 3. timers that have expired, as [`Step::Expired`];
//! 4. what was posted, by you or by the lock's hurry, as [`Step::Ready`].
//!
//! Each phase has a [budget](Budgets); what is over it comes in the next turn, which does not wait.
//!
//! # The parts
//!
//! Each is a crate of its own, re-exported here under its last name.
#![forbid(unsafe_code)]

mod config;
mod error;
mod event_loop;
mod handle;
mod stats;
mod step;

mod accepting;
mod close;
mod naming;
mod turn;

pub use config::{Budgets, Builder};
pub use error::{Error, Result};
pub use event_loop::EventLoop;
pub use handle::Handle;
pub use stats::Stats;
pub use step::{Accepted, Side, Step};

pub use evcore_accept as accept;
pub use evcore_balancer as balancer;
pub use evcore_clock as clock;
pub use evcore_poller as poller;
pub use evcore_posted as posted;
pub use evcore_timer as timer;
pub use evcore_token as token;

pub use evcore_accept::{Listener, Stream};
pub use evcore_poller::{Interest, Mode, Ready};
pub use evcore_token::{Table, Token};
