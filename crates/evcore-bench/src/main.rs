//! Compares the project with similar libraries and servers (*peers*) in one run. This program runs
//! only on Linux.

mod accept;
mod client;
mod clock;
mod counts;
mod cpus;
mod datagrams;
mod foreign;
mod futures;
mod hello_server;
mod latency;
/// The load generator of evcore's example `client`.
#[path = "../../evcore/examples/client/load.rs"]
mod load;
mod memory;
mod pace;
mod page;
mod picture;
mod pollers;
mod process;
mod proxied;
mod report;
mod requests;
mod run;
mod server;
mod sleepers;
mod spread;
mod storm;
mod targets;
mod timers;
mod tools;
mod udp_bursts;
mod user;
mod whole;

use std::path::{Path, PathBuf, absolute};
use std::process::ExitCode;

use lexopt::{Arg, Parser, ValueExt};

use self::report::Report;
use self::run::Run;

const USAGE: &str = include_str!("../usage.txt");

type Error = Box<dyn std::error::Error>;
type Result<T = (), E = Error> = std::result::Result<T, E>;

fn main() -> ExitCode {
    match run() {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("evcore-bench: {error}");
            ExitCode::FAILURE
        }
    }
}

fn run() -> Result {
    let mut run = Run {
        quick: false,
        folder: run::root().join("target/evcore-bench"),
        httpd: std::env::current_exe()?.with_file_name("httpd"),
        rounds: 1,
    };
    let (mut docs, mut words) = (run::root().join("docs"), Vec::new());
    let (mut missing, mut update) = (false, false);
    let mut parser = Parser::from_env();
    while let Some(arg) = parser.next()? {
        match arg {
            Arg::Long("quick") => run.quick = true,
            Arg::Long("missing") => missing = true,
            Arg::Long("update") => update = true,
            Arg::Long("out") => run.folder = absolute(parser.value()?)?,
            Arg::Long("docs") => docs = PathBuf::from(parser.value()?),
            Arg::Value(word) => words.push(word.string()?),
            other => return Err(format!("{}\n\n{USAGE}", other.unexpected()).into()),
        }
    }
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    match words[..] {
        ["count", "timers", ref words @ ..] if timers::count(words) => Ok(()),
        ["count", "turns", ref words @ ..] if timers::count_turns(words) => Ok(()),
        ["count", "futures", ref words @ ..] if futures::count(words) => Ok(()),
        ["count", "pollers", ref words @ ..] if pollers::count(words) => Ok(()),
        ["serve", runtime, address] => hello_server::serve(runtime, address),
        ["counts"] => counts::check(&run, update),
        ["run", ref names @ ..] => parts(&mut run, names, missing, &docs),
        _ => Err(USAGE.into()),
    }
}

/// Measures the parts that `names` lists, or all if it is empty, and writes the page. With
/// `missing`, only parts that have no result yet are measured.
fn parts(run: &mut Run, names: &[&str], missing: bool, docs: &Path) -> Result {
    let parts = page::parts();
    let is_unknown = |name: &&&str| parts.iter().all(|part| part.name != **name);
    if let Some(other) = names.iter().find(is_unknown) {
        return Err(format!("no part `{other}`").into());
    }
    std::fs::create_dir_all(&run.folder)?;
    for part in parts {
        let name = part.name.as_str();
        let is_named = names.is_empty() || names.contains(&name);
        if is_named && !(missing && run.file(name).exists()) {
            run.part(&part, measure(name))?;
        }
    }
    page::write(run, docs)
}

fn measure(part: &str) -> fn(&Run, &mut Report) {
    match part {
        "turn" => |run, report| {
            pollers::measure_turn(run, report);
            user::count(run, report);
        },
        "pollers" => pollers::measure,
        "timers" => timers::measure,
        "futures" => futures::count_instructions,
        "sleepers" => sleepers::measure,
        "clock" => clock::measure,
        "memory" => memory::measure,
        "storm" => storm::measure,
        "whole" => whole::measure,
        "latency" => latency::measure,
        "hyper" => whole::measure_hyper,
        "recording" => whole::measure_recording,
        "proxies" => whole::measure_proxies,
        "datagrams" => |run, report| {
            datagrams::measure(run, report);
            udp_bursts::measure(run, report);
        },
        "accept" => accept::measure,
        "bursts" => accept::bursts,
        "kills" => accept::kills,
        "workers" => accept::workers,
        // Other commands measure the rows of this part.
        "project" => |_, _| (),
        _ => unreachable!("page.json has no other part"),
    }
}
