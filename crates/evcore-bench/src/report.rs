//! The result of one part of the benchmark (a section of its page): for each cell of the part's
//! tables, a value for each round.
//!
//! `page.json` declares the tables. A report is a JSON file, so a page can show parts of several
//! runs.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::spread::Spread;

#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub(crate) struct Report {
    /// The commit, the date, the machine and so on: names with their values, in the order of the
    /// page.
    pub(crate) context: Vec<(String, String)>,
    pub(crate) versions: BTreeMap<String, String>,
    /// The peers (the compared libraries and servers) and tools that were not available, with the
    /// reason.
    pub(crate) absent: BTreeMap<String, String>,
    /// Each cell is a table, a peer and a column, with a value for each round. The cells are in the
    /// order of their first values.
    pub(crate) cells: Vec<([String; 3], Vec<f64>)>,
    /// The tables of counts, which are exact. Other values vary from round to round.
    #[serde(default)]
    pub(crate) counted: Vec<String>,
    /// The cells to measure, as `table|peer|column`. `None` means all cells.
    #[serde(skip)]
    pub(crate) only: Option<Vec<String>>,
}

/// A figure that is compared with the bound of a target, and the interval in which its true value
/// probably lies.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Figure {
    pub(crate) value: f64,
    /// The confidence interval, or the value itself if it is exact. `None` if there are too few
    /// rounds for an interval.
    pub(crate) interval: Option<[f64; 2]>,
}

/// Separates a peer from the peer that replaces it if it is absent.
const ELSE: &str = ", else ";

impl Report {
    /// Returns whether the run measures a cell: any cell, or one of those in `only` if that is set.
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

    /// Records and prints that a peer takes no part, with the reason.
    pub(crate) fn absent(&mut self, peer: &str, reason: &str) {
        eprintln!("without {peer}: {reason}");
        self.absent.insert(peer.to_owned(), reason.to_owned());
    }

    /// Returns the value, or records why a peer takes no part.
    pub(crate) fn or_absent<T>(
        &mut self,
        peer: &str,
        result: Result<T, impl ToString>,
    ) -> Option<T> {
        result
            .map_err(|reason| self.absent(peer, &reason.to_string()))
            .ok()
    }

    /// The names of a table's peers (if `place` is 1) or columns (if it is 2).
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
    /// `table|peer|column` is the median. A fourth word changes that: `|other` makes it the ratio
    /// to another peer (the median of the ratios within each round), `|-other` the difference, and
    /// `|max` or `|min` the greatest or least value. `|other, else third` compares with a third
    /// peer if `other` is absent.
    pub(crate) fn figures(&self, cell: &str) -> Vec<Option<Figure>> {
        let words: Vec<&str> = cell.split('|').collect();
        let (table, peer, how) = (words[0], words[1], words.get(3).copied());
        let columns = match words[2] {
            "*" => self.names(table, 2),
            column => vec![column],
        };
        let figure = |column| {
            let values = self.values([table, peer, column])?;
            let Some(how) = how else {
                return self.figure(table, values);
            };
            let spread = Spread::of(values)?;
            match (how, how.strip_prefix('-')) {
                ("max", _) => return Some(Figure::exact(spread.most)),
                ("min", _) => return Some(Figure::exact(spread.least)),
                _ => {}
            }
            let (other, difference) = match how.strip_prefix('-') {
                Some(other) => (other, true),
                None => (how, false),
            };
            let other = self.values([table, self.present(table, other), column])?;
            let pairs = values.iter().zip(other);
            let compared: Vec<f64> = match difference {
                true => pairs.map(|(value, other)| value - other).collect(),
                false => pairs.map(|(value, other)| value / other).collect(),
            };
            self.figure(table, &compared)
        };
        columns.into_iter().map(figure).collect()
    }

    /// The peer that replaces an absent peer in this cell, if there is one.
    pub(crate) fn substitute<'a>(&self, cell: &'a str) -> Option<&'a str> {
        let words: Vec<&str> = cell.split('|').collect();
        let (first, second) = words.get(3)?.split_once(ELSE)?;
        (self.present(words[0], words[3]) != first).then_some(second)
    }

    /// The first of the two peers if the table has it, otherwise the second.
    fn present<'a>(&self, table: &str, peers: &'a str) -> &'a str {
        let Some((first, second)) = peers.split_once(ELSE) else {
            return peers;
        };
        match self.names(table, 1).contains(&first) {
            true => first,
            false => second,
        }
    }

    fn figure(&self, table: &str, values: &[f64]) -> Option<Figure> {
        let Spread { median, .. } = Spread::of(values)?;
        if self.counted.iter().any(|counted| counted == table) {
            return Some(Figure::exact(median));
        }
        let interval = crate::spread::interval(values);
        Some(Figure {
            value: median,
            interval,
        })
    }

    /// The spread of a cell; `None` if the peer has no values in this column.
    pub(crate) fn spread(&self, table: &str, peer: &str, column: &str) -> Option<Spread> {
        Spread::of(self.values([table, peer, column])?)
    }

    pub(crate) fn ratio(&self, table: &str, peer: &str, column: &str, to: &str) -> Option<f64> {
        let figures = self.figures(&format!("{table}|{peer}|{column}|{to}"));
        figures[0].map(|figure| figure.value)
    }

    fn values(&self, cell: [&str; 3]) -> Option<&[f64]> {
        let found = self.cells.iter().find(|(known, _)| known == &cell);
        found.map(|(_, values)| values.as_slice())
    }
}

impl Figure {
    fn exact(value: f64) -> Figure {
        Figure {
            value,
            interval: Some([value; 2]),
        }
    }
}

/// A number with about three significant digits, or with all digits before the point.
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

    fn values(report: &Report, cell: &str) -> Vec<Option<f64>> {
        let figures = report.figures(cell).into_iter();
        figures
            .map(|figure| figure.map(|figure| figure.value))
            .collect()
    }

    #[test]
    fn a_cell_has_its_median_and_its_ratio_within_each_round() {
        let mut report = Report::default();
        for (base, peer) in [(10.0, 5.0), (40.0, 40.0), (12.0, 6.0)] {
            report.add("read", "base", "100", base);
            report.add("read", "peer", "100", peer);
        }
        assert_eq!(values(&report, "read|base|100"), [Some(12.0)]);
        assert_eq!(values(&report, "read|base|100|max"), [Some(40.0)]);
        assert_eq!(values(&report, "read|peer|*|base"), [Some(0.5)]);
        assert_eq!(values(&report, "read|peer|100|-base"), [Some(-5.0)]);
        assert_eq!(values(&report, "read|peer|1000"), [None]);
    }

    #[test]
    fn a_peer_that_is_absent_has_a_substitute() {
        let mut report = Report::default();
        report.add("read", "peer", "1", 3.0);
        report.add("read", "second", "1", 6.0);
        let cell = "read|peer|1|first, else second";
        assert_eq!(values(&report, cell), [Some(0.5)]);
        assert_eq!(report.substitute(cell), Some("second"));
        report.add("read", "first", "1", 3.0);
        assert_eq!(values(&report, cell), [Some(1.0)]);
        assert_eq!(report.substitute(cell), None);
    }

    #[test]
    fn a_count_is_exact_and_a_time_of_one_round_is_not() {
        let mut report = Report::default();
        report.add("t", "peer", "1", 3.0);
        assert_eq!(report.figures("t|peer|1")[0].unwrap().interval, None);
        report.counted.push("t".to_owned());
        let interval = report.figures("t|peer|1")[0].unwrap().interval;
        assert_eq!(interval, Some([3.0, 3.0]));
    }
}
