//! Writes `docs/performance.md`, its pictures, and a page with the full tables of each part.

use std::fmt::Write as _;
use std::path::Path;
use std::{fs, io};

use crate::parts::{PARTS, Part};
use crate::picture;
use crate::report::{Report, Row, Table, number};
use crate::run::Run;
use crate::targets::TARGETS;

const HEAD: &str = "\
# Performance

Written by `cargo xtask bench`; do not edit. \
[How it measures](../crates/evcore-bench/README.md).

A ratio below 1 is better than the peer beside it. Times are medians of the rounds, in which all \
peers take turns; counts are exact. Each part names its run, and links to its full tables.

";

const CELLS: &str = "\
A cell has the ratio to the table's first row in bold (the median of the ratios within each \
round), then the median of the rounds with the least and the greatest. Counts have one value.

";

/// Writes all pages from the reports that exist.
pub(crate) fn write(run: &Run, docs: &Path) -> io::Result<()> {
    let tables = docs.join("performance");
    fs::create_dir_all(&tables)?;
    let mut sections = String::new();
    for part in PARTS {
        let report = Report::read(&run.report(part.name))?;
        sections += &section(part, report.as_ref());
        if let Some(report) = &report {
            let text = format!("# {}: all figures\n\n{}", part.title, full(report));
            fs::write(tables.join(format!("{}.md", part.name)), text)?;
            for it in part.pictures {
                picture::draw(it, report, &tables)?;
            }
        }
    }
    let verdicts = ["| met |", "| **missed**", "| not measured"];
    let [met, missed, unmeasured] = verdicts.map(|it| sections.matches(it).count());
    let sections = sections.trim_end();
    let page = format!(
        "{HEAD}**{met} targets met, {missed} missed, {unmeasured} not measured.**\n\n{sections}\n"
    );
    fs::write(docs.join("performance.md"), page)
}

/// A part in short: a sentence, its pictures and its verdicts.
fn section(part: &Part, report: Option<&Report>) -> String {
    let mut text = format!("## {}\n\n", part.title);
    if let Some(report) = report {
        text += &format!("{}\n\n", sentence(part.headline, report));
        let pictures = part.pictures.iter();
        for it in pictures.filter(|it| report.find(it.table).is_some()) {
            text += &format!("![{}](performance/{}.svg)\n\n", it.title, it.table);
        }
        let link = format!("[all figures](performance/{}.md)", part.name);
        text += &format!(
            "{}; {link}\n\n",
            pairs(report.context.iter().map(|(name, it)| (name, it)), ", ")
        );
    } else {
        text += "Not measured yet.\n\n";
    }
    text += "| what | target | reached | verdict |\n|---|---|---|---|\n";
    for target in TARGETS.iter().filter(|it| it.part == part.name) {
        let it = target.verdict(report);
        let _ = writeln!(
            text,
            "| {} | {} | {} | {} |",
            target.what, it.bound, it.reached, it.verdict
        );
    }
    text + "\n"
}

/// The text with its cells, which are the pieces between braces.
fn sentence(text: &str, report: &Report) -> String {
    let pieces = text.split(['{', '}']).enumerate().map(|(at, piece)| {
        if at % 2 == 0 {
            return piece.to_owned();
        }
        let words: Vec<&str> = piece.split('|').collect();
        let table = report.find(words[0]);
        let value = table.and_then(|table| match words[1..] {
            [peer, column] => table.median(peer, column),
            [peer, column, other] => table.ratio(peer, other, column),
            _ => None,
        });
        value.map_or_else(|| "–".to_owned(), number)
    });
    pieces.collect()
}

/// Everything that a part measured.
fn full(report: &Report) -> String {
    let context = pairs(report.context.iter().map(|(name, it)| (name, it)), "; ");
    let mut text = format!("[Performance](../performance.md). {context}.\n\n");
    if !report.versions.is_empty() {
        text += &format!("Versions: {}.\n\n", pairs(&report.versions, ", "));
    }
    for (peer, reason) in &report.absent {
        text += &format!("Without {peer}: {reason}.\n\n");
    }
    text += CELLS;
    report.tables.iter().for_each(|it| text += &table(it));
    text.trim_end().to_owned() + "\n"
}

/// Names with their values.
fn pairs<'a>(all: impl IntoIterator<Item = (&'a String, &'a String)>, between: &str) -> String {
    let all = all.into_iter();
    let all: Vec<String> = all.map(|(name, it)| format!("{name} {it}")).collect();
    all.join(between)
}

fn table(table: &Table) -> String {
    let mut text = format!("## {}\n\n{}\n\n", table.title, table.text.trim());
    let columns = table.columns.join(" | ");
    let rules = "---|".repeat(table.columns.len());
    let _ = writeln!(text, "| {} | {columns} |\n|---|{rules}", table.unit);
    for row in &table.rows {
        let cells = table.columns.iter().map(|column| cell(table, row, column));
        let cells: Vec<String> = cells.collect();
        let _ = writeln!(text, "| `{}` | {} |", row.peer, cells.join(" | "));
    }
    text + "\n"
}

fn cell(table: &Table, row: &Row, column: &str) -> String {
    let Some(spread) = table.spread(&row.peer, column) else {
        return "–".to_owned();
    };
    let baseline = table.baseline.as_deref();
    let ratio = baseline.and_then(|it| table.ratio(&row.peer, it, column));
    let ratio = ratio.filter(|ratio| ratio.is_finite());
    let ratio = ratio.map_or_else(String::new, |it| format!("**{}** · ", number(it)));
    let [median, least, most] = [spread.median, spread.least, spread.most].map(number);
    if least == most {
        format!("{ratio}{median}")
    } else {
        format!("{ratio}{median} ({least} to {most})")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_sentence_has_medians_and_ratios_of_cells() {
        let mut report = Report::new("clock");
        for (base, peer) in [(10.0, 5.0), (12.0, 9.0), (14.0, 7.0)] {
            report.add("read", "base", "100", base);
            report.add("read", "peer", "100", peer);
        }
        let text = sentence(
            "{read|peer|100} ns, {read|peer|100|base} of base, {read|other|100}.",
            &report,
        );
        assert_eq!(text, "7 ns, 0.500 of base, –.");
    }

    #[test]
    fn each_target_belongs_to_a_part() {
        for target in TARGETS {
            let has_part = PARTS.iter().any(|part| part.name == target.part);
            assert!(has_part, "{}", target.what);
        }
    }
}
