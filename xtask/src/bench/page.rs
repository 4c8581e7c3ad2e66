//! `docs/performance.md`.

use super::count;
use super::machine::Machine;
use super::results::{Count, Figure, Results, baseline};
use super::statistics::{Spread, shown};
use super::targets;

/// A table of times: the workload, its heading, and what a figure is of.
const WORKLOADS: &[(&str, &str, &str)] = &[
    (
        "timers/rearm",
        "Re-arm",
        "A timer at random gets a deadline 60 s from then, 100 to a millisecond. No timer fires.",
    ),
    (
        "timers/replace",
        "Arm and cancel",
        "Beside those that are armed, 64 come and go: the one that was armed longest ago is \
         cancelled, and armed to a random deadline within 60 s. One operation is both.",
    ),
    (
        "timers/expire",
        "Expire all",
        "Deadlines over 60 s, taken in the turns that the queue itself asks for; a timer's share of \
         the whole. `DelayQueue` makes a `Sleep` for each deadline. The C libraries expire all in \
         one turn, and call a function for each.",
    ),
    (
        "timers/serve",
        "A minute of serving",
        "60 s in which 20 timers a millisecond are re-armed at random to 60 s from then; as each \
         millisecond begins, what is due is taken and armed again. A re-arm's share of all this: \
         what a lazy queue puts off is in it. Only for queues that can be told the time.",
    ),
    (
        "clock/read",
        "Read the time",
        "`SharedClock` while another thread updates it every millisecond; its snapshot has all \
         numbers and strings. `quanta recent` and `coarsetime recent` are cached like ours, and \
         updated by nobody here.",
    ),
    (
        "clock/date",
        "Append the HTTP date",
        "29 bytes to a vector that has room. `Clock` and `SharedClock` have it ready; \
         `stamp::http_date` and `httpdate` make it from the seconds. `Instant::now` appends nothing: \
         it is there as the measure.",
    ),
    (
        "clock/update",
        "Update",
        "Once a turn of a loop. Ours reads the monotonic and the wall clock.",
    ),
];

/// The page of a run.
pub(super) fn written(parts: &[&str], results: &Results, machine: &Machine) -> String {
    let mut page = format!(
        "# Performance\n\n\
         Written by `cargo xtask bench {}`: do not edit. How it measures: \
         [bench](../bench/README.md).\n\n",
        parts.join(" ")
    );
    page.push_str(&about(results, machine));
    page.push_str(&targets_reached(results));
    page.push_str(HOW_TO_READ);
    for part in parts {
        page.push_str(&section(part, results));
    }
    page.truncate(page.trim_end().len());
    page.push('\n');
    page
}

const HOW_TO_READ: &str = "\
## How to read the tables

A cell is the ratio to the baseline of its table, then nanoseconds an operation with their spread: \
**0.05** · 8.1 (7.9 to 9.0) is a twentieth of what the baseline took beside it. Both are medians of \
the rounds, in which all take turns; less is better. Nanoseconds are of the thread's CPU time and \
belong to this machine; ratios travel better. The loop of the measurement is taken off: \
what takes less than it is lost in it.

";

fn about(results: &Results, machine: &Machine) -> String {
    let listed = |versions: &[(String, String)]| -> Vec<String> {
        let texts = versions.iter().map(|(name, v)| format!("{name} {v}"));
        texts.collect()
    };
    let mut peers = listed(&machine.crates);
    peers.extend(listed(&results.versions));
    peers.extend(results.absent.iter().map(|name| format!("{name} not here")));
    format!(
        "| | |\n|---|---|\n\
         | date | {} |\n| CPU | {}, {} to be had |\n| kernel | {} |\n\
         | load average | {} before, {} after |\n| compiler | {} |\n| peers | {} |\n\n",
        results.date,
        machine.cpu,
        machine.cpus,
        machine.kernel,
        machine.load_before,
        machine.load_after,
        machine.rustc,
        peers.join(", ")
    )
}

fn targets_reached(results: &Results) -> String {
    let reached = targets::reached(results);
    if reached.is_empty() {
        return String::new();
    }
    let mut text = "## Targets\n\n| what | at most | here | |\n|---|---|---|---|\n".to_owned();
    for (target, value) in reached {
        let cells = target.cells(value).join(" | ");
        text.push_str(&format!("| {} | {cells} |\n", target.what));
    }
    text + "\n"
}

fn section(part: &str, results: &Results) -> String {
    let mut text = match part {
        "timers" => {
            "## Timers\n\n![Nanoseconds a re-arm against the number of timers](timers.svg)\n\n"
                .to_owned()
        }
        _ => "## Clock\n\n".to_owned(),
    };
    for (workload, heading, what) in WORKLOADS {
        if workload.starts_with(part) {
            text.push_str(&format!("### {heading}\n\n{what}\n\n"));
            text.push_str(&times(results, workload));
        }
    }
    if part == "timers" {
        text.push_str(&longest_calls(results));
        text.push_str(&counts(results));
    }
    text
}

/// A row a peer, a column a size, and a line about what was taken off.
fn times(results: &Results, workload: &str) -> String {
    let sizes = results.sizes(workload);
    let mut text = head(baseline(workload), &sizes);
    for peer in results.peers(workload) {
        let cells = sizes
            .iter()
            .map(|size| cell(results.figure(workload, *size, peer)));
        text.push_str(&row(peer, cells));
    }
    let own = sizes.iter().map(|size| results.loop_ns(workload, *size));
    let own = Spread::of(own.chain(sizes.is_empty().then_some(0.0)));
    if own.most > 0.0 {
        let (least, most) = (shown(own.least), shown(own.most));
        text.push_str(&format!(
            "\nTaken off for the loop: {least} to {most} ns.\n"
        ));
    }
    text + "\n"
}

fn head(first: &str, sizes: &[u64]) -> String {
    let names: Vec<String> = sizes.iter().map(|size| armed(*size)).collect();
    format!(
        "| to `{first}` | {} |\n|---|{}\n",
        names.join(" | "),
        "---|".repeat(sizes.len())
    )
}

fn armed(size: u64) -> String {
    match size {
        1 => "ns".to_owned(),
        _ => format!("10^{} armed", size.ilog10()),
    }
}

fn row(peer: &str, cells: impl Iterator<Item = String>) -> String {
    let cells: Vec<String> = cells.collect();
    format!("| `{peer}` | {} |\n", cells.join(" | "))
}

fn cell(figure: Option<Figure>) -> String {
    let Some(Figure { ns, ratio }) = figure else {
        return "–".to_owned();
    };
    format!(
        "**{}** · {} ({} to {})",
        shown(ratio.median),
        shown(ns.median),
        shown(ns.least),
        shown(ns.most)
    )
}

fn longest_calls(results: &Results) -> String {
    let workload = "timers/expire";
    let sizes = results.sizes(workload);
    let mut text = format!(
        "### The longest call\n\n\
         Microseconds, while all expire. The rounds have the same calls, so each counts as the \
         shortest that it ever was, and the longest of these is told: what was long only once was \
         the machine's doing. It is of the wall clock, which is asked about each call.\n\n{}",
        head("none", &sizes).replace("to `none`", "")
    );
    for peer in results.peers(workload) {
        let longest = |size: &u64| results.longest(workload, *size, peer);
        if sizes.iter().any(|size| longest(size).is_some()) {
            let cells = sizes
                .iter()
                .map(|size| longest(size).map_or_else(|| "–".to_owned(), |ns| shown(ns / 1_000.0)));
            text.push_str(&row(peer, cells));
        }
    }
    text + "\n"
}

fn counts(results: &Results) -> String {
    let heading = "### What a re-arm takes of the processor\n\n";
    if let Some(why) = &results.uncounted {
        return format!("{heading}Not counted: {why}.\n\n");
    }
    let mut text = format!(
        "{heading}By callgrind with {} armed, as the difference of two run lengths; misses are of \
         the caches that it simulates, data only.\n\n\
         | | instructions | misses, first level | misses, last level |\n|---|---|---|---|\n",
        armed(count::IDS).trim_end_matches(" armed")
    );
    for Count {
        peer,
        instructions,
        first_level_misses,
        last_level_misses,
    } in &results.counts
    {
        let cells = [*instructions, *first_level_misses, *last_level_misses];
        text.push_str(&row(peer, cells.into_iter().map(|n| format!("{n:.2}"))));
    }
    text + "\n"
}

#[cfg(test)]
mod tests {
    use super::*;

    fn page() -> String {
        let mut results = Results::made_up();
        results.uncounted = Some("no valgrind".to_owned());
        written(&["timers"], &results, &Machine::default())
    }

    #[test]
    fn a_row_has_ratio_median_and_spread() {
        let page = page();
        assert!(page.contains("| `TimerWheel` | **0.10** · 20.0 (10.0 to 30.0) | **0.020** · 8.0"));
        assert!(page.contains("| to `BTreeSet` | 10^3 armed | 10^5 armed |"));
        assert!(page.contains("Taken off for the loop: "));
    }

    #[test]
    fn what_is_missing_is_said() {
        let page = page();
        assert!(page.contains("libev 4.33, libuv not here"));
        assert!(page.contains("Not counted: no valgrind."));
        assert!(!page.contains("## Clock"));
    }

    #[test]
    fn the_page_keeps_the_rules_of_documents() {
        let page = page();
        assert!(page.lines().all(|line| line.trim_end() == line), "{page}");
        assert!(page.ends_with('\n') && !page.ends_with("\n\n"));
    }
}
