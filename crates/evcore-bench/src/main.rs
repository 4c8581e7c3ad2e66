//! The project beside its peers, in one run.
//!
//! It measures and prints what it measured, a record a line; `cargo xtask bench` builds it, starts
//! it and tells the result. `evcore-bench count ...` does one thing only, for callgrind or strace
//! to count.

// Worker processes on one CPU, and what /proc has of them.
#[cfg(target_os = "linux")]
mod accept;
mod budgets;
mod clock;
#[cfg(target_os = "linux")]
mod descriptors;
mod library;
// Beside a bare epoll loop.
#[cfg(target_os = "linux")]
mod pollers;
#[cfg(target_os = "linux")] // for the eventfd
mod posted;
mod random;
mod record;
mod timers;
mod watch;

use std::process::ExitCode;

fn main() -> ExitCode {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let words: Vec<&str> = args.iter().map(String::as_str).collect();
    match words[..] {
        ["timers"] => measured(timers::measure),
        ["clock"] => measured(clock::measure),
        #[cfg(target_os = "linux")]
        ["pollers"] => measured(pollers::measure),
        #[cfg(target_os = "linux")]
        ["posted"] => measured(posted::measure),
        ["budgets"] => measured(budgets::measure),
        #[cfg(target_os = "linux")]
        ["accept", ref words @ ..] => measured(|| accept::measure(words)),
        #[cfg(target_os = "linux")]
        ["kills", ref words @ ..] => measured(|| accept::kills(words)),
        #[cfg(target_os = "linux")]
        ["shortage", ref words @ ..] => measured(|| accept::shortage(words)),
        #[cfg(target_os = "linux")]
        ["bare", ref words @ ..] => accept::serve(words),
        #[cfg(target_os = "linux")]
        ["launch", ref words @ ..] => accept::launch(words),
        ["count", "timers", ref words @ ..] if timers::count(words) => ExitCode::SUCCESS,
        #[cfg(target_os = "linux")]
        ["count", "pollers", ref words @ ..] if pollers::count(words) => ExitCode::SUCCESS,
        _ => usage(),
    }
}

fn measured(part: impl FnOnce()) -> ExitCode {
    record::date();
    part();
    ExitCode::SUCCESS
}

fn usage() -> ExitCode {
    eprintln!("evcore-bench PART | count ...; `cargo xtask bench` starts it");
    ExitCode::FAILURE
}
