//! How the servers share what comes: a heading a pattern, a table a figure.

use super::table::{head, nothing, row};
use crate::bench::figures::Figures;
use crate::bench::results::Results;
use crate::bench::statistics::Spread;

/// The table of a pattern.
#[derive(Debug)]
struct Pattern {
    /// As `evcore-bench` calls it.
    workload: &'static str,
    heading: &'static str,
    what: &'static str,
    /// The figures, each with what its table is called.
    figures: &'static [(&'static str, &'static str)],
    has_waits: bool,
}

const JAIN: (&str, &str) = ("jain", "Jain index");
const WAKES: (&str, &str) = ("wakes", "wakes a connection");

const PATTERNS: &[Pattern] = &[
    Pattern {
        workload: "accept/idle",
        heading: "At rest before each step",
        what: "1,000 connect one after the other and stay; before each connection and before its \
               request all workers are asleep. So each has two wakes that are needed, and what is \
               above is extra.",
        figures: &[JAIN, ("extra", "extra wakes a connection")],
        has_waits: false,
    },
    Pattern {
        workload: "accept/single",
        heading: "One at a time",
        what: "1,000, each of which connects, asks at once, and stays; the next comes when it is \
               answered. The request is mostly there by the time that the worker has accepted.",
        figures: &[JAIN, WAKES],
        has_waits: true,
    },
    Pattern {
        workload: "accept/burst",
        heading: "Bursts of 64",
        what: "1,024 clients, which connect and ask 64 at a time, and stay.",
        figures: &[JAIN, WAKES],
        has_waits: true,
    },
    Pattern {
        workload: "accept/uneven",
        heading: "Uneven lifetimes",
        what: "2,000 clients, one at a time. Most leave soon and a few stay long (Pareto): some 200 \
               are connected at a time. The Jain index is the median of 30 looks. A client that \
               leaves may cost a wake too.",
        figures: &[
            JAIN,
            ("jain_least", "Jain index, the least of the looks"),
            WAKES,
        ],
        has_waits: true,
    },
    Pattern {
        workload: "accept/halfway",
        heading: "After the connections of two workers were closed",
        what: "500 come one at a time and stay; then all those of the two workers that have the most \
               go, and 500 more come.",
        figures: &[JAIN],
        has_waits: false,
    },
    Pattern {
        workload: "accept/blocked/200",
        heading: "One worker blocked for 200 ms",
        what: "A client asks `/block/200`, which blocks its worker for 200 ms, and meanwhile a new \
               one comes every 4 ms, whether those before are answered or not. nginx has nothing \
               that blocks.",
        figures: &[],
        has_waits: true,
    },
    Pattern {
        workload: "accept/blocked/2000",
        heading: "One worker blocked for 2 s",
        what: "The same with `/block/2000`, once a round: four times `--accept-delay`, so this \
               shows a policy under which no worker takes over. If each worker has a listener of \
               its own, none can: the kernel has given the blocked worker its clients.",
        figures: &[],
        has_waits: true,
    },
];

const ABOUT: &str = "\
`httpd` is the example server with each policy of `--accept`; the bare servers are epoll loops that \
do nothing else, with what the kernel has for sharing a listener. All workers share the first CPU, \
the clients are on the last. The server answers with its process id.

The Jain index is 1 if all workers have as many connections, and 1/n if one of n has all. Wakes are \
the kernel's count of voluntary context switches of the workers: the same measure for all, which costs \
them nothing. ";

/// The tables of the part.
pub(super) fn tables(results: &Results) -> String {
    let mut text = ABOUT.to_owned() + &rounds(&results.figures);
    for pattern in PATTERNS {
        text.push_str(&format!("### {}\n\n{}\n\n", pattern.heading, pattern.what));
        for (what, title) in pattern.figures {
            text.push_str(&table(&results.figures, pattern.workload, what, title));
        }
        if pattern.has_waits {
            text.push_str(&waits(&results.figures, pattern.workload));
        }
    }
    text
}

fn rounds(figures: &Figures) -> String {
    let rounds = figures.most_values(PATTERNS[0].workload);
    format!(
        "A cell is the median of the rounds, here {rounds}, in which all take turns with a fresh \
         server each, and in brackets the least and the most.\n\n"
    )
}

fn table(figures: &Figures, workload: &str, what: &str, title: &str) -> String {
    let sizes = figures.sizes(workload, what);
    let mut text = head(title, &columns(&sizes));
    for peer in figures.peers(workload, what) {
        let spreads = sizes
            .iter()
            .map(|size| figures.spread(workload, *size, peer, what));
        text.push_str(&row(peer, spreads.map(cell)));
    }
    text + "\n"
}

/// From the connect to the first byte: what half of the clients and 99 of 100 waited at most, as
/// the medians of the rounds, and the longest wait of all rounds, as a target judges it.
fn waits(figures: &Figures, workload: &str) -> String {
    let sizes = figures.sizes(workload, "median_us");
    let mut text = head(
        "connect to first byte, µs: median / 99 % / longest of all rounds",
        &columns(&sizes),
    );
    for peer in figures.peers(workload, "median_us") {
        let cells = sizes.iter().map(|size| {
            let of = |what| figures.spread(workload, *size, peer, what);
            let [half, nearly_all] =
                ["median_us", "p99_us"].map(|what| of(what).map(|us| us.median));
            let longest = of("max_us").map(|us| us.most);
            let us = [half, nearly_all, longest].map(|us| us.map_or_else(nothing, whole));
            us.join(" / ")
        });
        text.push_str(&row(peer, cells));
    }
    text + "\n"
}

fn columns(sizes: &[u64]) -> Vec<String> {
    sizes
        .iter()
        .map(|workers| format!("{workers} workers"))
        .collect()
}

/// Three digits after the point: of a Jain index these are what matters.
fn cell(spread: Option<Spread>) -> String {
    let Some(Spread {
        median,
        least,
        most,
    }) = spread
    else {
        return nothing();
    };
    format!("**{median:.3}** ({least:.3} to {most:.3})")
}

/// Without what is after the point, and with commas between thousands.
fn whole(value: f64) -> String {
    let digits = format!("{value:.0}");
    let mut text = String::new();
    for (place, digit) in digits.chars().enumerate() {
        if place > 0 && (digits.len() - place) % 3 == 0 {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn thousands_and_millions_are_set_apart() {
        let texts = [0.4, 999.0, 1_234.5, 123_456.0, 1_956_717.0].map(whole);
        assert_eq!(texts, ["0", "999", "1,234", "123,456", "1,956,717"]);
    }

    #[test]
    fn a_cell_has_its_rounds_and_who_did_not_take_part_a_dash() {
        let mut results = Results::default();
        let text = "figure\taccept/single\t2\thttpd off\tjain\t0.5 1 0.75\n\
                    figure\taccept/single\t4\tbare shared\tjain\t1\n\
                    figure\taccept/single\t2\thttpd off\tmedian_us\t100\n\
                    figure\taccept/single\t2\thttpd off\tp99_us\t1234.5\n\
                    figure\taccept/single\t2\thttpd off\tmax_us\t201000 9000 8000\n";
        results.read(text).unwrap();
        let text = tables(&results);
        assert!(
            text.contains("| Jain index | 2 workers | 4 workers |"),
            "{text}"
        );
        assert!(text.contains("| `httpd off` | **0.750** (0.500 to 1.000) | – |"));
        assert!(text.contains("| `httpd off` | 100 / 1,234 / 201,000 |"));
    }
}
