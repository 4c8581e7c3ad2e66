#![doc = include_str!("../README.md")]
#![forbid(unsafe_code)]

mod world;

mod chance;
mod conditions;
mod faults;

mod process;

mod backend;
mod listener;
mod lock;
mod stream;

mod client;
mod script;

mod worker;
mod workers;

mod check;

mod agenda;
mod descriptors;
mod net;
mod poll;
mod rng;
mod state;
mod trace;

pub use backend::SimBackend;
pub use chance::Chance;
pub use check::{SEED_VARIABLE, check};
pub use client::{Client, News, Visit};
pub use conditions::Conditions;
pub use faults::{Fault, Faults};
pub use listener::SimListener;
pub use lock::{SimLock, SimMutex};
pub use process::{Process, SimClock};
pub use rng::Rng;
pub use script::{Ending, Script, Scripted};
pub use stream::SimStream;
pub use workers::{App, Workers};
pub use world::World;
