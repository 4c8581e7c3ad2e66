//! The verdict on a target. A target is a bound that `page.json` sets for some figures of the
//! benchmark.

use serde::Deserialize;

use crate::page::sentence;
use crate::report::{Figure, Report, number};

#[derive(Clone, Debug, Deserialize)]
pub(crate) struct Target {
    what: String,
    /// `at most` or `at least`, a number, and perhaps its unit.
    bound: Bound,
    /// The cells that are judged, in the form that [`Report::figures`] takes. The worst of them
    /// counts.
    cells: Vec<String>,
    /// Explanations why a target was not met. The first explanation that this run's tables confirm
    /// is printed.
    #[serde(default)]
    pub(crate) reasons: Vec<Reason>,
    /// The tool that measures the target, if this program does not.
    elsewhere: Option<String>,
}

/// An explanation, and the figures that confirm it. It is not printed if the figures of this run
/// contradict it.
#[derive(Clone, Debug, Deserialize)]
pub(crate) struct Reason {
    pub(crate) text: String,
    /// Cells, each with a bound: `cell at most 1`.
    pub(crate) when: Vec<String>,
}

#[derive(Clone, Debug, Deserialize)]
#[serde(from = "String")]
struct Bound {
    text: String,
    is_least: bool,
    limit: f64,
    unit: String,
}

/// The verdicts. The last column of a row begins with one of them.
pub(crate) const VERDICTS: [&str; 4] = ["met", "**missed**", "not decided", "not measured"];

impl Target {
    /// The target's row on the page: its name, the bound, the figure and the verdict.
    pub(crate) fn row(&self, report: &Report) -> String {
        let figures = self.cells.iter().flat_map(|cell| report.figures(cell));
        // `None` if a figure is missing, or if there are no figures.
        let figures: Option<Vec<Figure>> = figures.collect();
        let figures = figures.filter(|figures| !figures.is_empty());
        let (reached, verdict) = match &figures {
            None => ("–".to_owned(), self.not_measured()),
            Some(figures) => (self.reached(figures, report), self.verdict(figures, report)),
        };
        format!(
            "| {} | {} | {reached} | {verdict} |\n",
            self.what, self.bound.text
        )
    }

    /// The worst figure, with its interval if it has one, and with the name of the peer that
    /// replaces an absent peer.
    fn reached(&self, figures: &[Figure], report: &Report) -> String {
        let worst = self.bound.worst(figures);
        let unit = &self.bound.unit;
        let figure = format!("{} {unit}", number(worst.value));
        let figure = match worst.interval {
            Some([least, most]) if least < most => {
                format!(
                    "{} ({} to {})",
                    figure.trim_end(),
                    number(least),
                    number(most)
                )
            }
            _ => figure.trim_end().to_owned(),
        };
        let mut substitutes = self.cells.iter().filter_map(|cell| report.substitute(cell));
        match substitutes.next() {
            Some(peer) => format!("{figure}, to {peer}"),
            None => figure,
        }
    }

    fn verdict(&self, figures: &[Figure], report: &Report) -> String {
        let bound = &self.bound;
        let worst = bound.worst(figures);
        let is_missed = |figure: &Figure| {
            let interval = figure.interval;
            interval.is_some_and(|ends| ends.iter().all(|end| !bound.permits(*end)))
        };
        let is_met = |figure: &Figure| {
            let interval = figure.interval;
            interval.is_some_and(|ends| ends.iter().all(|end| bound.permits(*end)))
        };
        if figures.iter().all(is_met) {
            return "met".to_owned();
        }
        let reason = self.reason(report);
        if figures.iter().any(is_missed) {
            return format!("**missed** by {}{reason}", bound.part_of(worst.value));
        }
        match worst.interval {
            None => "not decided: too few rounds".to_owned(),
            Some(_) => format!("not decided{reason}"),
        }
    }

    /// The first reason that the figures of this run confirm.
    fn reason(&self, report: &Report) -> String {
        let holds = |reason: &&Reason| reason.when.iter().all(|fact| is_fact(fact, report));
        let reason = self.reasons.iter().find(holds);
        reason.map_or_else(String::new, |reason| {
            format!(": {}", sentence(&reason.text, report))
        })
    }

    fn not_measured(&self) -> String {
        let elsewhere = self.elsewhere.iter();
        let elsewhere: String = elsewhere.map(|reason| format!(": {reason}")).collect();
        format!("not measured{elsewhere}")
    }
}

/// Returns whether all figures of a cell are within a bound. `fact` names the cell and the bound,
/// for example `cell at most 1`.
fn is_fact(fact: &str, report: &Report) -> bool {
    let at = fact.rfind(" at ").expect("a fact has a bound");
    let bound = Bound::from(fact[at + 1..].to_owned());
    let figures = report.figures(&fact[..at]);
    let permits =
        |figure: &Option<Figure>| figure.is_some_and(|figure| bound.permits(figure.value));
    !figures.is_empty() && figures.iter().all(permits)
}

impl From<String> for Bound {
    fn from(text: String) -> Bound {
        let words: Vec<&str> = text.split(' ').collect();
        Bound {
            is_least: words[1] == "least",
            limit: words[2].parse().expect("a bound has a number"),
            unit: words[3..].join(" "),
            text,
        }
    }
}

impl Bound {
    /// Returns whether a value is within the bound, with a tolerance, because differences of counts
    /// are not exact in their last digits.
    fn permits(&self, value: f64) -> bool {
        let sign = if self.is_least { -1.0 } else { 1.0 };
        sign * (value - self.limit) <= 1e-6
    }

    fn worst<'a>(&self, figures: &'a [Figure]) -> &'a Figure {
        let sign = if self.is_least { -1.0 } else { 1.0 };
        let order = |a: &&Figure, b: &&Figure| f64::total_cmp(&(sign * a.value), &(sign * b.value));
        figures.iter().max_by(order).expect("there are figures")
    }

    /// Text with the share of the limit by which a value misses the bound.
    fn part_of(&self, value: f64) -> String {
        match 100.0 * (value / self.limit - 1.0).abs() {
            _ if self.limit == 0.0 => number(value),
            percent if percent < 10.0 => format!("{percent:.1} %"),
            percent if percent < 200.0 => format!("{percent:.0} %"),
            _ => format!("a factor of {}", number(value / self.limit)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn target(bound: &str, cell: &str) -> Target {
        let json = format!(
            r#"{{"what": "x", "bound": "{bound}", "cells": ["{cell}"], "reasons": [
                {{"text": "b takes {{t|b|2}}", "when": ["t|b|2 at most 498"]}},
                {{"text": "b takes {{t|b|2}}", "when": ["t|b|2 at least 499", "t|a|1 at most 9"]}}
            ], "elsewhere": "by y"}}"#
        );
        serde_json::from_str(&json).unwrap()
    }

    fn counted() -> Report {
        let mut report = Report::default();
        report.counted.push("t".to_owned());
        for (peer, column, value) in [("a", "1", 9.0), ("a", "2", 500.0), ("b", "2", 499.0)] {
            report.add("t", peer, column, value);
        }
        report
    }

    #[test]
    fn the_worst_cell_is_met_missed_or_not_measured() {
        let verdict = |bound: &str, cell: &str| target(bound, cell).row(&counted());
        let most = |n: f64| verdict(&format!("at most {n} ns"), "t|a|*");
        assert_eq!(most(500.0), "| x | at most 500 ns | 500 ns | met |\n");
        assert!(most(400.0).contains("| **missed** by 25 %"));
        assert!(most(125.0).contains("a factor of 4"));
        let least = verdict("at least 9.1", "t|a|*");
        assert!(least.starts_with("| x | at least 9.1 | 9 | **missed** by 1.1 %"));
        let missing = verdict("at most 400", "t|b|1");
        assert!(missing.ends_with("| – | not measured: by y |\n"));
        assert!(verdict("at most 400", "u|b|*").contains("not measured"));
        assert!(verdict("at most 0.25", "t|a|2|-b").contains("| 1 | **missed**"));
    }

    #[test]
    fn a_reason_that_the_figures_contradict_is_dropped() {
        let missed = |report: &Report| target("at most 400", "t|a|2").row(report);
        assert!(missed(&counted()).ends_with("by 25 %: b takes 499 |\n"));
        let mut other = counted();
        other.cells[0].1[0] = 10.0;
        assert!(
            missed(&other).ends_with("by 25 % |\n"),
            "{}",
            missed(&other)
        );
    }

    #[test]
    fn an_interval_that_straddles_the_bound_decides_nothing() {
        let mut report = Report::default();
        for value in [1.0, 2.0, 3.0, 4.0, 5.0, 6.0] {
            report.add("t", "a", "1", value);
        }
        let row = |bound| target(bound, "t|a|1").row(&report);
        assert!(row("at most 6").ends_with("| 4 (1 to 6) | met |\n"));
        assert!(row("at most 5.9").contains("| not decided"));
        assert!(row("at most 0.9").contains("| **missed**"));
        report.cells[0].1.pop();
        let row = target("at most 6", "t|a|1").row(&report);
        assert!(
            row.ends_with("| 3 | not decided: too few rounds |\n"),
            "{row}"
        );
    }
}
