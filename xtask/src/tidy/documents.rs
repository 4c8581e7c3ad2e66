//! Rules about documents: links, READMEs, the changelog, ARCHITECTURE.md.

use regex_lite::Regex;

use super::lines::code;
use crate::source_tree::Tree;
use crate::workspace::{Workspace, dir, published, rust_minor};

pub(super) const README: &str = "README.md";
const ARCHITECTURE: &str = "ARCHITECTURE.md";
const CHANGELOG: &str = "CHANGELOG.md";
const CI: &str = ".ci/run";
pub(super) const PROGRAM: &str = "crates/evcore/examples/echo.rs";
/// Makes the README's example a test, and the README the crate's page.
const INCLUDED: &str = "\n#![doc = include_str!(\"../README.md\")]\n";

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

/// What documents must have, so that they agree with manifests, programs and CI.
pub(super) fn documents_have_what_they_need(tree: &Tree, ws: &Workspace) -> Vec<String> {
    let mut faults = Vec::new();
    let mut need = |path: &str, text: &str, needed: &str| {
        if !format!("\n{text}").contains(needed) {
            faults.push(format!("{path}: it needs {needed:?}"));
        }
    };
    let [readme, page, changes] = [README, ARCHITECTURE, CHANGELOG].map(|path| tree.text(path));
    need(CI, tree.text(CI), "\ncargo xtask test --ci\n");
    need(README, readme, "\ncargo xtask test\n");
    need(README, readme, "\ncargo run --release --bin httpd\n");
    // To the letter: so it is the one that the tests run.
    let program = format!("\n```rust,no_run\n{}```\n", tree.text(PROGRAM));
    need(README, readme, &program);
    for package in published(ws) {
        let (name, dir) = (&package.name, dir(package, ws));
        let sentence = package.description.as_deref().unwrap_or_default();
        let row = format!("\n| [`{name}`]({dir}) | {sentence} |\n");
        need(README, readme, &row);
        let [own, lib] = [README, "src/lib.rs"].map(|it| format!("{dir}/{it}"));
        need(&own, tree.text(&own), &format!("\n# {name}\n"));
        need(&lib, tree.text(&lib), INCLUDED);
        let title = format!("# `{name}`\n");
        let mut sections = page.split("\n##");
        let section = sections.find(|section| section.starts_with(&title));
        let (place, section) = (
            format!("{ARCHITECTURE}, {name}"),
            section.unwrap_or_default(),
        );
        need(&place, section, "\nInvariant: ");
        need(&place, section, "\nAbsent: ");
        if !changes.contains(&format!("\n## {}", package.version)) {
            need(CHANGELOG, changes, "\n## Unreleased\n");
        }
    }
    faults
}

/// The README's map has no other rows than those of published crates, and its programs exist.
pub(super) fn what_the_readme_names_exists(tree: &Tree, ws: &Workspace) -> Vec<String> {
    let mut exists: Vec<String> = published(ws).map(|it| it.name.clone()).collect();
    for target in ws.packages.iter().flat_map(|package| &package.targets) {
        // `bin httpd`, `example echo`.
        exists.extend(
            target
                .kind
                .iter()
                .map(|kind| format!("{kind} {}", target.name)),
        );
    }
    let named = pattern(r"--((?:bin|example) [\w-]+)|\| \[`([\w-]+)`\]\(crates/");
    let named = named.captures_iter(tree.text(README));
    let named = named.filter_map(|found| found.get(1).or(found.get(2)));
    let unknown = named.filter(|it| exists.iter().all(|other| other != it.as_str()));
    let what = |it: regex_lite::Match<'_>| format!("{README}: there is no `{}`", it.as_str());
    unknown.map(what).collect()
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
        let current = current.join("\n");
        let other = named.captures_iter(&current).filter(|it| it[1] != version);
        faults.extend(other.map(|it| format!("{path}: Rust {}, not {version}", &it[1])));
    }
    faults
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
        faults.extend(unknown.map(|name| format!("{ARCHITECTURE}: explain `{name}`")));
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
