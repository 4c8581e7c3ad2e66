//! `docs/performance.md`: a section a part, each of the part's last run.

mod accept;
mod budgets;
pub(super) mod kills;
mod pollers;
pub(super) mod shortage;
mod table;
mod timers;
mod workload;

use super::PARTS;
use super::machine::Machine;
use super::results::Results;
use super::targets;

/// The sections there are, by their parts.
#[derive(Debug, Default)]
pub(super) struct Page {
    sections: Vec<(&'static str, String)>,
}

impl Page {
    /// Of the text of a page: the sections of parts; what else there is comes anew.
    pub(super) fn read(text: &str) -> Page {
        let mut page = Page::default();
        for section in text.split("\n## ").skip(1) {
            let of = |part: &&&str| section.lines().next() == Some(heading(part).as_str());
            if let Some(part) = PARTS.iter().find(of) {
                page.put(part, format!("## {section}"));
            }
        }
        page
    }

    /// Puts a part's section in the place of an older one.
    pub(super) fn put(&mut self, part: &'static str, section: String) {
        self.sections.retain(|(other, _)| *other != part);
        self.sections.push((part, section));
    }

    /// As it is written, in the order of the parts.
    pub(super) fn text(&self) -> String {
        let of = |part: &&'static str| self.sections.iter().find(|(other, _)| other == part);
        let sections = PARTS.iter().filter_map(of);
        let sections = sections.map(|(_, section)| format!("{}\n", section.trim_end()));
        std::iter::once(BEGINNING.to_owned())
            .chain(sections)
            .collect::<Vec<_>>()
            .join("\n")
    }
}

const BEGINNING: &str = "\
# Performance

Written by `cargo xtask bench`: do not edit. Each section is of its part's last run, whose date and \
machine stand at its head. How it measures: [evcore-bench](../crates/evcore-bench/README.md).
";

/// Of the parts that are compared with a baseline.
const HOW_TO_READ: &str = "\
A cell is the ratio to the baseline of its table, then nanoseconds an operation with their spread: \
**0.05** · 8.1 (7.9 to 9.0) is a twentieth of what the baseline took beside it. Both are medians of \
the rounds, in which all take turns; less is better. Nanoseconds are of the thread's CPU time and \
belong to this machine; ratios travel better. Of timers and clocks, the loop of the measurement is \
taken off: what takes less than it is lost in it.

";

/// A part's section.
pub(super) fn section(part: &str, results: &Results, machine: &Machine) -> String {
    let mut text = format!("## {}\n\n", heading(part));
    text.push_str(&about(results, machine));
    text.push_str(&targets_reached(results));
    text.push_str(&match part {
        "accept" => accept::tables(results),
        "kills" => kills::tables(results),
        "shortage" => shortage::table(results),
        _ => times(part, results),
    });
    text
}

fn heading(part: &str) -> String {
    part[..1].to_uppercase() + &part[1..]
}

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
    let mut text = "### Targets\n\n| what | target | here | |\n|---|---|---|---|\n".to_owned();
    for (target, value) in reached {
        let cells = target.cells(value).join(" | ");
        text.push_str(&format!("| {} | {cells} |\n", target.what));
    }
    text + "\n"
}

fn times(part: &str, results: &Results) -> String {
    let mut text = HOW_TO_READ.to_owned();
    if part == "timers" {
        text.push_str(timers::BEGINNING);
    }
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
        "budgets" => budgets::end(results),
        _ => String::new(),
    });
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    fn timers() -> String {
        let mut results = Results::fake();
        results.counted.no_events = Some("no valgrind".to_owned());
        section("timers", &results, &Machine::default())
    }

    #[test]
    fn a_row_has_ratio_median_and_spread() {
        let section = timers();
        assert!(
            section.contains("| `TimerWheel` | **0.10** · 20.0 (10.0 to 30.0) | **0.020** · 8.0")
        );
        assert!(section.contains("| to `BTreeSet` | 10^3 armed | 10^5 armed |"));
        assert!(section.contains("Taken off for the loop: "));
    }

    #[test]
    fn what_is_missing_is_said() {
        let section = timers();
        assert!(section.contains("libev 4.33, libuv not here"));
        assert!(section.contains("Not counted: no valgrind."));
    }

    #[test]
    fn the_sections_of_other_parts_stay_as_they_were() {
        let mut page = Page::default();
        page.put(
            "pollers",
            "## Pollers\n\nold\n\n### Calls\n\n1\n".to_owned(),
        );
        page.put("timers", "## Timers\n\nold\n".to_owned());
        let mut page = Page::read(&page.text());
        page.put("timers", "## Timers\n\nnew\n\n".to_owned());
        let expected = "## Timers\n\nnew\n\n## Pollers\n\nold\n\n### Calls\n\n1\n";
        assert_eq!(page.text().split_once("\n## ").unwrap().1, &expected[3..]);
        assert_eq!(Page::read(&page.text()).text(), page.text());
    }

    #[test]
    fn what_is_no_part_is_not_kept() {
        let page = Page::read("# Performance\n\n## Targets\n\n1\n\n## Clock\n\n2\n");
        assert!(page.text().ends_with("## Clock\n\n2\n"));
        assert!(!page.text().contains("Targets"));
    }

    #[test]
    fn the_page_keeps_the_rules_of_documents() {
        let mut page = Page::default();
        page.put("timers", timers());
        let text = page.text();
        assert!(text.lines().all(|line| line.trim_end() == line), "{text}");
        assert!(text.ends_with('\n') && !text.ends_with("\n\n"));
        assert!(text.starts_with("# Performance\n\n"));
    }
}
