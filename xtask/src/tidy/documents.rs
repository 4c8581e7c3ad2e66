//! Rules about documents: links, READMEs, the changelog, ARCHITECTURE.md.

use regex_lite::Regex;

use super::lines::code;
use crate::source_tree::Tree;
use crate::workspace::{Workspace, dir, published, rust_minor};

pub(super) const README: &str = "README.md";
pub(super) const ARCHITECTURE: &str = "ARCHITECTURE.md";
pub(super) const CHANGELOG: &str = "CHANGELOG.md";
pub(super) const CI: &str = ".ci/run";
pub(super) const PROGRAM: &str = "crates/evcore/examples/echo.rs";
const README_LINES_MAX: usize = 60;
/// Makes the README's example a test, and the README the crate's page.
const INCLUDED: &str = "#![doc = include_str!(\"../README.md\")]";

/// Public names that the standard library or the field has given their meaning. Names that end in
/// `Error` are among them.
const PLAIN: &str = "
    Address Builder Client ClientCx ClientEvent ClientOutcome Clock Connections Cpus Drain Event
    EventLoop Events ExitCause Fault Faults Full Handle Histogram Histograms Iter Job Listener
    ListenerOptions Load ManualTimeSource Mode MutexHandle Outcome Poller Probability Process
    Reading Registration Resource Result Rng Scheduler Script ScriptHandle Sender SharedClock Sim
    SimConfig SimListener SimStream Snapshot SocketFile Stats Status StepKind Stop Stream
    SystemTimeSource Table Ticker TimeSource Timer TimerHeap TimerQueue TimerTree TimerWheel
    VacantEntry WorkerExit WorkerInfo Workers";

fn pattern(text: &str) -> Regex {
    Regex::new(text).expect("a pattern")
}

fn has_line(text: &str, line: &str) -> bool {
    text.lines().any(|it| it.trim() == line)
}

/// Each relative link names a file or directory of the tree: `[text](path)` and `[name]: path`.
pub(super) fn relative_links_resolve(tree: &Tree, _: &Workspace) -> Vec<String> {
    let link = pattern(r"\]\(<?([^)\s>]+)|^\s*\[[^\]]+\]: <?([^\s>]+)");
    let quoted = pattern(r"`[^`]*`");
    let mut faults = Vec::new();
    for file in tree.files.iter().filter(|file| file.is_markdown()) {
        let mut in_fence = false;
        for (number, line) in file.lines() {
            in_fence ^= line.trim_start().starts_with("```");
            let line = quoted.replace_all(if in_fence { "" } else { line }, "");
            for found in link.captures_iter(&line) {
                let target = found.get(1).or(found.get(2)).expect("one of both").as_str();
                if !resolves(tree, &file.path, target) {
                    faults.push(format!("{}:{number}: no file `{target}`", file.path));
                }
            }
        }
    }
    faults
}

fn resolves(tree: &Tree, from: &str, target: &str) -> bool {
    let path = target.split('#').next().unwrap_or_default();
    if target.contains("://") || target.starts_with("mailto:") || path.is_empty() {
        return true;
    }
    let mut names: Vec<&str> = from.split('/').collect();
    names.pop();
    for name in path.trim_end_matches('/').split('/') {
        match name {
            "." => {}
            // A link that leaves the tree, or begins at the root of a machine.
            ".." if names.pop().is_none() => return false,
            "" => return false,
            ".." => {}
            name => names.push(name),
        }
    }
    tree.contains(&names.join("/"))
}

/// The README of a published crate can be read in two minutes, and its example runs.
pub(super) fn a_readme_is_short_named_and_tested(tree: &Tree, ws: &Workspace) -> Vec<String> {
    let mut faults = Vec::new();
    for package in published(ws) {
        let [readme, lib] =
            ["README.md", "src/lib.rs"].map(|it| format!("{}/{it}", dir(package, ws)));
        let (text, title) = (tree.text(&readme), format!("# {}\n", package.name));
        if text.lines().count() > README_LINES_MAX {
            faults.push(format!("{readme}: more than {README_LINES_MAX} lines"));
        }
        if !text.starts_with(&title) {
            faults.push(format!("{readme}: begin with `{title}`"));
        }
        if !has_line(tree.text(&lib), INCLUDED) {
            faults.push(format!("{lib}: include it: `{INCLUDED}`"));
        }
    }
    faults
}

/// The map has one row for each published crate, with its manifest's sentence, and no other.
pub(super) fn the_map_is_what_the_manifests_say(tree: &Tree, ws: &Workspace) -> Vec<String> {
    let rows = published(ws).map(|package| {
        let description = package.description.as_deref().unwrap_or_default();
        format!(
            "| [`{}`]({}) | {description} |",
            package.name,
            dir(package, ws)
        )
    });
    let rows: Vec<String> = rows.collect();
    let readme = tree.text(README);
    let missing = rows.iter().filter(|row| !has_line(readme, row));
    let missing = missing.map(|row| format!("{README}: the map needs the row `{row}`"));
    let is_row = |line: &&str| line.starts_with("| [`") && line.contains("](crates/");
    let others = readme.lines().filter(is_row);
    let others = others.filter(|line| !rows.iter().any(|row| row == line));
    let others = others.map(|line| format!("{README}: no published crate has this: `{line}`"));
    missing.chain(others).collect()
}

/// The README has the commands that run the tests and the server, CI runs the same tests, and the
/// programs that the README names exist.
pub(super) fn the_readme_has_the_commands_and_programs(tree: &Tree, ws: &Workspace) -> Vec<String> {
    let readme = tree.text(README);
    let lines = [
        (CI, "cargo xtask test --ci"),
        (README, "cargo xtask test"),
        (README, "cargo run --release --bin httpd"),
    ];
    let missing = lines
        .iter()
        .filter(|(path, line)| !has_line(tree.text(path), line));
    let mut faults: Vec<String> = missing
        .map(|(path, line)| format!("{path}: put `{line}` in a line of its own"))
        .collect();
    for found in pattern(r"--(bin|example) ([\w-]+)").captures_iter(readme) {
        let mut targets = ws.packages.iter().flat_map(|package| &package.targets);
        let is_it = |target: &cargo_metadata::Target| match &found[1] {
            "bin" => target.is_bin() && target.name == found[2],
            _ => target.is_example() && target.name == found[2],
        };
        if !targets.any(is_it) {
            faults.push(format!(
                "{README}: no crate has {} `{}`",
                &found[1], &found[2]
            ));
        }
    }
    faults
}

/// The README's program is the example, to the letter: so it is the one that the tests run.
pub(super) fn the_program_is_the_example(tree: &Tree, _: &Workspace) -> Vec<String> {
    let program = tree.text(PROGRAM);
    let shown = format!("```rust,no_run\n{program}```\n");
    let is_shown = tree.text(README).contains(&shown) && program.lines().count() <= 60;
    match is_shown && !program.is_empty() {
        true => Vec::new(),
        false => vec![format!(
            "{README}: show {PROGRAM} as it is, 60 lines at most, in ```rust,no_run"
        )],
    }
}

/// Each `Rust 1.x` of a document is the `rust-version` of the manifests. In the changelog only the
/// first section counts.
pub(super) fn rust_is_the_manifests_version(tree: &Tree, ws: &Workspace) -> Vec<String> {
    let version = format!("1.{}", rust_minor(ws));
    let named = pattern(r#"(?i)\b(?:rustc? |msrv:? |rust-version = ")(1\.\d+)"#);
    let readmes = published(ws).map(|it| format!("{}/{README}", dir(it, ws)));
    let documents = [README, ARCHITECTURE, CHANGELOG].map(str::to_owned);
    let mut faults = Vec::new();
    for path in documents.into_iter().chain(readmes) {
        let sections = tree.text(&path).split("\n## ");
        let current = if path == CHANGELOG { 2 } else { usize::MAX };
        let current: Vec<&str> = sections.take(current).collect();
        for found in named
            .captures_iter(&current.join("\n"))
            .filter(|it| it[1] != version)
        {
            faults.push(format!(
                "{path}: Rust {}, but {version} in the manifest",
                &found[1]
            ));
        }
    }
    faults
}

/// There is a section for the version of the manifests, or one for what is not yet released.
pub(super) fn the_changelog_has_a_section_for_what_comes_next(
    tree: &Tree,
    ws: &Workspace,
) -> Vec<String> {
    let version = ws.packages.first().map(|it| it.version.to_string());
    let next = [version.unwrap_or_default(), "Unreleased".to_owned()];
    let mut headings = tree
        .text(CHANGELOG)
        .lines()
        .filter_map(|it| it.strip_prefix("## "));
    match headings.any(|heading| next.iter().any(|it| heading.starts_with(it))) {
        true => Vec::new(),
        false => vec![format!(
            "{CHANGELOG}: add a section `## {}`",
            next.join("` or `## ")
        )],
    }
}

/// Each published crate has a section in ARCHITECTURE.md, with its invariant and what it leaves out.
pub(super) fn each_crate_has_its_invariant_and_absence(tree: &Tree, ws: &Workspace) -> Vec<String> {
    let sections: Vec<&str> = tree.text(ARCHITECTURE).split("\n##").collect();
    let is_described = |name: &str| {
        let mut sections = sections.iter();
        let section = sections.find(|it| it.starts_with(&format!("# `{name}`\n")));
        section.is_some_and(|it| it.contains("\nInvariant: ") && it.contains("\nAbsent: "))
    };
    let missing = published(ws).filter(|package| !is_described(&package.name));
    let what = "with a line `Invariant: ...` and a line `Absent: ...`";
    missing
        .map(|it| format!("{ARCHITECTURE}: a section `{}`, {what}", it.name))
        .collect()
}

/// Each public name that the project has coined stands in the glossary: by itself, or as words
/// (`WorkerGroup` as "worker group").
pub(super) fn each_coined_name_is_in_the_glossary(tree: &Tree, ws: &Workspace) -> Vec<String> {
    let mut sections = tree.text(ARCHITECTURE).split("\n## ");
    let glossary = sections.find(|it| it.starts_with("Glossary"));
    let glossary = glossary.unwrap_or_default().to_lowercase();
    let hump = pattern("([a-z])([A-Z])");
    let is_known = |name: &str| {
        let words = hump.replace_all(name, "$1 $2").to_lowercase();
        let is_plain = name.ends_with("Error") || PLAIN.split_whitespace().any(|it| it == name);
        is_plain || glossary.contains(&name.to_lowercase()) || glossary.contains(&words)
    };
    let mut faults = Vec::new();
    for package in published(ws) {
        let names = exports(tree, &format!("{}/src/lib.rs", dir(package, ws)));
        let unknown = names.into_iter().filter(|name| !is_known(name));
        let what = |name| {
            format!(
                "{ARCHITECTURE}: explain `{name}` of {} in the glossary",
                package.name
            )
        };
        faults.extend(unknown.map(what));
    }
    faults
}

/// The types and traits that a `lib.rs` exports; not what it passes on from other crates.
fn exports(tree: &Tree, lib: &str) -> Vec<String> {
    let files = tree.files.iter().filter(|file| file.path == lib);
    let lines = files.flat_map(|file| file.lines().map(move |(_, line)| code(file, line)));
    let lines: Vec<&str> = lines.collect();
    let (own, name) = (pattern(r"pub use ([^;]+);"), pattern(r"\b[A-Z]\w*[a-z]\w*"));
    let mut names = Vec::new();
    for found in own.captures_iter(&lines.join("\n")) {
        if !found[1].starts_with("evcore_") {
            names.extend(name.find_iter(&found[1]).map(|it| it.as_str().to_owned()));
        }
    }
    names
}
