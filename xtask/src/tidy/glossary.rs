//! The glossary of ARCHITECTURE.md, which has each term once.

use super::source;
use crate::diagnostic::Diagnostic;
use crate::tree::{File, Tree};
use crate::workspace::Workspace;

const ARCHITECTURE: &str = "ARCHITECTURE.md";

/// Public names that the standard library or the field has given their meaning. Names that end in
/// `Error` are among them.
const PLAIN: &[&str] = &[
    "Address",
    "Builder",
    "Client",
    "ClientCx",
    "ClientEvent",
    "ClientOutcome",
    "Clock",
    "Connections",
    "Cpus",
    "Drain",
    "Event",
    "EventLoop",
    "Events",
    "ExitCause",
    "Fault",
    "Faults",
    "Full",
    "Handle",
    "Histogram",
    "Histograms",
    "Iter",
    "Job",
    "Listener",
    "ListenerOptions",
    "Load",
    "ManualTimeSource",
    "Mode",
    "MutexHandle",
    "Outcome",
    "Poller",
    "Probability",
    "Process",
    "Reading",
    "Registration",
    "Resource",
    "Result",
    "Rng",
    "Scheduler",
    "Script",
    "ScriptHandle",
    "Sender",
    "SharedClock",
    "Sim",
    "SimConfig",
    "SimListener",
    "SimStream",
    "Snapshot",
    "SocketFile",
    "Stats",
    "Status",
    "StepKind",
    "Stop",
    "Stream",
    "SystemTimeSource",
    "Table",
    "Ticker",
    "TimeSource",
    "Timer",
    "TimerHeap",
    "TimerQueue",
    "TimerTree",
    "TimerWheel",
    "VacantEntry",
    "WorkerExit",
    "WorkerInfo",
    "Workers",
];

/// Each public name that the project has coined stands in the glossary: by itself, or as words
/// (`WorkerGroup` as "worker group").
pub(super) fn has_each_coined_name(tree: &Tree, workspace: &Workspace) -> Vec<Diagnostic> {
    let page = tree.file(ARCHITECTURE).map_or("", |file| &file.text);
    let glossary = page.split("\n## ").find(|it| it.starts_with("Glossary"));
    let glossary = glossary.unwrap_or("").to_lowercase();
    let mut diagnostics = Vec::new();
    for package in workspace.published() {
        let path = format!("{}/src/lib.rs", package.dir);
        for name in tree.file(&path).map(exports).unwrap_or_default() {
            let is_plain = name.ends_with("Error") || PLAIN.contains(&name.as_str());
            let terms = [name.to_lowercase(), words(&name)];
            if !is_plain && !terms.iter().any(|term| glossary.contains(term)) {
                let what = format!("explain `{name}` of {} in the glossary", package.name);
                diagnostics.push(Diagnostic::of(ARCHITECTURE, what));
            }
        }
    }
    diagnostics
}

/// The types and traits that a `lib.rs` exports; not what it passes on from other crates.
fn exports(lib: &File) -> Vec<String> {
    let code = source::code(&lib.text);
    let statements = code.split(';').filter_map(|it| it.split_once("pub use "));
    let own = statements.filter(|(_, path)| !path.starts_with("evcore_"));
    let is_of_name = |c: char| c.is_alphanumeric() || c == '_';
    own.flat_map(|(_, path)| path.split(move |c| !is_of_name(c)))
        .filter(|name| name.starts_with(|c: char| c.is_uppercase()))
        .filter(|name| name.contains(|c: char| c.is_lowercase()))
        .map(str::to_owned)
        .collect()
}

/// `WorkerGroup` as `worker group`.
fn words(name: &str) -> String {
    let mut words = String::new();
    for c in name.chars() {
        if c.is_uppercase() && !words.is_empty() {
            words.push(' ');
        }
        words.extend(c.to_lowercase());
    }
    words
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::workspace::Package;

    fn diagnostics(lib: &str, glossary: &str) -> usize {
        let page = format!("# Page\n\n## Glossary\n\n{glossary}\n\n## Layers\n\nfence, gate\n");
        let tree = Tree::fake(&[
            (ARCHITECTURE, &page),
            ("crates/evcore-token/src/lib.rs", lib),
        ]);
        let workspace = Workspace::fake(vec![Package::fake("evcore-token")]);
        has_each_coined_name(&tree, &workspace).len()
    }

    #[test]
    fn a_coined_name_without_an_entry_is_reported() {
        assert_eq!(diagnostics("pub use a::Fence;", "| **plan** | data |"), 1);
        assert_eq!(diagnostics("pub use a::{Fence, Gate};", ""), 2);
    }

    #[test]
    fn an_entry_is_the_name_or_its_words() {
        let lib = "mod a;\n\npub use a::{\n    GateFence,\n    Gate,\n};";
        assert_eq!(diagnostics(lib, "| **gate fence** | a thing |"), 0);
        assert_eq!(diagnostics(lib, "| `GateFence` | a thing |"), 0);
    }

    #[test]
    fn plain_names_errors_functions_and_other_crates_need_none() {
        let lib = "pub use a::{BindError, Result, MAX_ID, inherited};\n\
                   pub use evcore_token::Fence;\npub use evcore_token as token;";
        assert_eq!(diagnostics(lib, ""), 0);
    }
}
