//! The loop as a user builds it: `user/` is a workspace of its own, with the default release
//! profile.

use std::path::PathBuf;

use crate::report::Report;
use crate::run::{Run, root, shell};
use crate::tools::Tool::Callgrind;

const NAME: &str = "EventLoop, default profile";

/// The cells, with the program's arguments.
const CELLS: [(&str, &str, &str); 4] = [
    ("turn", "plain", "plain 1 #"),
    ("turn", "timer", "timer 1 #"),
    ("event", "plain", "plain 100 #"),
    ("event", "timer", "timer 100 #"),
];

pub(crate) fn count(run: &Run, report: &mut Report) {
    let cells = CELLS.iter();
    let cells: Vec<_> = cells
        .filter(|(table, column, _)| report.wants(table, NAME, column))
        .collect();
    if cells.is_empty() || Callgrind.is_missing(report) {
        return;
    }
    let Some(program) = report.or_absent(NAME, build()) else {
        return;
    };
    for (table, column, words) in cells {
        eprintln!("turn: {table}, {column}, of {NAME}");
        let counts = Callgrind.each_of(run, &program, words, NAME);
        report.add(table, NAME, column, counts.values().sum());
    }
}

fn build() -> Result<PathBuf, String> {
    let this = std::env::current_exe().map_err(|error| error.to_string())?;
    // This program is TARGET/release/evcore-bench.
    let target = this.ancestors().nth(2).ok_or("this program has no place")?;
    let target = target.join("user");
    let line = "cargo build --quiet --release --locked --manifest-path \
                crates/evcore-bench/user/Cargo.toml --target-dir \"$0\"";
    let mut command = shell(line);
    let status = command.arg(&target).current_dir(root()).status();
    match status.map_err(|error| error.to_string())? {
        status if status.success() => Ok(target.join("release/evcore-user")),
        status => Err(format!("{line}: {status}")),
    }
}
