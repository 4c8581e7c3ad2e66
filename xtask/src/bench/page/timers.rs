//! The tables of the timers.

use super::table::{head, nothing, row};
use super::workload::armed;
use crate::bench::callgrind::Events;
use crate::bench::count;
use crate::bench::results::Results;
use crate::bench::statistics::shown;

/// Before the tables of times.
pub(super) const BEGINNING: &str =
    "![Nanoseconds a re-arm against the number of timers](timers.svg)\n\n";

/// After them.
pub(super) fn end(results: &Results) -> String {
    longest_calls(results) + &counts(results)
}

fn longest_calls(results: &Results) -> String {
    let workload = "timers/expire";
    let sizes = results.sizes(workload);
    let columns: Vec<String> = sizes.iter().map(|size| armed(*size)).collect();
    let mut text = format!(
        "### The longest call\n\n\
         Microseconds, while all expire. The rounds have the same calls, so each counts as the \
         shortest that it ever was, and the longest of these is told: what was long only once was \
         the machine's doing. It is of the wall clock, which is asked about each call.\n\n{}",
        head("", &columns)
    );
    for peer in results.peers(workload) {
        let longest = |size: &u64| results.longest(workload, *size, peer);
        if sizes.iter().any(|size| longest(size).is_some()) {
            let cells = sizes
                .iter()
                .map(|size| longest(size).map_or_else(nothing, |ns| shown(ns / 1_000.0)));
            text.push_str(&row(peer, cells));
        }
    }
    text + "\n"
}

fn counts(results: &Results) -> String {
    let heading = "### What a re-arm takes of the processor\n\n";
    if let Some(why) = &results.counted.no_events {
        return format!("{heading}Not counted: {why}.\n\n");
    }
    let mut text = format!(
        "{heading}By callgrind with {} armed, as the difference of two run lengths; misses are of \
         the caches that it simulates, data only.\n\n\
         | | instructions | misses, first level | misses, last level |\n|---|---|---|---|\n",
        armed(count::IDS).trim_end_matches(" armed")
    );
    for (peer, events) in results.counted.events_of("timers/rearm") {
        let Events {
            instructions,
            first_level_misses,
            last_level_misses,
        } = events;
        let cells = [instructions, first_level_misses, last_level_misses];
        // A little less than the loop alone is as much.
        let cells = cells.into_iter().map(|n| format!("{:.2}", n.max(0.0)));
        text.push_str(&row(peer, cells));
    }
    text + "\n"
}
