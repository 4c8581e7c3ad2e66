#![doc = include_str!("../README.md")]
//!
//! # The order of a turn
//!
//! [`EventLoop::wait`] asks the balancer for a plan, starts or stops listening, waits, and updates
//! the clock. [`EventLoop::next_step`] then yields, one by one:
//!
//! 1. what the kernel reported, as [`Step::Ready`] (while this worker holds the accept lock, this
//!    is put off to the end);
//! 2. clients, as [`Step::Accepted`]: after those who are served, who may just have left their
//!    places, and from one listener after the other; then the accept lock is released;
//! 3. [`Step::Woken`], if a [`Handle`] woke the loop;
//! 4. timers that have expired, as [`Step::Expired`];
//! 5. what was posted, as [`Step::Ready`]: what was left over, what was
//!    [put off](EventLoop::post_next) to this turn, what [other threads](Handle::post) posted, what
//!    the lock's hurry put off to here, and what the steps of this turn posted, in this order;
//! 6. the oldest of the [idle](EventLoop::set_idle), as [`Step::Evict`], if clients wait and
//!    places are short, or the loop [shuts down](EventLoop::shutdown): last, when all that is known
//!    of them has been told, so that nobody who has just asked for something is taken for idle; and
//!    right before the next plan, which finds their places free.
//!
//! Each phase has a [budget](Budgets); what is over it comes in the next turn, which does not wait.
//!
//! The time is that of the turn: it stands still from one wait to the next, and a timer is armed
//! from there. With a [`timer_resolution`](Builder::timer_resolution) it stands still from one tick
//! to the next, however many turns there are between.
//!
//! # The parts
//!
//! Each is a crate of its own, re-exported here under its last name.
#![forbid(unsafe_code)]

mod acceptor;
mod config;
mod error;
mod event_loop;
mod group;
mod handle;
mod histogram;
mod histograms;
mod slow_turn;
mod stats;
mod step;

mod connections;
mod timer_slot;

mod turn;

mod close;
mod idle;
mod shutdown;

mod accepting;
mod batch;
mod calls;
mod listeners;
mod measures;
mod naming;
mod outside;
mod pace;
mod slots;
mod sync;
mod timers;
mod watchdog;

pub use acceptor::Acceptor;
pub use config::{Budgets, Builder};
pub use connections::Connections;
pub use error::{Error, ListenerError, Result};
pub use event_loop::EventLoop;
pub use group::GroupMember;
pub use handle::{Handle, LoopClosed};
pub use histogram::Histogram;
pub use histograms::Histograms;
pub use slow_turn::{SlowStep, SlowTurn, StepKind};
pub use stats::Stats;
pub use step::{Accepted, Step};
pub use timer_slot::Timer;

pub use evcore_accept as accept;
pub use evcore_balancer as balancer;
pub use evcore_clock as clock;
pub use evcore_poller as poller;
pub use evcore_posted as posted;
pub use evcore_timer as timer;
pub use evcore_token as token;

pub use evcore_accept::{Address, Listener, Stream, Transport};
pub use evcore_poller::{Interest, Mode, Ready};
pub use evcore_token::Token;

// Each may be made on one thread and used on another.
const _: () = {
    const fn is_send<T: Send>() {}
    is_send::<EventLoop>();
    is_send::<Handle>();
    is_send::<Builder>();
};
