//! Rows and cells.

use super::workload::Workload;
use crate::bench::results::{Figure, Results, baseline};
use crate::bench::statistics::{Spread, shown};

/// A row a peer, a column a size, and a line about what was taken off.
pub(super) fn times(results: &Results, workload: &Workload) -> String {
    let name = workload.name;
    let sizes = results.sizes(name);
    let columns: Vec<String> = sizes.iter().map(|size| (workload.column)(*size)).collect();
    let mut text = head(&format!("to `{}`", baseline(name)), &columns);
    for peer in results.peers(name) {
        let cells = sizes
            .iter()
            .map(|size| cell(results.figure(name, *size, peer)));
        text.push_str(&row(peer, cells));
    }
    text + &taken_off(results, name, &sizes) + "\n"
}

/// The first cell, then the names of the columns, and the line below them.
pub(super) fn head(first: &str, columns: &[String]) -> String {
    format!(
        "| {first} | {} |\n|---|{}\n",
        columns.join(" | "),
        "---|".repeat(columns.len())
    )
}

/// The row of a peer.
pub(super) fn row(peer: &str, cells: impl Iterator<Item = String>) -> String {
    let cells: Vec<String> = cells.collect();
    format!("| `{peer}` | {} |\n", cells.join(" | "))
}

/// A cell that has nothing to say.
pub(super) fn nothing() -> String {
    "–".to_owned()
}

fn cell(figure: Option<Figure>) -> String {
    let Some(Figure { ns, ratio }) = figure else {
        return nothing();
    };
    format!(
        "**{}** · {} ({} to {})",
        shown(ratio.median),
        shown(ns.median),
        shown(ns.least),
        shown(ns.most)
    )
}

/// Nothing, where no loop was measured.
fn taken_off(results: &Results, workload: &str, sizes: &[u64]) -> String {
    let own: Vec<f64> = sizes
        .iter()
        .map(|size| results.loop_ns(workload, *size))
        .filter(|ns| *ns > 0.0)
        .collect();
    if own.is_empty() {
        return String::new();
    }
    let own = Spread::of(own);
    let (least, most) = (shown(own.least), shown(own.most));
    format!("\nTaken off for the loop: {least} to {most} ns.\n")
}
