//! The verdict on a target of `page.json`.

use serde::Deserialize;

use crate::report::{Report, number};

/// A figure that a part should reach.
#[derive(Clone, Debug, Deserialize)]
pub(crate) struct Target {
    what: String,
    /// `at most` or `at least`, a number, and perhaps its unit.
    bound: String,
    /// The cells that are judged, in the form that [`Report::figures`] takes. The worst of them
    /// counts.
    cells: Vec<String>,
    /// The reason why the target is missed, if no work on the code can remove it.
    reason: Option<String>,
}

impl Target {
    /// The target's row on the page: its name, the bound, the figure and the verdict.
    pub(crate) fn row(&self, report: &Report) -> String {
        let words: Vec<&str> = self.bound.split(' ').collect();
        let bound: f64 = words[2].parse().expect("a bound has a number");
        let figures = self.cells.iter().flat_map(|cell| report.figures(cell));
        // The result is `None` if one figure is missing.
        let figures: Option<Vec<f64>> = figures.collect();
        let (worst, sign): (fn(f64, f64) -> f64, _) = match words[1] {
            "least" => (f64::min, -1.0),
            _ => (f64::max, 1.0),
        };
        let reached = figures.and_then(|figures| figures.into_iter().reduce(worst));
        let reason = self.reason.iter().map(|reason| format!(": {reason}"));
        let reason: String = reason.collect();
        let verdict = match reached {
            None => format!("not measured{reason}"),
            // The counted differences are not exact in their last digits.
            Some(value) if sign * (value - bound) <= 1e-6 => "met".to_owned(),
            Some(value) => format!("**missed** by {}{reason}", part_of(value, bound)),
        };
        let unit = words[3..].join(" ");
        let reached = reached.map_or("–".to_owned(), |figure| {
            format!("{} {unit}", number(figure))
        });
        let (what, reached) = (&self.what, reached.trim_end());
        format!("| {what} | {} | {reached} | {verdict} |\n", self.bound)
    }
}

/// The part by which a bound is missed.
fn part_of(value: f64, bound: f64) -> String {
    match 100.0 * (value / bound - 1.0).abs() {
        _ if bound == 0.0 => number(value),
        percent if percent < 10.0 => format!("{percent:.1} %"),
        percent if percent < 200.0 => format!("{percent:.0} %"),
        _ => format!("a factor of {}", number(value / bound)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_worst_cell_is_met_missed_or_not_measured() {
        let mut report = Report::default();
        for (peer, column, value) in [("a", "1", 9.0), ("a", "2", 500.0), ("b", "2", 499.0)] {
            report.add("t", peer, column, value);
        }
        let verdict = |bound: &str, cell: &str| {
            let target = format!(
                r#"{{"what": "x", "bound": "{bound}", "cells": ["{cell}"], "reason": "y"}}"#
            );
            let target: Target = serde_json::from_str(&target).unwrap();
            target.row(&report)
        };
        let most = |n: f64| verdict(&format!("at most {n} ns"), "t|a|*");
        assert_eq!(most(500.0), "| x | at most 500 ns | 500 ns | met |\n");
        assert!(most(400.0).ends_with("| **missed** by 25 %: y |\n"));
        assert!(most(125.0).contains("a factor of 4"));
        let least = verdict("at least 9.1", "t|a|*");
        assert_eq!(least, "| x | at least 9.1 | 9 | **missed** by 1.1 %: y |\n");
        let missing = verdict("at most 400", "t|b|1");
        assert!(missing.ends_with("| – | not measured: y |\n"));
        assert!(verdict("at most 0.25", "t|a|2|-b").contains("| 1 | **missed**"));
    }
}
