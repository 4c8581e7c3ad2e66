//! The result of a part: for each cell of its tables, a value of each round.
//!
//! `page.json` declares the tables. `page.rs` computes medians, ratios and verdicts from the values.
//! A report is a JSON file, so a page can show parts of several runs.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

/// Everything that a part measured.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub(crate) struct Report {
    /// The time, the machine and the commit: names with their values, in the order of the page.
    pub(crate) context: Vec<(String, String)>,
    /// The peers' versions.
    pub(crate) versions: BTreeMap<String, String>,
    /// The peers and tools that were not available, with the reason.
    pub(crate) absent: BTreeMap<String, String>,
    /// A table, a peer and a column, with a value for each round, in the order of the first values.
    pub(crate) cells: Vec<([String; 3], Vec<f64>)>,
    /// The cells that are measured, as `table|peer|column`; all if it is `None`.
    #[serde(skip)]
    pub(crate) only: Option<Vec<String>>,
}

/// The median of some values, with the least and the greatest of them.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Spread {
    pub(crate) median: f64,
    pub(crate) least: f64,
    pub(crate) most: f64,
}

impl Report {
    /// Returns whether the caller wants a cell: all cells, or the cells of `counts.txt`.
    pub(crate) fn wants(&self, table: &str, peer: &str, column: &str) -> bool {
        let cell = format!("{table}|{peer}|{column}");
        self.only.as_ref().is_none_or(|only| only.contains(&cell))
    }

    /// Adds the value of one round. Rows and columns keep the order of their first values.
    pub(crate) fn add(&mut self, table: &str, peer: &str, column: &str, value: f64) {
        let cell = [table, peer, column];
        match self.cells.iter_mut().find(|(known, _)| known == &cell) {
            Some((_, values)) => values.push(value),
            None => self.cells.push((cell.map(str::to_owned), vec![value])),
        }
    }

    /// Records that a peer takes no part, and prints it.
    pub(crate) fn absent(&mut self, peer: &str, reason: &str) {
        eprintln!("without {peer}: {reason}");
        self.absent.insert(peer.to_owned(), reason.to_owned());
    }

    /// Returns the value, or records why a peer takes no part.
    pub(crate) fn or_absent<T>(&mut self, peer: &str, it: Result<T, impl ToString>) -> Option<T> {
        it.map_err(|reason| self.absent(peer, &reason.to_string()))
            .ok()
    }

    /// The names of a table's peers (1) or columns (2).
    pub(crate) fn names(&self, table: &str, place: usize) -> Vec<&str> {
        let mut names = Vec::new();
        for (cell, _) in self.cells.iter().filter(|(cell, _)| cell[0] == table) {
            if !names.contains(&cell[place].as_str()) {
                names.push(cell[place].as_str());
            }
        }
        names
    }

    /// The figures of a cell that `page.json` names. The column `*` stands for all columns. A
    /// figure that was not measured is `None`.
    ///
    /// `table|peer|column` is the median. `|other` after it makes it the ratio to another peer (the
    /// median of the ratios within each round), `|-other` the difference, and `|max` or `|min` the greatest or least value.
    pub(crate) fn figures(&self, cell: &str) -> Vec<Option<f64>> {
        let words: Vec<&str> = cell.split('|').collect();
        let (table, peer, how) = (words[0], words[1], words.get(3).copied());
        let columns = match words[2] {
            "*" => self.names(table, 2),
            column => vec![column],
        };
        let figure = |column| {
            let spread = self.spread(table, peer, column)?;
            Some(match how.map(|how| (how, how.strip_prefix('-'))) {
                None => spread.median,
                Some(("max", _)) => spread.most,
                Some(("min", _)) => spread.least,
                Some((_, Some(other))) => spread.median - self.spread(table, other, column)?.median,
                Some((other, None)) => self.ratio(table, peer, column, other)?,
            })
        };
        columns.into_iter().map(figure).collect()
    }

    /// The spread of a cell; `None` if the peer has no values in this column.
    pub(crate) fn spread(&self, table: &str, peer: &str, column: &str) -> Option<Spread> {
        Spread::of(self.values([table, peer, column])?)
    }

    /// The median of the ratios of two peers within each round.
    pub(crate) fn ratio(&self, table: &str, peer: &str, column: &str, to: &str) -> Option<f64> {
        let rounds = self.values([table, peer, column])?.iter();
        let rounds = rounds.zip(self.values([table, to, column])?);
        let ratios: Vec<f64> = rounds.map(|(value, base)| value / base).collect();
        Spread::of(&ratios).map(|spread| spread.median)
    }

    fn values(&self, cell: [&str; 3]) -> Option<&[f64]> {
        let found = self.cells.iter().find(|(known, _)| known == &cell);
        found.map(|(_, values)| values.as_slice())
    }
}

impl Spread {
    /// The spread of some values; `None` if there are none.
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
    let digits = match value.abs() {
        whole if whole.fract() == 0.0 => 0,
        0.0..1.0 => 3,
        1.0..10.0 => 2,
        10.0..100.0 => 1,
        _ => 0,
    };
    format!("{value:.digits$}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cell_has_its_median_and_its_ratio_within_each_round() {
        let mut report = Report::default();
        for (base, peer) in [(10.0, 5.0), (40.0, 40.0), (12.0, 6.0)] {
            report.add("read", "base", "100", base);
            report.add("read", "peer", "100", peer);
        }
        assert_eq!(report.figures("read|base|100"), [Some(12.0)]);
        assert_eq!(report.figures("read|base|100|max"), [Some(40.0)]);
        assert_eq!(report.figures("read|peer|*|base"), [Some(0.5)]);
        assert_eq!(report.figures("read|peer|1000"), [None]);
    }
}
