//! Helpers that the tests of several crates share. Only tests use this crate. It is not published.

mod counting;
mod eventually;
mod named_tests;
mod not_run;
mod promised_time;
mod refusal;
mod scratch;
mod set_on_drop;
mod strace_available;
#[cfg(any(target_os = "linux", target_os = "android"))]
mod syscall_filter;
mod valgrind;

pub use counting::{
    CountingAllocator, allocations, bytes_in_use, watch_this_thread, watched_allocations,
};
pub use eventually::{PATIENCE, eventually};
pub use named_tests::{NamedTest, run_named_tests};
pub use not_run::not_run;
pub use promised_time::{SLICE, SLICES_MAX, assert_within, in_time, is_busy};
pub use refusal::unless_refused;
pub use scratch::Scratch;
pub use set_on_drop::SetOnDrop;
pub use strace_available::strace_works;
#[cfg(any(target_os = "linux", target_os = "android"))]
pub use syscall_filter::without;
pub use valgrind::under_valgrind;
