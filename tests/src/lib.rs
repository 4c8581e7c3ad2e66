//! Common code of the tests of whole programs: the programs as processes, and an HTTP client.
//!
//! Tests wait for conditions instead of sleeping. A wait fails after [`PATIENCE`], or after a
//! promised time, which [`assert_within`] extends on a busy machine.

mod browser;
mod client;
mod descriptor_limit;
mod httpd_process;
mod injected_failures;
#[cfg(target_os = "linux")]
mod own_network;
#[cfg(target_os = "linux")]
mod page_cache;
mod permitted;
mod proc;
mod programs;
mod programs_of_others;
mod status;

pub use browser::{Browser, Scheme, Screen};
pub use client::{Client, Response};
pub use descriptor_limit::allow_many_descriptors;
#[cfg(any(target_os = "linux", target_os = "android"))]
pub use evcore_testing::without;
pub use evcore_testing::{
    NamedTest, PATIENCE, Scratch, SetOnDrop, assert_within, eventually, in_time, is_busy,
    named_tests, not_run, run_named_tests, strace_works,
};
pub use httpd_process::{Server, httpd_limited, limited, signal_to, try_signal_to};
pub use injected_failures::Strace;
#[cfg(target_os = "linux")]
pub use own_network::in_own_network;
#[cfg(target_os = "linux")]
pub use page_cache::pages_in_memory;
pub use permitted::is_permitted;
pub use proc::{clients_of, process_state};
pub use programs::{echo, evcore_replay, example, httpd, prefork_echo};
pub use programs_of_others::{Running, is_installed};
pub use status::Status;

/// The root README's example compiles.
#[cfg(doctest)]
#[doc = include_str!("../../README.md")]
struct Readme;
