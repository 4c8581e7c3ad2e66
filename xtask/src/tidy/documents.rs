//! Rules about documents: links, READMEs, the changelog, ARCHITECTURE.md.

use regex_lite::Regex;

use crate::diagnostic::Diagnostic;
use crate::source_tree::{File, Tree};
use crate::workspace::Workspace;

const README: &str = "README.md";
const ARCHITECTURE: &str = "ARCHITECTURE.md";
const CHANGELOG: &str = "CHANGELOG.md";
const CI: &str = ".ci/run";
const PROGRAM: &str = "crates/evcore/examples/echo.rs";
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

/// The text of a file; empty if there is none, so that whatever it must have is missing.
fn text<'a>(tree: &'a Tree, path: &str) -> &'a str {
    tree.file(path).map_or("", |file| &file.text)
}

fn has_line(text: &str, line: &str) -> bool {
    text.lines().any(|it| it.trim() == line)
}

/// Each relative link names a file or directory of the tree: `[text](path)` and `[name]: path`.
pub(super) fn relative_links_resolve(tree: &Tree, _: &Workspace) -> Vec<Diagnostic> {
    let link = pattern(r"\]\(<?([^)\s>]+)|^\s*\[[^\]]+\]: <?([^\s>]+)");
    let code = pattern(r"`[^`]*`");
    let mut diagnostics = Vec::new();
    for file in tree.files.iter().filter(|file| file.is_markdown()) {
        let mut in_fence = false;
        for (number, line) in file.lines() {
            in_fence ^= line.trim_start().starts_with("```");
            let line = code.replace_all(if in_fence { "" } else { line }, "");
            for found in link.captures_iter(&line) {
                let target = found.get(1).or(found.get(2)).expect("one of both").as_str();
                if !resolves(tree, &file.path, target) {
                    let what = format!("the link `{target}` leads nowhere");
                    diagnostics.push(Diagnostic::at(&file.path, number, what));
                }
            }
        }
    }
    diagnostics
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
pub(super) fn a_readme_is_short_named_and_tested(
    tree: &Tree,
    workspace: &Workspace,
) -> Vec<Diagnostic> {
    let mut diagnostics = Vec::new();
    for package in workspace.published() {
        let [readme, lib] = ["README.md", "src/lib.rs"].map(|it| format!("{}/{it}", package.dir));
        let lines = text(tree, &readme).lines().count();
        if lines > README_LINES_MAX {
            let what = format!("{lines} lines, of {README_LINES_MAX} at most");
            diagnostics.push(Diagnostic::of(&readme, what));
        }
        let title = format!("# {}", package.name);
        if text(tree, &readme).lines().next() != Some(title.as_str()) {
            diagnostics.push(Diagnostic::of(&readme, format!("begin with `{title}`")));
        }
        if !text(tree, &lib).lines().any(|line| line == INCLUDED) {
            diagnostics.push(Diagnostic::of(lib, format!("include it: `{INCLUDED}`")));
        }
    }
    diagnostics
}

/// The map has one row for each published crate, with its manifest's sentence, and no other.
pub(super) fn the_map_is_what_the_manifests_say(
    tree: &Tree,
    workspace: &Workspace,
) -> Vec<Diagnostic> {
    let row = |it: &crate::workspace::Package| {
        format!("| [`{}`]({}) | {} |", it.name, it.dir, it.description)
    };
    let rows: Vec<String> = workspace.published().map(row).collect();
    let readme = text(tree, README);
    let missing = rows.iter().filter(|row| !has_line(readme, row));
    let missing = missing.map(|row| format!("the map needs the row `{row}`"));
    let is_row = |line: &&str| line.starts_with("| [`") && line.contains("](crates/");
    let others = readme.lines().filter(is_row);
    let others = others.filter(|line| !rows.iter().any(|row| row == line));
    let others = others.map(|line| format!("no published crate has this description: `{line}`"));
    missing
        .chain(others)
        .map(|what| Diagnostic::of(README, what))
        .collect()
}

/// The README has the commands that run the tests and the server, CI runs the same tests, and the
/// programs that the README names exist.
pub(super) fn the_readme_has_the_commands_and_programs(
    tree: &Tree,
    workspace: &Workspace,
) -> Vec<Diagnostic> {
    let (readme, mut what) = (text(tree, README), Vec::new());
    if !has_line(text(tree, CI), "cargo xtask test --ci") {
        what.push(format!(
            "{CI} must run the README's tests: `cargo xtask test --ci`"
        ));
    }
    for command in ["cargo xtask test", "cargo run --release --bin httpd"] {
        if !has_line(readme, command) {
            what.push(format!("put the command `{command}` in a line of its own"));
        }
    }
    for found in pattern(r"--(bin|example) ([\w-]+)").captures_iter(readme) {
        let exists = workspace.packages.iter().any(|package| match &found[1] {
            "bin" => package.bins.iter().any(|it| *it == found[2]),
            _ => package.examples.iter().any(|it| *it == found[2]),
        });
        if !exists {
            what.push(format!("no crate has {} `{}`", &found[1], &found[2]));
        }
    }
    what.into_iter()
        .map(|what| Diagnostic::of(README, what))
        .collect()
}

/// The README's program is the example, to the letter: so it is the one that the tests run.
pub(super) fn the_program_is_the_example(tree: &Tree, _: &Workspace) -> Vec<Diagnostic> {
    let program = text(tree, PROGRAM);
    let shown = format!("```rust,no_run\n{program}```\n");
    if !program.is_empty() && text(tree, README).contains(&shown) && program.lines().count() <= 60 {
        return Vec::new();
    }
    let what = format!("show {PROGRAM} as it is, 60 lines at most, in ```rust,no_run");
    vec![Diagnostic::of(README, what)]
}

/// Each `Rust 1.x` of a document is the `rust-version` of the manifests. In the changelog only the
/// first section counts.
pub(super) fn rust_is_the_manifests_version(tree: &Tree, workspace: &Workspace) -> Vec<Diagnostic> {
    let version = workspace.packages.first().map_or("", |it| &it.rust_version);
    let named = pattern(r#"(?i)\b(?:rustc? |msrv:? |rust-version = ")(1\.\d+)"#);
    let readmes = workspace
        .published()
        .map(|it| format!("{}/README.md", it.dir));
    let mut diagnostics = Vec::new();
    for path in [README, ARCHITECTURE, CHANGELOG]
        .map(str::to_owned)
        .into_iter()
        .chain(readmes)
    {
        let all = text(tree, &path);
        let current = match path.as_str() {
            CHANGELOG => all
                .match_indices("\n## ")
                .nth(1)
                .map_or(all, |(at, _)| &all[..at]),
            _ => all,
        };
        for found in named.captures_iter(current).filter(|it| it[1] != *version) {
            let what = format!("it says Rust {}, the manifest says {version}", &found[1]);
            diagnostics.push(Diagnostic::of(&path, what));
        }
    }
    diagnostics
}

/// There is a section for the version of the manifests, or one for what is not yet released.
pub(super) fn the_changelog_has_a_section_for_what_comes_next(
    tree: &Tree,
    workspace: &Workspace,
) -> Vec<Diagnostic> {
    let version = workspace.packages.first().map_or("", |it| &it.version);
    let heading = pattern(r"(?m)^## \[?([^\s\]]+)");
    let mut headings = heading.captures_iter(text(tree, CHANGELOG));
    if headings.any(|found| found[1] == *version || &found[1] == "Unreleased") {
        return Vec::new();
    }
    let what = format!("add a section `## {version}` or `## Unreleased`");
    vec![Diagnostic::of(CHANGELOG, what)]
}

/// Each published crate has a section or a paragraph in ARCHITECTURE.md that begins with its name,
/// and has its invariant and what it leaves out.
pub(super) fn each_crate_has_its_invariant_and_absence(
    tree: &Tree,
    workspace: &Workspace,
) -> Vec<Diagnostic> {
    let page = text(tree, ARCHITECTURE);
    let start = pattern(r"^(?:#.*?|[\s*`\[-]*)\b(evcore[\w-]*)");
    let sections = page.split("\n#").map(|it| format!("#{it}"));
    let passages: Vec<String> = sections
        .chain(page.split("\n\n").map(str::to_owned))
        .collect();
    let describes = |passage: &String, name: &str| {
        let first = passage.trim_start().lines().next().unwrap_or_default();
        let is_about = start.captures(first).is_some_and(|found| found[1] == *name);
        is_about
            && ["Invariant", "Absent"]
                .iter()
                .all(|word| passage.contains(word))
    };
    let missing = workspace.published().filter(|package| {
        !passages
            .iter()
            .any(|passage| describes(passage, &package.name))
    });
    let what =
        missing.map(|it| format!("describe `{}`: its Invariant, and what is Absent", it.name));
    what.map(|what| Diagnostic::of(ARCHITECTURE, what))
        .collect()
}

/// Each public name that the project has coined stands in the glossary: by itself, or as words
/// (`WorkerGroup` as "worker group").
pub(super) fn each_coined_name_is_in_the_glossary(
    tree: &Tree,
    workspace: &Workspace,
) -> Vec<Diagnostic> {
    let mut sections = text(tree, ARCHITECTURE).split("\n## ");
    let glossary = sections
        .find(|it| it.starts_with("Glossary"))
        .unwrap_or("")
        .to_lowercase();
    let hump = pattern("([a-z])([A-Z])");
    let mut diagnostics = Vec::new();
    for package in workspace.published() {
        let lib = tree.file(&format!("{}/src/lib.rs", package.dir));
        for name in lib.map(exports).unwrap_or_default() {
            let is_plain = name.ends_with("Error") || PLAIN.split_whitespace().any(|it| it == name);
            let words = hump.replace_all(&name, "$1 $2").to_lowercase();
            if !is_plain
                && ![name.to_lowercase(), words]
                    .iter()
                    .any(|it| glossary.contains(it))
            {
                let what = format!("explain `{name}` of {} in the glossary", package.name);
                diagnostics.push(Diagnostic::of(ARCHITECTURE, what));
            }
        }
    }
    diagnostics
}

/// The types and traits that a `lib.rs` exports; not what it passes on from other crates.
fn exports(lib: &File) -> Vec<String> {
    let code = super::code::without_comments(lib);
    let name = pattern(r"\b[A-Z]\w*[a-z]\w*");
    let own = pattern(r"pub use ([^;]+);");
    let own = own
        .captures_iter(&code.text)
        .filter(|found| !found[1].starts_with("evcore_"));
    let names = own.flat_map(|found| {
        let names = name.find_iter(found.get(1).expect("the path").as_str());
        names.map(|it| it.as_str().to_owned()).collect::<Vec<_>>()
    });
    names.collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::workspace::Package;

    type Rule = fn(&Tree, &Workspace) -> Vec<Diagnostic>;

    /// What a rule reports of files and a workspace with the crate `evcore-token`.
    fn reported(rule: Rule, files: &[(&str, &str)]) -> usize {
        let token = Package {
            bins: vec!["httpd".to_owned()],
            ..Package::fake("evcore-token")
        };
        rule(&Tree::fake(files), &Workspace::fake(vec![token])).len()
    }

    #[test]
    fn a_link_that_leads_nowhere_is_reported() {
        let links =
            |text: &str| reported(relative_links_resolve, &[("docs/a.md", text), ("b.md", "")]);
        assert_eq!(
            links("[b](../b.md) [c](https://c.d/e) [f](#g) ![docs](a.md#h)"),
            0
        );
        assert_eq!(links("[b](b.md) [c](../../d) [e](/f)\n\n[g]: h.md\n"), 4);
        assert_eq!(links("`[b](b.md)`\n```\n[b](b.md)\n```\n"), 0);
    }

    #[test]
    fn a_readme_has_its_title_its_length_and_its_test() {
        let (readme, lib) = (
            "crates/evcore-token/README.md",
            "crates/evcore-token/src/lib.rs",
        );
        let rule: Rule = a_readme_is_short_named_and_tested;
        assert_eq!(reported(rule, &[]), 2);
        assert_eq!(
            reported(rule, &[(readme, "# evcore-token\n"), (lib, INCLUDED)]),
            0
        );
        let long = format!("# evcore-token\n{}", "\n".repeat(README_LINES_MAX));
        assert_eq!(reported(rule, &[(readme, &long), (lib, INCLUDED)]), 1);
    }

    #[test]
    fn the_front_page_agrees_with_manifests_ci_and_example() {
        let row = Package::fake("evcore-token");
        let row = format!("| [`evcore-token`]({}) | {} |", row.dir, row.description);
        let map: Rule = the_map_is_what_the_manifests_say;
        assert_eq!(reported(map, &[(README, &row)]), 0);
        assert_eq!(reported(map, &[(README, "| [`x`](crates/x) | y |")]), 2);
        let commands: Rule = the_readme_has_the_commands_and_programs;
        let readme = "cargo xtask test\ncargo run --release --bin httpd\n";
        let ci = (CI, "set -e\ncargo xtask test --ci\n");
        assert_eq!(reported(commands, &[(README, readme), ci]), 0);
        assert_eq!(reported(commands, &[(README, readme)]), 1);
        assert_eq!(reported(commands, &[(README, "run --example chat"), ci]), 3);
        let program: Rule = the_program_is_the_example;
        let shown = (README, "```rust,no_run\nfn main() {}\n```\n");
        assert_eq!(reported(program, &[shown, (PROGRAM, "fn main() {}\n")]), 0);
        assert_eq!(reported(program, &[shown, (PROGRAM, "fn main() { }\n")]), 1);
    }

    #[test]
    fn documents_name_the_manifests_rust_and_the_next_version() {
        let rust: Rule = rust_is_the_manifests_version;
        let version = Package::fake("evcore-token").rust_version;
        assert_eq!(
            reported(rust, &[(README, &format!("It needs Rust {version}."))]),
            0
        );
        assert_eq!(
            reported(rust, &[(README, "rustc 1.12 and MSRV: 1.13; trust 1.14")]),
            2
        );
        let history = (
            CHANGELOG,
            "# C\n## Unreleased\nRust 1.12\n## 0.1\nRust 1.13\n",
        );
        assert_eq!(reported(rust, &[history]), 1);
        let next: Rule = the_changelog_has_a_section_for_what_comes_next;
        assert_eq!(reported(next, &[history]), 0);
        assert_eq!(reported(next, &[(CHANGELOG, "## 0.0.9\n")]), 1);
    }

    #[test]
    fn a_crate_is_described_by_a_heading_or_a_paragraph() {
        let rule: Rule = each_crate_has_its_invariant_and_absence;
        let found = |text: &str| reported(rule, &[(ARCHITECTURE, text)]);
        assert_eq!(
            found("# Page\n\n**`evcore-token`** is. Invariant: x. Absent: y.\n"),
            0
        );
        assert_eq!(
            found("# Page\n\n### `evcore-token`\n\nInvariant: x.\n\nAbsent: y.\n"),
            0
        );
        assert_eq!(found("# Page\n\n`evcore-token` is. Invariant: x.\n"), 1);
        assert_eq!(
            found("# Page\n\nNot `evcore-token`. Invariant. Absent.\n"),
            1
        );
    }

    #[test]
    fn a_coined_name_is_in_the_glossary_by_itself_or_as_words() {
        let names = |lib: &str, glossary: &str| {
            let page = format!("# Page\n\n## Glossary\n\n{glossary}\n\n## Layers\n\nfence, gate\n");
            let lib = ("crates/evcore-token/src/lib.rs", lib);
            reported(
                each_coined_name_is_in_the_glossary,
                &[(ARCHITECTURE, &page), lib],
            )
        };
        assert_eq!(names("pub use a::{Fence, Gate};", "| **plan** | data |"), 2);
        assert_eq!(
            names(
                "pub use a::{\n    GateFence,\n};",
                "| **gate fence** | a thing |"
            ),
            0
        );
        assert_eq!(
            names("pub use a::GateFence;", "| `GateFence` | a thing |"),
            0
        );
        let plain = "pub use a::{BindError, Result, MAX_ID, inherited};\n\
                     pub use evcore_token::Fence;\npub use evcore_token as token;";
        assert_eq!(names(plain, ""), 0);
    }
}
