//! The result of a part: tables that have, for each peer and column, a value of each round.
//!
//! `tables.txt` declares the tables, to which a part adds values round by round. `page.rs` computes
//! medians, ratios and verdicts from them. A report is a JSON file, so a page can show parts of several runs.

use std::collections::BTreeMap;
use std::fs;
use std::io;
use std::path::Path;

use serde::{Deserialize, Serialize};

/// The declarations of all tables.
const TABLES: &str = include_str!("../tables.txt");

/// Everything that a part measured.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub(crate) struct Report {
    pub(crate) part: String,
    /// When, where and from which commit: names with their values, in the order of the page.
    pub(crate) context: Vec<(String, String)>,
    /// The peers' versions.
    pub(crate) versions: BTreeMap<String, String>,
    /// The peers and tools that were not available, with the reason.
    pub(crate) absent: BTreeMap<String, String>,
    pub(crate) tables: Vec<Table>,
    /// The cells that are measured, by table, peer and column; all if it is `None`.
    #[serde(skip)]
    pub(crate) only: Option<Vec<[String; 3]>>,
}

/// One measurement of all peers.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Table {
    /// Unique within the report; targets and pictures refer to it.
    pub(crate) name: String,
    pub(crate) title: String,
    /// What one operation does, and how it is measured.
    pub(crate) text: String,
    pub(crate) unit: String,
    /// The peer that the others are compared with, in the same column and round.
    pub(crate) baseline: Option<String>,
    pub(crate) columns: Vec<String>,
    pub(crate) rows: Vec<Row>,
}

/// A peer's values: by column, one for each round.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Row {
    pub(crate) peer: String,
    pub(crate) cells: BTreeMap<String, Vec<f64>>,
}

/// The median of some values, with the least and the greatest of them.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Spread {
    pub(crate) median: f64,
    pub(crate) least: f64,
    pub(crate) most: f64,
}

impl Report {
    /// The tables of a part, without rows.
    pub(crate) fn new(part: &str) -> Report {
        let lines = TABLES.lines().filter(|line| !line.starts_with('#'));
        let fields = lines.map(|line| line.split(" | ").map(str::to_owned).collect::<Vec<_>>());
        let tables = fields.filter(|fields| fields[0] == part).map(|fields| {
            let [_, name, unit, title, baseline, text] = fields.try_into().expect("six fields");
            Table {
                name,
                title,
                text,
                unit,
                baseline: Some(baseline).filter(|it| it != "-"),
                columns: Vec::new(),
                rows: Vec::new(),
            }
        });
        Report {
            part: part.to_owned(),
            tables: tables.collect(),
            ..Report::default()
        }
    }

    /// Whether the caller wants a cell: all cells, or those of `counts.txt`.
    pub(crate) fn wants(&self, table: &str, peer: &str, column: &str) -> bool {
        let is_it = |cell: &[String; 3]| cell == &[table, peer, column];
        self.only.as_ref().is_none_or(|only| only.iter().any(is_it))
    }

    /// Adds the value of one round. Rows and columns keep the order of their first values.
    ///
    /// # Panics
    ///
    /// If there is no such table.
    pub(crate) fn add(&mut self, table: &str, peer: &str, column: &str, value: f64) {
        let table = self.tables.iter_mut().find(|it| it.name == table);
        table.expect("a declared table").add(peer, column, value);
    }

    /// Records that a peer takes no part, and prints it.
    pub(crate) fn absent(&mut self, peer: &str, reason: &str) {
        eprintln!("{}: without {peer}: {reason}", self.part);
        self.absent.insert(peer.to_owned(), reason.to_owned());
    }

    /// The value, or else records why a peer takes no part.
    pub(crate) fn or_absent<T>(&mut self, peer: &str, value: Result<T, String>) -> Option<T> {
        value.map_err(|reason| self.absent(peer, &reason)).ok()
    }

    pub(crate) fn find(&self, table: &str) -> Option<&Table> {
        self.tables.iter().find(|it| it.name == table)
    }

    pub(crate) fn write(&self, path: &Path) -> io::Result<()> {
        fs::write(path, serde_json::to_vec_pretty(self)?)
    }

    /// Reads a report; `None` if there is none.
    pub(crate) fn read(path: &Path) -> io::Result<Option<Report>> {
        match fs::read(path) {
            Ok(text) => Ok(Some(serde_json::from_slice(&text)?)),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(error) => Err(error),
        }
    }
}

impl Table {
    fn add(&mut self, peer: &str, column: &str, value: f64) {
        if !self.columns.iter().any(|it| it == column) {
            self.columns.push(column.to_owned());
        }
        let place = self.rows.iter().position(|row| row.peer == peer);
        let place = place.unwrap_or_else(|| {
            self.rows.push(Row {
                peer: peer.to_owned(),
                cells: BTreeMap::new(),
            });
            self.rows.len() - 1
        });
        let cells = &mut self.rows[place].cells;
        cells.entry(column.to_owned()).or_default().push(value);
    }

    /// The values of a peer; `None` if it has none in this column.
    pub(crate) fn values(&self, peer: &str, column: &str) -> Option<&[f64]> {
        let row = self.rows.iter().find(|row| row.peer == peer)?;
        row.cells.get(column).map(Vec::as_slice)
    }

    pub(crate) fn spread(&self, peer: &str, column: &str) -> Option<Spread> {
        Spread::of(self.values(peer, column)?)
    }

    pub(crate) fn median(&self, peer: &str, column: &str) -> Option<f64> {
        self.spread(peer, column).map(|spread| spread.median)
    }

    /// The median of the ratios of two peers within each round.
    pub(crate) fn ratio(&self, peer: &str, to: &str, column: &str) -> Option<f64> {
        let rounds = self.values(peer, column)?.iter();
        let rounds = rounds.zip(self.values(to, column)?);
        let ratios: Vec<f64> = rounds.map(|(value, base)| value / base).collect();
        Spread::of(&ratios).map(|spread| spread.median)
    }
}

impl Spread {
    /// `None` without values.
    pub(crate) fn of(values: &[f64]) -> Option<Spread> {
        let mut values = values.to_vec();
        values.sort_by(f64::total_cmp);
        Some(Spread {
            median: *values.get(values.len() / 2)?,
            least: *values.first()?,
            most: *values.last()?,
        })
    }
}

/// A number with three significant digits, or all digits before the point.
pub(crate) fn number(value: f64) -> String {
    match value.abs() {
        whole if whole.fract() == 0.0 => format!("{value:.0}"),
        0.0..1.0 => format!("{value:.3}"),
        1.0..10.0 => format!("{value:.2}"),
        10.0..100.0 => format!("{value:.1}"),
        _ => format!("{value:.0}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_ratio_is_the_median_of_the_ratios_of_each_round() {
        let mut report = Report::new("clock");
        for (base, peer) in [(10.0, 5.0), (40.0, 40.0), (10.0, 5.0)] {
            report.add("read", "base", "100", base);
            report.add("read", "peer", "100", peer);
        }
        let table = report.find("read").unwrap();
        assert_eq!(table.ratio("peer", "base", "100"), Some(0.5));
        assert_eq!(table.ratio("peer", "base", "1000"), None);
        let spread = table.spread("base", "100").unwrap();
        assert_eq!(
            (spread.least, spread.median, spread.most),
            (10.0, 10.0, 40.0)
        );
    }

    #[test]
    fn a_report_survives_its_file() {
        let mut report = Report::new("clock");
        report.add("read", "peer", "100", 1.25);
        let name = format!("evcore-bench-{}.json", std::process::id());
        let path = std::env::temp_dir().join(name);
        report.write(&path).unwrap();
        let read = Report::read(&path).unwrap().unwrap();
        fs::remove_file(&path).unwrap();
        assert_eq!(read.tables[0].values("peer", "100"), Some(&[1.25][..]));
        assert!(Report::read(&path).unwrap().is_none());
    }
}
