//! `docs/performance.md`.

mod pollers;
mod table;
mod timers;
mod workload;

use super::machine::Machine;
use super::results::Results;
use super::targets;

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
belong to this machine; ratios travel better. Of timers and clocks, the loop of the measurement is \
taken off: what takes less than it is lost in it.

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
        "timers" => timers::BEGINNING,
        "pollers" => pollers::BEGINNING,
        _ => "## Clock\n\n",
    }
    .to_owned();
    for workload in workload::of(part) {
        text.push_str(&format!(
            "### {}\n\n{}\n\n",
            workload.heading, workload.what
        ));
        text.push_str(&table::times(results, workload));
    }
    text.push_str(&match part {
        "timers" => timers::end(results),
        "pollers" => pollers::end(results),
        _ => String::new(),
    });
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    fn page() -> String {
        let mut results = Results::made_up();
        results.counted.no_events = Some("no valgrind".to_owned());
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
