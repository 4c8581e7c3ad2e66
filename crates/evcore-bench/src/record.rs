//! What was measured, a record a line, its fields between tabs.
//!
//! Raw figures, one value for each round. The reader interprets them.

use std::time::SystemTime;

use evcore_clock::stamp;

/// When the run began, in UTC.
pub(crate) fn date() {
    let since = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH);
    let seconds = since.map_or(0, |since| since.as_secs());
    let seconds = i64::try_from(seconds).unwrap_or(i64::MAX);
    println!("date\t{}", stamp::iso8601(seconds, 0).as_str());
}

/// A peer whose version only itself knows.
pub(crate) fn version(peer: &str, version: &str) {
    println!("version\t{peer}\t{version}");
}

/// A peer that this was built without.
pub(crate) fn absent(peer: &str) {
    println!("absent\t{peer}");
}

/// Nanoseconds an operation, a value a round.
pub(crate) fn times(workload: &str, size: usize, peer: &str, rounds: &[f64]) {
    let values: Vec<String> = rounds.iter().map(|ns| format!("{ns:.3}")).collect();
    println!("time\t{workload}\t{size}\t{peer}\t{}", values.join(" "));
}

/// The longest call, in nanoseconds.
pub(crate) fn longest(workload: &str, size: usize, peer: &str, ns: u32) {
    println!("longest\t{workload}\t{size}\t{peer}\t{ns}");
}

/// Any other figure of a workload, by its name: a value a round.
#[cfg(target_os = "linux")]
pub(crate) fn figures(workload: &str, size: usize, peer: &str, what: &str, values: &[f64]) {
    let values: Vec<String> = values.iter().map(|value| format!("{value:.4}")).collect();
    let values = values.join(" ");
    println!("figure\t{workload}\t{size}\t{peer}\t{what}\t{values}");
}
