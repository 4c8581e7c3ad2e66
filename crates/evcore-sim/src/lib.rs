#![doc = include_str!("../README.md")]
//!
//! # How to test your own server
//!
//! 1. **Let it not know what it runs on.** Be generic over [`Acceptor`](evcore::Acceptor), which brings
//!    the stream with it, and call the stream by [`Transport`](evcore::Transport). Take the time from
//!    [`EventLoop::clock`](evcore::EventLoop::clock), and chance from the caller.
//! 2. **Keep the run repeatable.** No [`Instant`](std::time::Instant), no thread, no order of a
//!    `HashMap`, nothing that depends on an address: all of these differ from run to run, and a
//!    seed then means nothing. Run one seed twice and compare [`World::trace_hash`].
//! 3. **Give it a world.** [`Process::builder`] is a [`Builder`](evcore::Builder) with the
//!    simulated clock and poller in place; [`Process::listen`] is its listener. A server whose own
//!    loop calls [`EventLoop::wait`](evcore::EventLoop::wait) runs as it is: its waits let
//!    simulated time pass, and [`World::set_end`] ends it. One that has several workers, or that is
//!    to be stopped and killed, implements [`App`] and runs under [`Workers`], with a [`SimGroup`]
//!    for what the workers share.
//! 4. **Send clients.** By hand, between two waits ([`World::connect`]); by a [`Script`]; or, for
//!    those that never end or that decide as they go, a [`Client`] of your own.
//! 5. **Say what must hold**, while it runs and in the end: every client has its answer or has lost
//!    its connection; nothing is served twice; all that was opened is closed. To see that a server
//!    recovers, end the run with [`Faults::none`] and some time to settle.
//! 6. **Let things go wrong** ([`Faults::all`], or those of your choice) under [`check`], with as
//!    many seeds as you have patience for. What fails is printed with the command that repeats it,
//!    which shows the record of what happened too.
//! 7. **See that it finds something.** Plant a bug, such as a buffer that is not cleared, and count
//!    the seeds until it is found. [`World::count`] says which faults your runs have met.
//!
//! `tests/on_both.rs` is a server that was written so, and runs on sockets and here.
#![forbid(unsafe_code)]

mod world;

mod chance;
mod conditions;
mod faults;

mod process;

mod backend;
mod group;
mod listener;
mod stream;

mod client;
mod script;

mod worker;
mod workers;

mod check;

mod agenda;
mod descriptors;
mod net;
mod notifier;
mod poll;
mod rng;
mod state;
mod trace;

pub use backend::SimBackend;
pub use chance::Chance;
pub use check::{SEED_VARIABLE, SEEDS_VARIABLE, check};
pub use client::{Client, News, Visit};
pub use conditions::Conditions;
pub use faults::{Fault, Faults};
pub use group::{SimGroup, SimMember};
pub use listener::SimListener;
pub use process::{Process, SimClock};
pub use rng::Rng;
pub use script::{Ending, Script, Scripted};
pub use stream::SimStream;
pub use workers::{App, Workers};
pub use world::World;
