//! `docs/httpd.md` has every option, path, signal, field and metric, and no other.

use std::{collections::BTreeSet, ffi::OsString, path::Path};

use evcore_httpd::options;
use evcore_tests::Server;

use crate::files::{Site, ask};

const DOCUMENT: &str = include_str!("../../docs/httpd.md");

fn section(heading: &str) -> &'static str {
    let heading = format!("\n## {heading}\n");
    let (_, section) = DOCUMENT.split_once(&heading).expect("the section");
    section.split("\n## ").next().expect("its text")
}

/// The text in backquotes in the first cell of each row of a section's tables.
fn rows(heading: &str) -> Vec<&'static str> {
    let rows = section(heading)
        .lines()
        .filter_map(|line| line.strip_prefix("| `"));
    rows.map(|row| row.split('`').next().expect("a cell"))
        .collect()
}

/// The rows with this many cells under `Numbers`: two in the table of fields, five in the table of
/// metrics.
fn numbers(cells: usize) -> Vec<Vec<&'static str>> {
    let rows = section("Numbers")
        .lines()
        .filter(|line| line.starts_with("| `"));
    let rows = rows.map(|row| row.trim_matches('|').split('|').map(str::trim).collect());
    rows.filter(|row: &Vec<_>| row.len() == cells).collect()
}

fn help() -> String {
    options::table().render_help().to_string()
}

fn set<'a>(all: impl IntoIterator<Item = &'a str>) -> BTreeSet<&'a str> {
    all.into_iter().collect()
}

/// Linux only, where the default of `--handover` is `on`.
#[cfg(target_os = "linux")]
#[test]
fn the_documented_options_are_those_of_the_program() {
    let mut table = "| option | default | meaning |\n|---|---|---|\n".to_owned();
    for option in options::table().get_arguments() {
        let name = option.get_long().expect("a name");
        let value = option
            .get_value_names()
            .map(|names| format!(" {}", names[0]));
        let value = value.filter(|_| option.get_action().takes_values());
        let defaults = option.get_default_values().iter();
        let default = defaults.map(|default| format!("`{}` ", Path::new(default).display()));
        let choices = option.get_possible_values().into_iter();
        let choices = choices.map(|choice| format!("`{}`", choice.get_name()));
        let choices = Some(choices.collect::<Vec<_>>().join(", "));
        let are_shown = value.is_some() && !option.is_hide_possible_values_set();
        let choices = choices.filter(|choices| are_shown && !choices.is_empty());
        let row = format!(
            "| `--{name}{}` | {}| {}{} |\n",
            value.unwrap_or_default().replace('|', "\\|"),
            default.collect::<String>(),
            option.get_help().expect("a text"),
            choices.map_or(String::new(), |choices| format!(". One of {choices}")),
        );
        table.push_str(&row);
    }
    assert!(table.lines().count() > 20, "{table}");
    let is_there = section("Options").contains(&table);
    assert!(
        is_there,
        "the table of options in docs/httpd.md is now:\n\n{table}"
    );
}

#[test]
fn each_path_of_the_help_has_a_row() {
    let help = help();
    let (_, paths) = help.split_once("\nPaths: ").expect("the paths");
    let (paths, _) = paths.split_once("\n\n").expect("their end");
    let offered = paths
        .split_whitespace()
        .filter(|word| word.starts_with('/'));
    let documented = rows("Paths").into_iter();
    let documented = documented.map(|row| row.split(' ').next_back().expect("a word"));
    assert_eq!(set(documented), set(offered));
}

#[test]
fn each_documented_path_is_answered() {
    let site = Site::start(&[]);
    site.write("NAME", "hello");
    let mut client = site.server.connect();
    for row in rows("Paths") {
        let (method, path) = row.split_once(' ').expect("two words");
        let target = match path.rsplit_once('/') {
            Some((name, "N" | "MS")) => format!("{name}/1"),
            _ => path.to_owned(),
        };
        assert_eq!(ask(&mut client, method, &target, "").status, 200, "{row}");
    }
}

#[test]
fn each_signal_of_the_help_has_a_row() {
    let help = help();
    let (_, signals) = help
        .split_once("\nSignals, to the master:\n")
        .expect("the signals");
    let offered = signals.lines().filter_map(|line| {
        let line = line.strip_prefix("  ")?;
        let is_signal = line.starts_with(|c: char| c.is_ascii_uppercase());
        is_signal.then(|| line.split("  ").next().expect("its name"))
    });
    assert_eq!(set(rows("Signals")), set(offered));
}

#[test]
fn each_field_of_the_status_has_a_row() {
    let server = Server::start(&["--workers", "1"]);
    let answer = server.connect().get("/status.json");
    let fields = answer.text().split('"').skip(1).step_by(2);
    let cells = numbers(2).into_iter().map(|row| row[0]);
    let cells = cells.chain(numbers(5).into_iter().map(|row| row[3]));
    let words = cells
        .flat_map(|cell| cell.split(", "))
        .filter(|word| !word.is_empty());
    assert_eq!(set(words.map(|word| word.trim_matches('`'))), set(fields));
}

#[test]
fn each_metric_has_a_row_with_its_type_and_its_help() {
    let server = Server::start(&["--workers", "1"]);
    let answer = server.connect().get("/metrics");
    let lines: Vec<_> = answer.text().lines().collect();
    let mut names = BTreeSet::new();
    for pair in lines.windows(2) {
        let Some(help) = pair[0].strip_prefix("# HELP ") else {
            continue;
        };
        let (name, help) = help.split_once(' ').expect("a text");
        let kind = pair[1].rsplit(' ').next().expect("a type");
        let rows = numbers(5).into_iter();
        let mut rows = rows.filter(|row| row[0].trim_matches('`') == name);
        let row = rows.next().unwrap_or_else(|| panic!("{name} has no row"));
        assert_eq!(row[1], kind, "{name}");
        // Only a row with `worker` as its single label has the help as its meaning. A row with
        // other labels, or without any, has a text of its own.
        if row[2] == "`worker`" {
            let help = help.trim_end_matches('.');
            assert!(row[4].eq_ignore_ascii_case(help), "{name}: {row:?}: {help}");
        }
        names.insert(name);
    }
    let documented = numbers(5).into_iter().map(|row| row[0].trim_matches('`'));
    assert_eq!(set(documented), names);
}

#[test]
fn the_example_of_a_unit_uses_options_that_exist() {
    let unit = include_str!("../../docs/httpd.service");
    let start = unit
        .lines()
        .find_map(|line| line.strip_prefix("ExecStart="))
        .expect("a command");
    let options: Vec<_> = start.split(' ').skip(1).map(OsString::from).collect();
    assert!(options.len() > 1, "{start}");
    options::parse(options.into_iter()).expect("a command line of httpd");
}
