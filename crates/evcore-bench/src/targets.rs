//! The verdict on a target of `page.json`.

use serde::Deserialize;

use crate::report::{Report, number};

/// What a part should reach.
#[derive(Clone, Debug, Deserialize)]
pub(crate) struct Target {
    what: String,
    /// `at most` or `at least`, a number, and perhaps its unit.
    bound: String,
    /// The cells that are judged, as [`Report::figures`] has them: the worst of them counts.
    cells: Vec<String>,
    /// Why it is missed, if that has a reason that no work on the code removes.
    reason: Option<String>,
}

impl Target {
    /// Its row on the page: what, the bound, what was reached, and the verdict.
    pub(crate) fn row(&self, report: &Report) -> String {
        let words: Vec<&str> = self.bound.split(' ').collect();
        let (at_least, unit) = (words[1] == "least", words[3..].join(" "));
        let bound: f64 = words[2].parse().expect("a bound has a number");
        let figures = self.cells.iter().flat_map(|cell| report.figures(cell));
        // `None` if one of them is missing.
        let figures: Option<Vec<f64>> = figures.collect();
        let worst = if at_least { f64::min } else { f64::max };
        let reached = figures.and_then(|figures| figures.into_iter().reduce(worst));
        let reason = self.reason.iter().map(|reason| format!(": {reason}"));
        let reason: String = reason.collect();
        // The counted differences are not exact in their last digits.
        let excess = |value| {
            if at_least {
                bound - value
            } else {
                value - bound
            }
        };
        let verdict = match reached {
            None => format!("not measured{reason}"),
            Some(value) if excess(value) <= 1e-6 => "met".to_owned(),
            Some(value) => format!("**missed** by {}{reason}", part_of(value, bound)),
        };
        let reached = reached.map_or("–".to_owned(), |it| format!("{} {unit}", number(it)));
        let (what, reached) = (&self.what, reached.trim_end());
        format!("| {what} | {} | {reached} | {verdict} |\n", self.bound)
    }
}

/// By how much a bound is missed.
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
        let row = |bound: &str, cell: &str, values: &[(&str, &str, f64)]| {
            let mut report = Report::default();
            for (peer, column, value) in values {
                report.add("t", peer, column, *value);
            }
            let (what, reason) = (String::new(), Some("the kernel".to_owned()));
            let (bound, cells) = (bound.to_owned(), vec![cell.to_owned()]);
            let target = Target {
                what,
                bound,
                cells,
                reason,
            };
            target.row(&report)
        };
        let turn = |value| {
            row(
                "at most 400 ns",
                "t|a|*",
                &[("a", "1", 9.0), ("a", "2", value)],
            )
        };
        assert_eq!(turn(400.0), "|  | at most 400 ns | 400 ns | met |\n");
        assert!(turn(500.0).ends_with("| **missed** by 25 %: the kernel |\n"));
        assert!(turn(1200.0).contains("a factor of 3"));
        let missing = row(
            "at most 400 ns",
            "t|a|*",
            &[("a", "1", 9.0), ("b", "2", 9.0)],
        );
        assert_eq!(
            missing,
            "|  | at most 400 ns | – | not measured: the kernel |\n"
        );
        let jain = |value| {
            row(
                "at least 0.990",
                "t|a|4",
                &[("a", "4", value), ("a", "8", 0.0)],
            )
        };
        assert!(jain(0.99).contains("| met |"));
        assert!(jain(0.98).contains("| **missed** by 1.0 %"));
        let above = row(
            "at most 0.250",
            "t|a|2|-b",
            &[("a", "2", 0.8), ("b", "2", 0.4)],
        );
        assert!(above.contains("| 0.400 | **missed** by 60 %"));
    }
}
