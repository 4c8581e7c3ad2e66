//! The counts that CI asserts: some cells of the benchmark's tables, compared with the limits in
//! `counts.txt`.

use std::{fs, mem};

use crate::Result;
use crate::report::Report;
use crate::run::{Run, root};
use crate::tools::Tool;
use crate::{futures, pollers, timers, user};

const LIMITS: &str = "crates/evcore-bench/counts.txt";

const ADVICE: &str = "`evcore-bench counts --update` writes the new ones";

/// Factor by which a count may exceed its limit, because versions of the C library differ a little.
const MARGIN: f64 = 1.03;

/// Number of attempts for a count above its limit. On a busy machine, the delays of an accept
/// policy pass while the loop's instructions are counted, so the loop decides more often whether to
/// accept.
const ATTEMPTS: usize = 3;

/// Counts everything in the file, and prints each count with its limit.
///
/// If `update` is true, writes the counts into the file as the new limits. A count above its old
/// limit is then not an error.
///
/// # Errors
///
/// If counts exceed their limits by more than the margin. The error has their number.
pub(crate) fn check(run: &Run, update: bool) -> Result {
    let path = root().join(LIMITS);
    let mut text = fs::read_to_string(&path)?.replace(" | ", "|");
    let mut limits = Vec::new();
    for line in text.lines().filter(|line| !line.starts_with('#')) {
        let row = line.rsplit_once('|');
        let (cell, limit) = row.ok_or_else(|| format!("{LIMITS}: no row: {line:?}"))?;
        limits.push((cell.to_owned(), limit.to_owned()));
    }
    if limits.is_empty() {
        return Err(format!("{LIMITS} has no limit").into());
    }
    let mut cells: Vec<_> = limits.iter().map(|(cell, _)| cell.clone()).collect();
    for attempt in 1..=ATTEMPTS {
        let wanted = mem::take(&mut cells);
        let report = counted(run, &wanted);
        for (cell, limit) in limits.iter().filter(|(cell, _)| wanted.contains(cell)) {
            let Some(figure) = report.figures(cell)[0] else {
                absent(cell, &report)?;
                continue;
            };
            let count = figure.value;
            let is_exceeded = count > limit.parse::<f64>()? * MARGIN + 1e-6;
            let verdict = if is_exceeded { "EXCEEDED" } else { "" };
            println!("{cell:<60} {count:>10.2} of {limit:>10} {verdict}");
            if is_exceeded {
                cells.push(cell.clone());
            }
            // A limit is a whole number. A clock reading in one of many turns (iterations of the
            // event loop) adds less than 0.01, and does not raise the limit.
            let counted = format!("{cell}|{}", (count - 0.01).ceil());
            text = text.replace(&format!("{cell}|{limit}"), &counted);
        }
        if cells.is_empty() || update {
            break;
        }
        if attempt < ATTEMPTS {
            println!("counting {} again", cells.len());
        }
    }
    let exceeded = cells.len();
    if update {
        return Ok(fs::write(path, text.replace('|', " | "))?);
    }
    match exceeded {
        0 => Ok(()),
        _ => Err(format!("{exceeded} counts exceed {LIMITS} by more than 3 %; {ADVICE}").into()),
    }
}

fn counted(run: &Run, cells: &[String]) -> Report {
    let mut report = Report {
        only: Some(cells.to_vec()),
        ..Report::default()
    };
    pollers::measure_turn(run, &mut report);
    user::count(run, &mut report);
    timers::count_instructions(run, &mut report);
    timers::count_few(run, &mut report);
    futures::count_instructions(run, &mut report);
    report
}

/// Handles a cell without a count. If neither its peer nor a tool is absent, that is an error.
fn absent(cell: &str, report: &Report) -> Result {
    let explains = |name: &&str| cell.contains(*name) || Tool::PROGRAMS.contains(name);
    let absent = report.absent.keys().map(String::as_str);
    let absent: Vec<_> = absent.filter(explains).collect();
    if absent.is_empty() {
        return Err(format!("{LIMITS}: there is no such count: {cell}").into());
    }
    println!("not run: {cell}: {} not installed", absent.join(", "));
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_missing_tool_or_peer_excuses_a_missing_count() {
        let mut report = Report::default();
        let cell = "turn|EventLoop, io_uring|plain";
        assert!(absent(cell, &report).is_err());
        report.absent("nginx's tree", "its source is not there");
        assert!(absent(cell, &report).is_err());
        report.absent("io_uring", "the kernel does not permit it");
        assert!(absent(cell, &report).is_ok());
        assert!(absent("turn|EventLoop|plain", &report).is_err());
        report.absent("valgrind", "it is not installed");
        assert!(absent("turn|EventLoop|plain", &report).is_ok());
    }
}
