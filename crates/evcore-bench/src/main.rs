//! The project beside its peers, in one run. For Linux.
//!
//! `evcore-bench run` measures parts and writes the page; `counts` asserts the counts. `evcore-bench
//! count ...` repeats one operation, for callgrind or strace to count. The other words start servers.

mod accept;
mod clock;
mod command;
mod counts;
mod descriptors;
mod memory;
mod page;
mod parts;
mod picture;
mod pollers;
mod report;
mod requests;
mod rng;
mod run;
mod targets;
mod timers;
mod tools;
mod whole;

use std::process::ExitCode;

fn main() -> ExitCode {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let words: Vec<&str> = args.iter().map(String::as_str).collect();
    let done = match words[..] {
        ["run" | "counts", ..] => match command::run(args) {
            Ok(()) => true,
            Err(error) => {
                eprintln!("evcore-bench: {error}");
                false
            }
        },
        ["count", "timers", ref words @ ..] => timers::count(words),
        ["count", "pollers", ref words @ ..] => pollers::count(words),
        ["bare", interest] => return accept::serve(interest),
        ["launch", ref words @ ..] => return accept::launch(words),
        _ => {
            eprintln!("{}", command::USAGE);
            false
        }
    };
    if done {
        ExitCode::SUCCESS
    } else {
        ExitCode::FAILURE
    }
}
