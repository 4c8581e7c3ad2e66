//! The project beside its peers, in one run.
//!
//! It measures and prints what it measured, a record a line; `cargo xtask bench` builds it, starts
//! it and tells the result. `evcore-bench count ...` does one thing only, for callgrind or strace to
//! count.

mod clock;
mod library;
// Beside a bare epoll loop.
#[cfg(target_os = "linux")]
mod pollers;
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
        ["count", "timers", ref words @ ..] if timers::count(words) => ExitCode::SUCCESS,
        #[cfg(target_os = "linux")]
        ["count", "pollers", ref words @ ..] if pollers::count(words) => ExitCode::SUCCESS,
        _ => usage(),
    }
}

fn measured(part: fn()) -> ExitCode {
    record::date();
    part();
    ExitCode::SUCCESS
}

fn usage() -> ExitCode {
    eprintln!("evcore-bench timers | clock | pollers | count ...; `cargo xtask bench` starts it");
    ExitCode::FAILURE
}
