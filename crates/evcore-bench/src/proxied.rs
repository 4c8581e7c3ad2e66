//! System calls and instructions of a proxied session, and of a request within one.
//!
//! Each proxy runs under strace and under callgrind. One client opens one connection after another.

use std::fs;
use std::time::Duration;

use crate::client::Client;
use crate::pace;
use crate::report::Report;
use crate::run::Run;
use crate::server::{self, Program};
use crate::tools::Tool::{self, Callgrind, Strace};

/// Numbers of sessions, and of requests in each: in a short run, in a run with more sessions, and
/// in a run with more requests.
const SHORT: [u32; 2] = [20, 1];
const SESSIONS: [u32; 2] = [120, 1];
const REQUESTS: [u32; 2] = [20, 21];

/// Time that a run leaves to the last sessions, because no client waits until they have ended.
const ENDS: Duration = Duration::from_millis(300);

const TABLES: [(&str, Tool, &str); 2] = [
    ("proxied calls", Strace, "strace -c -f"),
    (
        "proxied instructions",
        Callgrind,
        "valgrind --tool=callgrind --trace-children=yes --callgrind-out-file=/dev/null",
    ),
];

/// Counts the system calls and instructions of all proxies. Their upstream must be set.
pub(crate) fn count(run: &Run, programs: &mut [Program], report: &mut Report) {
    for (table, tool, command) in TABLES {
        if tool.is_missing(report) {
            continue;
        }
        for program in &mut *programs {
            program.tool = command;
            eprintln!("proxies: {table} of {}", program.name);
            let counts =
                [SHORT, SESSIONS, REQUESTS].map(|load| whole_run(run, program, tool, load));
            let [Ok(short), Ok(sessions), Ok(requests)] = counts else {
                report.absent(&format!("{}, {table}", program.name), "it does not serve");
                continue;
            };
            let closed = (sessions - short) / f64::from(SESSIONS[0] - SHORT[0]);
            let kept = (requests - short) / f64::from(REQUESTS[0] * (REQUESTS[1] - SHORT[1]));
            for (column, each) in [("closed", closed), ("kept alive", kept)] {
                // System calls are rounded to tenths, because one wait more or less in a whole run
                // would show as a fraction of a call.
                let each = if tool == Strace {
                    (10.0 * each).round() / 10.0
                } else {
                    each
                };
                report.add(table, &program.name, column, each);
            }
        }
    }
}

fn whole_run(
    run: &Run,
    program: &Program,
    tool: Tool,
    [sessions, requests]: [u32; 2],
) -> Result<f64, String> {
    let server = program.start(0)?;
    for _ in 0..sessions {
        let mut client = Client::connect(server.address).map_err(|error| error.to_string())?;
        for _ in 0..requests {
            let answer = client.ask("/").and_then(|()| client.answer());
            answer.map_err(|error| error.to_string())?;
        }
    }
    pace::pause(ENDS);
    // The tool prints its summary when it ends.
    drop(server);
    let log = server::folder(run).join(format!("{}.log", program.name));
    let text = fs::read_to_string(log).map_err(|error| error.to_string())?;
    // callgrind prints a summary for each process of a proxy.
    let summaries = text
        .lines()
        .filter_map(|line| line.split_once("Collected : "));
    let instructions = summaries.filter_map(|(_, count)| count.trim().parse::<f64>().ok());
    Ok(match tool {
        Strace => tool.parse(&text).values().sum(),
        _ => instructions.sum(),
    })
}
