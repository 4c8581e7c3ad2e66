//! The counts that CI asserts: cells of the parts `turn` and `timers`, beside the limits of
//! `counts.txt`.

use std::error::Error;
use std::fs;

use crate::report::Report;
use crate::run::{Run, root};
use crate::{pollers, timers};

/// The file of limits, from the root.
const LIMITS: &str = "crates/evcore-bench/counts.txt";

/// By how much a count may exceed its limit: other versions of the C library differ a little.
const MARGIN: f64 = 1.03;

/// Counts everything in the file, and prints each count beside its limit.
///
/// With `update` it writes the counts into the file instead of judging them.
///
/// # Errors
///
/// If a count exceeds its limit by more than the margin, with their number.
pub(crate) fn check(run: &Run, update: bool) -> Result<(), Box<dyn Error>> {
    let path = root().join(LIMITS);
    let text = fs::read_to_string(&path)?;
    let lines: Vec<_> = text.lines().map(parse).collect::<Result<_, _>>()?;
    let mut report = Report::new("turn");
    report.tables.extend(Report::new("timers").tables);
    let cells = lines
        .iter()
        .flatten()
        .map(|(cell, _)| cell.map(str::to_owned));
    report.only = Some(cells.collect());
    pollers::measure_turn(run, &mut report);
    timers::count_instructions(run, &mut report);
    let (mut exceeded, mut new) = (0, String::new());
    for (line, parsed) in text.lines().zip(&lines) {
        new += line;
        if let Some(([table, peer, column], limit)) = parsed {
            let name = format!("{table} | {peer} | {column}");
            let counted = report.find(table).and_then(|it| it.median(peer, column));
            let Some(count) = counted else {
                println!("not run: {name}: its tool is not installed");
                new += "\n";
                continue;
            };
            let is_exceeded = count > limit * MARGIN + 1e-6;
            exceeded += usize::from(is_exceeded);
            let verdict = if is_exceeded { "EXCEEDED" } else { "" };
            println!("{name:<60} {count:>10.2} of {limit:>10.2} {verdict}");
            let (start, _) = line.rsplit_once('|').expect("it was parsed");
            new.truncate(new.len() - line.len());
            new += &format!("{start}| {:.0}", count.ceil());
        }
        new += "\n";
    }
    if update {
        return Ok(fs::write(path, new)?);
    }
    match exceeded {
        0 => Ok(()),
        _ => Err(format!(
            "{exceeded} counts exceed {LIMITS} by more than 3 %; \
             `evcore-bench counts --update` writes the new ones"
        )
        .into()),
    }
}

/// A table, a peer, a column and the limit; `None` for a comment or an empty line.
fn parse(line: &str) -> Result<Option<([&str; 3], f64)>, String> {
    if line.is_empty() || line.starts_with('#') {
        return Ok(None);
    }
    let fields: Vec<&str> = line.split('|').map(str::trim).collect();
    let [table, peer, column, limit] = fields[..] else {
        return Err(format!("{LIMITS}: not four fields: {line}"));
    };
    let limit = limit
        .parse()
        .map_err(|_| format!("{LIMITS}: no number: {line}"))?;
    Ok(Some(([table, peer, column], limit)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_file_of_limits_is_valid() {
        let text = fs::read_to_string(root().join(LIMITS)).unwrap();
        let limits = text.lines().filter_map(|it| parse(it).unwrap());
        assert!(limits.count() > 10);
        assert!(parse("turn | EventLoop | 3").is_err());
    }
}
