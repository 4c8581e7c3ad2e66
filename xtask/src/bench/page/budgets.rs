//! The tables of the budgets.

use super::table::{head, nothing, row};
use super::workload;
use crate::bench::results::Results;
use crate::bench::statistics::shown;

/// After the tables of times.
pub(super) fn end(results: &Results) -> String {
    let phases: Vec<&str> = workload::of("budgets").map(|phase| phase.name).collect();
    let columns: Vec<String> = phases
        .iter()
        .map(|phase| phase.trim_start_matches("budgets/").to_owned())
        .collect();
    let mut text = format!(
        "### A full turn\n\n\
         Microseconds, by the loop's own histogram: how long the other phases wait for this one. \
         What a handler does comes to it, which here is next to nothing. Of each round the middle \
         turn, of the rounds the shortest.\n\n{}",
        head("", &columns)
    );
    let Some(first) = phases.first() else {
        return text;
    };
    for budget in results.peers(first) {
        let cells = phases.iter().map(|phase| {
            let size = results.sizes(phase).first().copied();
            let longest = size.and_then(|size| results.longest(phase, size, budget));
            longest.map_or_else(nothing, |ns| shown(ns / 1_000.0))
        });
        text.push_str(&row(budget, cells));
    }
    text + "\n"
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_row_has_a_turn_of_each_phase() {
        let mut results = Results::default();
        let text = "time\tbudgets/batch\t4096\t16\t5\n\
                    longest\tbudgets/batch\t4096\t16\t12500\n";
        results.read(text).unwrap();
        assert!(
            end(&results).contains("| `16` | 12.5 | – | – | – |"),
            "{}",
            end(&results)
        );
    }
}
