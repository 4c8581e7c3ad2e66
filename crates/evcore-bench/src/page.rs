//! Writes `docs/performance.md`, its pictures, and a page with the full tables of each part. A
//! *part* is one section of `docs/performance.md`, with its own tables and targets (bounds for its
//! figures).

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use serde::Deserialize;

use crate::Result;
use crate::picture::Picture;
use crate::report::{Report, number};
use crate::run::Run;
use crate::targets::{Target, VERDICTS};

#[derive(Clone, Debug, Deserialize)]
pub(crate) struct Part {
    pub(crate) name: String,
    title: String,
    /// Number of measurements of each peer. A virtual machine's speed changes within seconds, so
    /// the median of many short rounds varies less than the median of a few long ones.
    pub(crate) rounds: usize,
    /// The peers with the command that prints the version of each.
    #[serde(default)]
    pub(crate) versions: BTreeMap<String, String>,
    /// The result in a sentence. Cells stand in braces, in the form that [`Report::figures`] takes.
    headline: String,
    #[serde(default)]
    pictures: Vec<Picture>,
    pub(crate) tables: Vec<Table>,
    targets: Vec<Target>,
}

/// One measurement of all peers.
#[derive(Clone, Debug, Deserialize)]
pub(crate) struct Table {
    /// The name by which targets and pictures refer to the table, unique within the part.
    pub(crate) name: String,
    unit: String,
    title: String,
    /// The peer with which the others are compared, in the same column and round.
    baseline: Option<String>,
    /// True if the values are exact counts. (In a part with one round, all tables count as exact.)
    #[serde(default)]
    counted: bool,
    /// A description of one operation, and of its measurement.
    text: String,
}

/// The text at the beginning of the page. `CELLS` is the text above the tables of a part.
const HEAD: &str = include_str!("../head.txt");
const CELLS: &str = include_str!("../cells.txt");

pub(crate) fn parts() -> Vec<Part> {
    serde_json::from_str(include_str!("../page.json")).expect("page.json has this form")
}

/// Writes all pages from the reports that exist.
pub(crate) fn write(run: &Run, docs: &Path) -> Result {
    let folder = docs.join("performance");
    fs::create_dir_all(&folder)?;
    let mut sections = String::new();
    for part in parts() {
        let report = run.read(&part.name)?;
        sections += &part.section(report.as_ref());
        if let Some(report) = &report {
            fs::write(folder.join(format!("{}.md", part.name)), part.full(report))?;
            for picture in &part.pictures {
                let table = part.tables.iter().find(|table| table.name == picture.table);
                let unit = &table.expect("a picture is of a table").unit;
                picture.draw(unit, report, &folder)?;
            }
        }
    }
    let counts = VERDICTS.map(|verdict| sections.matches(&format!("| {verdict}")).count());
    let [met, missed, undecided, unmeasured] = counts;
    let sections = sections.trim_end();
    let page = format!(
        "{HEAD}**{met} targets met, {missed} missed, {undecided} not decided, {unmeasured} not measured.**\n\n{}\n\n{sections}\n",
        runs(run)?
    );
    Ok(fs::write(docs.join("performance.md"), page)?)
}

/// The commits at which the parts were measured, with the time that all parts took together. More
/// than one commit shows that the parts are of several runs.
fn runs(run: &Run) -> std::io::Result<String> {
    let mut commits = BTreeMap::new();
    let mut seconds = 0_u64;
    for part in parts() {
        let Some(report) = run.read(&part.name)? else {
            continue;
        };
        let value = |name: &str| {
            let found = report.context.iter().find(|(known, _)| known == name);
            found.map_or("", |(_, value)| value.as_str())
        };
        *commits.entry(value("commit").to_owned()).or_insert(0) += 1;
        let duration = value("duration").split(' ').next();
        seconds += duration.and_then(|text| text.parse().ok()).unwrap_or(0);
    }
    let commits: Vec<String> = commits
        .into_iter()
        .map(|(commit, parts)| format!("{commit} ({parts} parts)"))
        .collect();
    let commits = commits.join(", ");
    Ok(format!(
        "Measured at {commits}, in {} minutes.",
        seconds.div_ceil(60)
    ))
}

impl Part {
    pub(crate) fn counted(&self) -> Vec<String> {
        let tables = self.tables.iter();
        let counted = tables.filter(|table| table.counted || self.rounds == 1);
        counted.map(|table| table.name.clone()).collect()
    }

    /// The part's section of the page: a sentence, the pictures and the verdicts.
    fn section(&self, report: Option<&Report>) -> String {
        let mut text = format!("## {}\n\n", self.title);
        if let Some(report) = report {
            text += &format!("{}\n\n", sentence(&self.headline, report));
            for Picture { title, table, .. } in &self.pictures {
                text += &format!("![{title}](performance/{table}.svg)\n\n");
            }
            let context = context(report, ", ");
            text += &format!("{context}; [all figures](performance/{}.md)\n\n", self.name);
        } else {
            text += "Not measured yet.\n\n";
        }
        text += "| what | target | reached | verdict |\n|---|---|---|---|\n";
        let nothing = Report::default();
        for target in &self.targets {
            text += &target.row(report.unwrap_or(&nothing));
        }
        text + "\n"
    }

    fn full(&self, report: &Report) -> String {
        let context = context(report, "; ");
        let mut text = format!("# {}: all figures\n\n", self.title);
        text += &format!("[Performance](../performance.md). {context}.\n\n");
        if !report.versions.is_empty() {
            let versions = report.versions.iter();
            let versions: Vec<_> = versions.map(|(name, it)| format!("{name} {it}")).collect();
            text += &format!("Versions: {}.\n\n", versions.join(", "));
        }
        for (peer, reason) in &report.absent {
            text += &format!("Without {peer}: {reason}.\n\n");
        }
        text += CELLS;
        let tables = self.tables.iter();
        let tables = tables.filter(|table| !report.names(&table.name, 1).is_empty());
        tables.for_each(|table| text += &table.text(report));
        text.trim_end().to_owned() + "\n"
    }
}

impl Table {
    fn text(&self, report: &Report) -> String {
        let columns = report.names(&self.name, 2);
        let mut text = format!("## {}\n\n{}\n\n", self.title, self.text);
        text += &format!("| {} | {} |\n", self.unit, columns.join(" | "));
        text += &format!("|---|{}\n", "---|".repeat(columns.len()));
        for peer in report.names(&self.name, 1) {
            let cells = columns.iter().map(|column| self.cell(report, peer, column));
            let cells: Vec<String> = cells.collect();
            text += &format!("| `{peer}` | {} |\n", cells.join(" | "));
        }
        text + "\n"
    }

    fn cell(&self, report: &Report, peer: &str, column: &str) -> String {
        let Some(spread) = report.spread(&self.name, peer, column) else {
            return "–".to_owned();
        };
        let baseline = self.baseline.as_deref();
        let ratio = baseline.and_then(|name| report.ratio(&self.name, peer, column, name));
        let ratio = ratio.filter(|ratio| ratio.is_finite());
        let ratio = ratio.map_or_else(String::new, |ratio| format!("**{}** · ", number(ratio)));
        let [median, least, most] = [spread.median, spread.least, spread.most].map(number);
        if least == most {
            format!("{ratio}{median}")
        } else {
            format!("{ratio}{median} ({least} to {most})")
        }
    }
}

fn context(report: &Report, between: &str) -> String {
    let all = report.context.iter();
    let all: Vec<String> = all.map(|(name, it)| format!("{name} {it}")).collect();
    all.join(between)
}

/// Replaces each cell in the text, which is a piece between braces, by its figure.
pub(crate) fn sentence(text: &str, report: &Report) -> String {
    let pieces = text.split(['{', '}']).enumerate().map(|(at, piece)| {
        if at % 2 == 0 {
            return piece.to_owned();
        }
        let figure = report.figures(piece)[0];
        figure.map_or_else(|| "–".to_owned(), |figure| number(figure.value))
    });
    pieces.collect()
}
