//! Rules about documents: they agree with manifests, programs and CI, and their links lead to
//! files.

use std::fs;
use std::path::Path;

use cargo_metadata::semver::Version;

use crate::pictures;
use crate::tidy::{Tree, UNSAFE_PLACES, pattern};
use crate::workspace::{Workspace, dir, is_published, published};

const README: &str = "README.md";
const ARCHITECTURE: &str = "ARCHITECTURE.md";
const CHOOSING: &str = "docs/choosing.md";
const GLOSSARY: &str = "docs/glossary.md";
pub(crate) const PROGRAM: &str = "crates/evcore/examples/echo.rs";

/// The headings of a crate's README, after its example.
const HEADINGS: [&str; 4] = [
    "## Guarantees",
    "## Costs",
    "## Not here",
    "## Where it sits",
];

/// Public names that the glossary need not explain, because the standard library or the field gives
/// them their meaning.
const PLAIN: &str = "
    Accepted Address Affinity Builder Client ClientCx ClientEvent ClientOutcome Clock
    ConnectOptions Connections Cpus Drain Event EventLoop Events Executor ExitCause Fault
    Faults Full Handle Histogram Histograms Interest Interval Iter Job JoinHandle Listener
    ListenerOptions Load ManualTimeSource Mode MutexHandle Outcome PeerCredentials Poller
    Probability Process Reading Ready Receiver Registration Reload Resource Result Rng Runtime
    Scheduler Script ScriptHandle Sender Server SharedClock Sim SimConfig SimListener SimStream Snapshot
    SocketFile SocketOptions Stats Stop Stream Supervisor SystemTimeSource Table Ticker TimeSource
    TimedOut Timeout Timer TimerHeap TimerQueue TimerTree TimerWheel Upgrade VacantEntry Waker
    WallTime WorkerExit WorkerInfo Workers YieldNow";

/// The target of a link in a document: `[text](path)` or `[name]: path`.
const LINK: &str = r"(?m)(?:\]\(|^ *\[[^\]]+\]: )<?([^)\s>]+)";

/// A program or a test in a command line of a document.
const TARGET: &str = r"(--(?:bin|example|test) [a-z]\w+)";

pub(crate) fn faults(tree: &Tree, workspace: &Workspace) -> Vec<String> {
    let mut faults = [missing(tree, workspace), unexplained(tree, workspace)].concat();
    let drawn = pictures::all();
    let drawn = drawn
        .iter()
        .filter(|(path, picture)| text(tree, path) != picture);
    faults
        .extend(drawn.map(|(path, _)| format!("{path}: draw it again by `cargo xtask pictures`")));
    let code = pattern(r"(?s)```.*?```|`[^`\n]*`");
    for (path, text) in tree.iter().filter(|(path, _)| path.ends_with(".md")) {
        let links = captured(&code.replace_all(text, ""), LINK).into_iter();
        let targets = captured(text, TARGET).into_iter();
        let absent = links.filter(|link| !resolves(path, link));
        let absent = absent.chain(targets.filter(|target| !is_target(target, workspace)));
        faults.extend(absent.map(|name| format!("{path}: there is no `{name}`")));
    }
    faults
}

fn text<'a>(tree: &'a Tree, path: &str) -> &'a str {
    tree.get(path).map_or("", String::as_str)
}

/// Lists the lines that files lack: quotes in a document, lines that all manifests must have, and
/// the ban on `unsafe` in each crate that needs no `unsafe`. A file cannot allow what its crate
/// forbids.
fn missing(tree: &Tree, workspace: &Workspace) -> Vec<String> {
    let (mut faults, mut absent) = (Vec::new(), Vec::new());
    let mut need = |path: &str, needed: &str| {
        if !format!("\n{}", text(tree, path)).contains(needed) {
            faults.push(format!("{path}: it needs {needed:?}"));
        }
    };
    need(".ci/run", "\ncargo xtask test --ci\n");
    need(README, "\ncargo xtask test\n");
    need(README, "\ncargo run --release --bin httpd\n");
    // The README must quote this program to the letter, because the tests run the program.
    let program = text(tree, PROGRAM);
    need(README, &format!("\n```rust,no_run\n{program}```\n"));
    for manifest in ["Cargo.toml", "tests/compat/Cargo.toml"] {
        need(manifest, "\nunsafe_code = \"deny\"\n");
    }
    for package in &workspace.packages {
        let dir = dir(package, workspace);
        let manifest = format!("{dir}/Cargo.toml");
        need(&manifest, "\nlicense.workspace = true\n");
        need(&manifest, "\n[lints]\nworkspace = true\n");
        let mut places = UNSAFE_PLACES.iter().map(|place| place.split('/').nth(1));
        if !is_published(package) && package.targets.iter().any(|target| target.doc) {
            need(&manifest, "\ndoc = false\n");
        }
        if dir.starts_with("crates/") && !places.any(|place| place == dir.split('/').nth(1)) {
            need(&format!("{dir}/src/lib.rs"), "\n#![forbid(unsafe_code)]\n");
        }
    }
    for package in published(workspace) {
        let (name, dir) = (&package.name, dir(package, workspace));
        let sentence = package.description.as_deref().unwrap_or_default();
        need(
            CHOOSING,
            &format!("\n| [`{name}`](../{dir}) | {sentence} |\n"),
        );
        need(ARCHITECTURE, &format!("\n### `{name}`\n"));
        // A registry shows these fields, and people search by them.
        for key in ["keywords", "categories", "readme", "documentation"] {
            need(&format!("{dir}/Cargo.toml"), &format!("\n{key} = "));
        }
        for licence in ["LICENSE-MIT", "LICENSE-APACHE"] {
            if !Path::new(dir).join(licence).exists() {
                absent.push(format!("{dir}: it needs {licence}, as the root has it"));
            }
        }
        // docs.rs should build a crate's documentation with all features.
        if !package.features.is_empty() {
            need(
                &format!("{dir}/Cargo.toml"),
                "\n[package.metadata.docs.rs]\nall-features = true\n",
            );
            need(
                &format!("{dir}/src/lib.rs"),
                "\n#![cfg_attr(docsrs, feature(doc_cfg))]\n",
            );
        }
        let page = text(tree, &format!("{dir}/README.md"));
        let headings: Vec<_> = page
            .lines()
            .filter(|line| line.starts_with("## "))
            .collect();
        if headings != HEADINGS {
            absent.push(format!(
                "{dir}/README.md: its headings are not {HEADINGS:?}"
            ));
        }
        // This line makes the README the crate's page, and its example a test.
        let page = "\n#![doc = include_str!(\"../README.md\")]\n";
        need(&format!("{dir}/src/lib.rs"), page);
        if let Some(Version { major, minor, .. }) = package.rust_version {
            need(README, &format!(" Rust {major}.{minor}."));
        }
    }
    faults.extend(absent);
    faults
}

fn captured(text: &str, of: &str) -> Vec<String> {
    let found = pattern(of);
    let found = found.captures_iter(text);
    found.map(|found| found[1].to_owned()).collect()
}

/// Returns whether a link leads to a file. Headings and web addresses are not looked up.
fn resolves(document: &str, link: &str) -> bool {
    let path = link.split('#').next().unwrap_or_default();
    let file = fs::canonicalize(Path::new(document).with_file_name(path));
    let root = fs::canonicalize(".").expect("the root");
    let is_file = file.is_ok_and(|file| file.starts_with(root));
    is_file || path.is_empty() || link.contains("://") || link.starts_with("mailto:")
}

/// Returns whether a member has this target: `--bin httpd`.
fn is_target(option: &str, workspace: &Workspace) -> bool {
    let mut targets = workspace
        .packages
        .iter()
        .flat_map(|package| &package.targets);
    targets.any(|target| option == format!("--{} {}", target.kind[0], target.name))
}

/// Public names that the project has coined and that the glossary lacks. The glossary may have a
/// name as it is, or as words (`WorkerGroup` as "worker group").
fn unexplained(tree: &Tree, workspace: &Workspace) -> Vec<String> {
    let glossary = text(tree, GLOSSARY);
    let rows = glossary.lines().filter(|line| line.starts_with("| "));
    let terms = rows.filter_map(|row| row.split('|').nth(1));
    // A blank on each side, so that a name matches only a whole term.
    let terms = terms.map(|term| format!(" {} ", term.replace(['*', '`', ',', '(', ')'], " ")));
    let terms = terms.collect::<String>().to_lowercase();
    let hump = pattern("([a-z])([A-Z])");
    let is_known = |name: &str| {
        let words = hump.replace_all(name, "$1 $2").to_lowercase();
        let is_plain =
            name.ends_with("Error") || PLAIN.split_whitespace().any(|plain| plain == name);
        let is_term = |name: &str| terms.contains(&format!(" {} ", name.to_lowercase()));
        is_plain || is_term(&words) || glossary.contains(&format!("`{name}`"))
    };
    let name = pattern(r"\b[A-Z]\w*[a-z]\w*");
    let mut faults = Vec::new();
    for package in published(workspace) {
        let lib = format!("{}/src/lib.rs", dir(package, workspace));
        let exports = captured(text(tree, &lib), r"(?m)^pub use ([^;]+);");
        // Names that a crate exports from another crate are checked in that other crate's `lib.rs`.
        for export in exports
            .iter()
            .filter(|export| !export.starts_with("evcore_"))
        {
            let names = name.find_iter(export).map(|found| found.as_str());
            let unknown = names.filter(|name| !is_known(name));
            faults.extend(unknown.map(|name| format!("{GLOSSARY}: explain `{name}`")));
        }
    }
    faults
}
