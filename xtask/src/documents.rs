//! Rules about documents: they agree with manifests, programs and CI, and their links lead to files.

use std::fs;
use std::path::Path;

use crate::tidy::{Tree, UNSAFE_PLACES, pattern};
use crate::workspace::{Workspace, dir, published};

const README: &str = "README.md";
const ARCHITECTURE: &str = "ARCHITECTURE.md";
/// The program on the front page.
pub(crate) const PROGRAM: &str = "crates/evcore/examples/echo.rs";

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

pub(crate) fn faults(tree: &Tree, workspace: &Workspace) -> Vec<String> {
    [
        missing(tree, workspace),
        broken_links(tree),
        unknown_programs(tree, workspace),
        unexplained_names(tree, workspace),
    ]
    .concat()
}

fn text<'a>(tree: &'a Tree, path: &str) -> &'a str {
    tree.get(path).map_or("", String::as_str)
}

/// What files must have and do not: what a document quotes, and what denies `unsafe` outside of its
/// places. A file cannot allow what its crate forbids.
fn missing(tree: &Tree, workspace: &Workspace) -> Vec<String> {
    // To the letter, so that the program of the README is the one that the tests run.
    let program = format!("\n```rust,no_run\n{}```\n", text(tree, PROGRAM));
    let mut needs: Vec<(String, String)> = Vec::new();
    let mut need = |path: &str, text: &str| needs.push((path.to_owned(), text.to_owned()));
    need(".ci/run", "\ncargo xtask test --ci\n");
    need(README, "\ncargo xtask test\n");
    need(README, "\ncargo run --release --bin httpd\n");
    need(README, &program);
    for manifest in ["Cargo.toml", "tests/compat/Cargo.toml"] {
        need(manifest, "\nunsafe_code = \"deny\"\n");
    }
    for package in &workspace.packages {
        let dir = dir(package, workspace);
        let manifest = format!("{dir}/Cargo.toml");
        need(&manifest, "\nlicense.workspace = true\n");
        need(&manifest, "\n[lints]\nworkspace = true\n");
        let mut places = UNSAFE_PLACES.iter().map(|it| it.split('/').nth(1));
        if dir.starts_with("crates/") && !places.any(|it| it == dir.split('/').nth(1)) {
            need(&format!("{dir}/src/lib.rs"), "\n#![forbid(unsafe_code)]\n");
        }
    }
    for package in published(workspace) {
        let (name, dir) = (&package.name, dir(package, workspace));
        let sentence = package.description.as_deref().unwrap_or_default();
        need(README, &format!("\n| [`{name}`]({dir}) | {sentence} |\n"));
        need(ARCHITECTURE, &format!("\n### `{name}`\n"));
        // What a registry shows, and people search by.
        for key in ["keywords", "categories", "readme", "documentation"] {
            need(&format!("{dir}/Cargo.toml"), &format!("\n{key} = "));
        }
        // Makes the README's example a test, and the README the crate's page.
        let page = "\n#![doc = include_str!(\"../README.md\")]\n";
        need(&format!("{dir}/src/lib.rs"), page);
        let version = package.rust_version.as_ref();
        let version = version.map(|it| format!("Rust {}.{}.", it.major, it.minor));
        need(README, &version.unwrap_or_default());
    }
    let mut faults = Vec::new();
    for (path, needed) in needs {
        if !format!("\n{}", text(tree, &path)).contains(&needed) {
            faults.push(format!("{path}: it needs {needed:?}"));
        }
    }
    faults
}

fn documents(tree: &Tree) -> impl Iterator<Item = (&String, &String)> {
    tree.iter().filter(|(path, _)| path.ends_with(".md"))
}

/// Relative links that lead to no file or directory of the project: `[text](path)`, `[name]: path`.
fn broken_links(tree: &Tree) -> Vec<String> {
    let code = pattern(r"(?s)```.*?```|`[^`\n]*`");
    let link = pattern(r"(?m)\]\(<?([^)\s>]+)|^\s*\[[^\]]+\]: <?([^\s>]+)");
    let mut faults = Vec::new();
    let root = fs::canonicalize(".").expect("the root");
    for (path, text) in documents(tree) {
        for found in link.captures_iter(&code.replace_all(text, "")) {
            let target = found.get(1).or(found.get(2)).expect("one of both").as_str();
            let file = target.split('#').next().unwrap_or_default();
            let is_elsewhere = target.contains("://") || target.starts_with("mailto:");
            let to = Path::new(path).with_file_name(file);
            let to = fs::canonicalize(to);
            if !is_elsewhere && !file.is_empty() && !to.is_ok_and(|it| it.starts_with(&root)) {
                faults.push(format!("{path}: no file `{target}`"));
            }
        }
    }
    faults
}

/// Programs and tests in command lines of documents that no member of the workspace has.
fn unknown_programs(tree: &Tree, workspace: &Workspace) -> Vec<String> {
    let targets = workspace.packages.iter().flat_map(|it| &it.targets);
    let targets: Vec<String> = targets
        .flat_map(|it| it.kind.iter().map(|kind| format!("{kind} {}", it.name)))
        .collect();
    let named = pattern(r"--((?:bin|example|test) [a-z]\w+)");
    let mut faults = Vec::new();
    for (path, text) in documents(tree) {
        let named = named.captures_iter(text).map(|it| it[1].to_owned());
        let unknown = named.filter(|it| !targets.contains(it));
        faults.extend(unknown.map(|it| format!("{path}: there is no `--{it}`")));
    }
    faults
}

/// Public names that the project has coined and the glossary does not have: by themselves, or as
/// words (`WorkerGroup` as "worker group").
fn unexplained_names(tree: &Tree, workspace: &Workspace) -> Vec<String> {
    let mut sections = text(tree, ARCHITECTURE).split("\n## ");
    let glossary = sections.find(|it| it.starts_with("Glossary"));
    let glossary = glossary.unwrap_or_default().to_lowercase();
    let (export, name) = (
        pattern(r"(?m)^pub use ([^;]+);"),
        pattern(r"\b[A-Z]\w*[a-z]\w*"),
    );
    let hump = pattern("([a-z])([A-Z])");
    let is_known = |name: &str| {
        let words = hump.replace_all(name, "$1 $2").to_lowercase();
        let is_plain = name.ends_with("Error") || PLAIN.split_whitespace().any(|it| it == name);
        is_plain || glossary.contains(&name.to_lowercase()) || glossary.contains(&words)
    };
    let mut faults = Vec::new();
    for package in published(workspace) {
        let lib = format!("{}/src/lib.rs", dir(package, workspace));
        for export in export.captures_iter(text(tree, &lib)) {
            // Those of another crate are in its own `lib.rs`.
            let names = name.find_iter(&export[1]).map(|it| it.as_str());
            let own = names.filter(|_| !export[1].starts_with("evcore_"));
            let unknown = own.filter(|name| !is_known(name));
            faults.extend(unknown.map(|it| format!("{ARCHITECTURE}: explain `{it}`")));
        }
    }
    faults
}
