//! The project beside its peers, in one run. For Linux.

mod accept;
mod clock;
mod counts;
mod cpus;
mod foreign;
mod memory;
mod pace;
mod page;
mod parts;
mod picture;
mod pollers;
mod process;
mod report;
mod requests;
mod rng;
mod run;
mod server;
mod servers;
mod targets;
mod timers;
mod tools;
mod whole;

use std::error::Error;
use std::ffi::OsString;
use std::path::PathBuf;
use std::process::ExitCode;

use lexopt::{Arg, Parser};

use self::parts::PARTS;
use self::run::Run;

const USAGE: &str = "\
evcore-bench run [--quick] [--missing] [--httpd PATH] [--out DIR] [--docs DIR] [PART...]

Measures the parts, all if none is named, and writes the page from all parts that were measured.
`cargo xtask bench` builds everything and runs this.

  --quick     one short round, to see that it works
  --missing   only parts that have no result yet: continues a run that was interrupted
  --httpd     the example server, for the parts that start it (beside this program)
  --out       where the results go (target/evcore-bench)
  --docs      where the page goes (docs)

evcore-bench counts [--httpd PATH] [--out DIR] [--update]

Counts instructions, allocations and system calls, and compares them with counts.txt. `--update`
writes them there instead.

evcore-bench count timers NAME ARMED TIMES
evcore-bench count pollers pipes plain|timers NAME TIMES ACTIVE
evcore-bench count pollers toggle one NAME TIMES
evcore-bench count pollers wait none|zero|short NAME TIMES

Repeats one operation of a peer, for a tool to count.
";

fn main() -> ExitCode {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let words: Vec<&str> = args.iter().map(String::as_str).collect();
    let done = match words[..] {
        ["count", "timers", ref words @ ..] => timers::count(words),
        ["count", "pollers", ref words @ ..] => pollers::count(words),
        _ => match run(args) {
            Ok(()) => true,
            Err(error) => {
                eprintln!("evcore-bench: {error}");
                return ExitCode::FAILURE;
            }
        },
    };
    if done {
        return ExitCode::SUCCESS;
    }
    eprintln!("{USAGE}");
    ExitCode::FAILURE
}

/// Parses the words after the program's name, and runs what they name.
fn run(args: Vec<String>) -> Result<(), Box<dyn Error>> {
    let mut run = Run {
        quick: false,
        folder: run::root().join("target/evcore-bench"),
        httpd: std::env::current_exe()?.with_file_name("httpd"),
        rounds: 1,
    };
    let (mut docs, mut names) = (run::root().join("docs"), Vec::new());
    let (mut missing, mut update) = (false, false);
    let mut parser = Parser::from_args(args.into_iter().map(OsString::from));
    while let Some(arg) = parser.next()? {
        match arg {
            Arg::Long("quick") => run.quick = true,
            Arg::Long("missing") => missing = true,
            Arg::Long("update") => update = true,
            Arg::Long("httpd") => run.httpd = PathBuf::from(parser.value()?),
            Arg::Long("out") => run.folder = PathBuf::from(parser.value()?),
            Arg::Long("docs") => docs = PathBuf::from(parser.value()?),
            Arg::Value(name) => names.push(name.to_string_lossy().into_owned()),
            other => return Err(format!("{}\n\n{USAGE}", other.unexpected()).into()),
        }
    }
    std::fs::create_dir_all(&run.folder)?;
    let mut names = names.iter().map(String::as_str);
    match names.next() {
        Some("counts") => return counts::check(&run, update),
        Some("run") => {}
        _ => return Err(USAGE.into()),
    }
    let names: Vec<&str> = names.collect();
    if let Some(other) = names
        .iter()
        .find(|name| PARTS.iter().all(|it| it.name != **name))
    {
        let known: Vec<&str> = PARTS.iter().map(|part| part.name).collect();
        return Err(format!("no part `{other}`; there are: {}", known.join(", ")).into());
    }
    for part in PARTS {
        let is_named = names.is_empty() || names.contains(&part.name);
        if is_named && !(missing && run.report(part.name).exists()) {
            run.part(part)?;
        }
    }
    Ok(page::write(&run, &docs)?)
}
