//! What it costs to be out of descriptors, and how soon service resumes.

use super::table::{head, nothing, row};
use crate::bench::results::Results;
use crate::bench::statistics::shown;

pub(in crate::bench) const WORKLOAD: &str = "shortage";

const ABOUT: &str = "\
Two workers with 64 descriptors each, and 500 clients that come at once, ask, and stay. CPU is of all \
processes of the server, of one CPU, in two seconds after all clients that can be served have been. Then \
ten of those clients leave, one after the other. The time from that until another client is served is \
in milliseconds: median (least to most). Shed clients are those whose connection the server closed \
without an answer.

";

/// The table of the part.
pub(super) fn table(results: &Results) -> String {
    let columns = [
        "CPU, %",
        "served at first",
        "turned away",
        "next served after, ms",
    ];
    let mut text = ABOUT.to_owned() + &head("", &columns.map(str::to_owned));
    for peer in results.figures.peers(WORKLOAD, "cpu_percent") {
        text.push_str(&row(peer, cells(results, peer)));
    }
    text + "\n"
}

fn cells(results: &Results, peer: &str) -> impl Iterator<Item = String> {
    let sizes = results.figures.sizes(WORKLOAD, "cpu_percent");
    let spread = |what| {
        let mut sizes = sizes.iter();
        sizes.find_map(|size| results.figures.spread(WORKLOAD, *size, peer, what))
    };
    let one = |what| spread(what).map(|spread| spread.median);
    let cpu = one("cpu_percent").map(shown);
    let counts = ["served", "shed"].map(|what| one(what).map(|n| format!("{n:.0}")));
    let resumed = spread("resumed_us").map(|us| {
        let [median, least, most] = [us.median, us.least, us.most].map(|us| shown(us / 1e3));
        format!("**{median}** ({least} to {most})")
    });
    let cells = std::iter::once(cpu).chain(counts).chain([resumed]);
    cells.map(|cell| cell.unwrap_or_else(nothing))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_row_has_what_was_found_and_a_dash_for_what_was_not() {
        let mut results = Results::default();
        let text = "figure\tshortage\t2\ta\tcpu_percent\t0.25\n\
                    figure\tshortage\t2\ta\tserved\t108\n\
                    figure\tshortage\t2\ta\tshed\t0\n\
                    figure\tshortage\t2\ta\tresumed_us\t1000 500000 2000\n\
                    figure\tshortage\t2\tb\tcpu_percent\t1\n";
        results.read(text).unwrap();
        let text = table(&results);
        assert!(
            text.contains("| `a` | 0.25 | 108 | 0 | **2.0** (1.0 to 500) |"),
            "{text}"
        );
        assert!(text.contains("| `b` | 1.0 | – | – | – |"));
    }
}
