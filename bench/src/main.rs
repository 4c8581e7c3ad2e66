//! The project beside its peers, in one run.
//!
//! It measures and prints what it measured, a record a line; `cargo xtask bench` builds it, starts
//! it and tells the result. `evcore-bench count ...` does one thing only, for callgrind to count.

mod clock;
mod record;
mod timers;
mod watch;

use std::process::ExitCode;

fn main() -> ExitCode {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let words: Vec<&str> = args.iter().map(String::as_str).collect();
    match words[..] {
        ["count", peer, ids, steps] => match (ids.parse(), steps.parse()) {
            (Ok(ids), Ok(steps)) if timers::count(peer, ids, steps) => ExitCode::SUCCESS,
            _ => usage(),
        },
        ["timers"] => measured(timers::measure),
        ["clock"] => measured(clock::measure),
        _ => usage(),
    }
}

fn measured(part: fn()) -> ExitCode {
    record::date();
    part();
    ExitCode::SUCCESS
}

fn usage() -> ExitCode {
    eprintln!("evcore-bench timers | clock | count PEER IDS STEPS; `cargo xtask bench` starts it");
    ExitCode::FAILURE
}
