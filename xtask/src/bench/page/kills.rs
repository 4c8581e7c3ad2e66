//! How soon another worker takes over from one that is killed or stopped.

use super::table::{head, row};
use crate::bench::results::Results;
use crate::bench::statistics::{quantile, shown};

/// `accept_mutex_delay` of all servers. A client that waits for longer has found no worker.
const DELAY_MS: f64 = 500.0;

const ABOUT: &str = "\
Eight workers, which share the first CPU; clients one at a time on the last. Milliseconds.

";

/// What was done, the heading, and the words.
const DONE: [(&str, &str, &str); 2] = [
    (
        "kills/kill",
        "Killed",
        "The one that took the last client, and so listens or holds the lock, gets KILL; from then \
         until the next client has its first byte. Before each kill, all eight workers are there again, \
         and the victim has lived for a second: a master's pause after an early death is not \
         measured. A client whose connection is reset tries again.",
    ),
    (
        "kills/stop",
        "Stopped",
        "The same one gets STOP, and then a client comes, until its first byte. If it has waited for \
         a second, the worker gets CONT.",
    ),
];

/// The tables of the part.
pub(super) fn tables(results: &Results) -> String {
    let columns = ["times", "median", "90 %", "99 %", "longest"];
    let mut columns: Vec<String> = columns.map(str::to_owned).to_vec();
    columns.push(format!("beyond {DELAY_MS} ms"));
    let mut text = ABOUT.to_owned();
    for (workload, heading, what) in DONE {
        text.push_str(&format!("### {heading}\n\n{what}\n\n"));
        text.push_str(&head("", &columns));
        for peer in results.figures.peers(workload, "took_us") {
            text.push_str(&row(peer, cells(&taken(results, workload, peer))));
        }
        text.push('\n');
    }
    text
}

/// How long it took each time, in microseconds.
fn taken(results: &Results, workload: &str, peer: &str) -> Vec<f64> {
    let sizes = results.figures.sizes(workload, "took_us");
    let of_size = |size: u64| results.figures.values(workload, size, peer, "took_us");
    sizes.into_iter().flat_map(of_size).copied().collect()
}

/// How many waited for longer than the delay; `None` where nothing was measured.
pub(in crate::bench) fn beyond(results: &Results, workload: &str, peer: &str) -> Option<f64> {
    let taken = taken(results, workload, peer);
    #[expect(clippy::cast_precision_loss, reason = "at most a thousand")]
    let beyond = too_long(&taken) as f64;
    (!taken.is_empty()).then_some(beyond)
}

/// How many of these times, in microseconds, are longer than the delay.
fn too_long(taken: &[f64]) -> usize {
    let too_long = |us: &&f64| **us > DELAY_MS * 1e3;
    taken.iter().filter(too_long).count()
}

fn cells(taken: &[f64]) -> impl Iterator<Item = String> {
    let ms = [0.5, 0.9, 0.99, 1.0].map(|part| shown(quantile(taken, part) / 1e3));
    std::iter::once(taken.len().to_string())
        .chain(ms)
        .chain(std::iter::once(too_long(taken).to_string()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_row_has_the_distribution_and_who_waited_too_long() {
        let mut results = Results::default();
        let text = "figure\tkills/kill\t8\thttpd off\ttook_us\t1000 2000 600000 3000 509000\n";
        results.read(text).unwrap();
        let text = tables(&results);
        assert!(text.contains("| longest | beyond 500 ms |"), "{text}");
        assert!(
            text.contains("| `httpd off` | 5 | 3.0 | 600 | 600 | 600 | 2 |"),
            "{text}"
        );
        assert_eq!(beyond(&results, "kills/kill", "httpd off"), Some(2.0));
        assert_eq!(beyond(&results, "kills/stop", "httpd off"), None);
    }
}
