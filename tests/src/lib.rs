//! What the tests of the whole share: the examples as processes, and a client that sees
//! every byte.
//!
//! Nothing here waits for a time to pass: it waits for a condition, and gives up after
//! [`PATIENCE`], which only a failure needs.

mod client;
mod example;
#[cfg(any(target_os = "linux", target_os = "android"))]
mod refusing;
mod server;
mod status;
mod strace;

pub use client::{Client, Response};
pub use evcore_testing::{PATIENCE, Scratch, eventually, strace_works};
pub use example::{echo, example, httpd, prefork_echo};
#[cfg(any(target_os = "linux", target_os = "android"))]
pub use refusing::without;
pub use server::{Server, signal_to};
pub use status::Status;
pub use strace::Strace;

/// The root README's example compiles.
#[cfg(doctest)]
#[doc = include_str!("../../README.md")]
struct Readme;
