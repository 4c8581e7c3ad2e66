//! A small tree without a fault, and each fault that the rules find in it.

use super::documents::{ARCHITECTURE, CHANGELOG, CI, PROGRAM, README};
use super::faults;
use crate::source_tree::{File, Tree};
use crate::workspace::{self, Workspace};

const CRATE: &str = "crates/evcore-token/README.md";
const LIB: &str = "crates/evcore-token/src/lib.rs";
const TEST: &str = "crates/evcore-token/tests/a.rs";
const CALL: &str = "crates/evcore-poller/src/call.rs";

const SOUND: &[(&str, &str)] = &[
    (
        README,
        "# evcore\n\ncargo xtask test\ncargo run --release --bin httpd\n\n| [`evcore-token`](crates/evcore-token) | DESCRIPTION |\n\n```rust,no_run\nfn main() {}\n```\nIt needs Rust VERSION. [b](docs/a.md) [c](https://c.d/e) [f](#g) `[h](h.md)`\n",
    ),
    (
        "docs/a.md",
        "[b](../README.md) ![docs](./a.md#h)\n```\n[i](i.md)\n```\n",
    ),
    (
        ARCHITECTURE,
        "# Page\n\n## Glossary\n\n| **gate fence** | a thing |\n\n## The crates\n\n### `evcore-token`\n\nIt is.\nInvariant: x.\nAbsent: y.\n",
    ),
    (
        CHANGELOG,
        "# C\n\n## Unreleased\n\nRust VERSION\n\n## 0.0.1\n\nRust 1.13\n",
    ),
    (CI, "set -e\ncargo xtask test --ci\n"),
    (PROGRAM, "fn main() {}\n"),
    (CRATE, "# evcore-token\n"),
    (
        LIB,
        "//! fn\n#![doc = include_str!(\"../README.md\")]\nmod a;\npub use a::{GateFence, BindError};\npub use evcore_clock::Gate;\nconst _: () = { const fn d() {} };\n",
    ),
    (TEST, "// 127.0.0.1:80\n\"127.0.0.1:0\"\n\"[::1]:65536\"\n"),
    // In two pieces each, because this file is a Rust file of the tree too.
    (
        CALL,
        concat!(
            "//! Calls C.\n#![al",
            "low(unsafe_code, reason = \"it calls C\")]\nunsafe { x() }\n"
        ),
    ),
];

/// The one crate that the tree has, and `httpd`.
fn workspace() -> Workspace {
    let mut workspace = workspace::load().unwrap();
    let names = ["evcore-token", "evcore-httpd"];
    workspace
        .packages
        .retain(|it| names.contains(&it.name.as_str()));
    workspace
}

/// The faults of the tree with `from` replaced by `to` in one file.
fn found(workspace: &Workspace, path: &str, from: &str, to: &str) -> Vec<String> {
    let token = workspace
        .packages
        .iter()
        .find(|it| it.name == "evcore-token");
    let description = token.and_then(|it| it.description.as_deref()).unwrap();
    let version = format!("1.{}", workspace::rust_minor(workspace));
    let file = |&(name, text): &(&str, &str)| {
        let text = if name == path {
            assert!(text.contains(from), "{path}: {from}");
            text.replacen(from, to, 1)
        } else {
            text.to_owned()
        };
        let text = text
            .replace("DESCRIPTION", description)
            .replace("VERSION", &version);
        let path = name.to_owned();
        File { path, text }
    };
    let files = SOUND.iter().map(file).collect();
    faults(&Tree { files }, workspace)
}

#[test]
fn each_rule_finds_its_fault() {
    let workspace = workspace();
    let long = |line: &str| format!("{line}{}", "//\n".repeat(600));
    let home = ["/", "home/me/evcore"].concat();
    assert_eq!(found(&workspace, CI, "", ""), [""; 0]);
    for (path, from, to, count, what) in [
        (
            CI,
            "set -e",
            &*format!("cd {home}\ncd a{home}"),
            1,
            "a path of one machine",
        ),
        (ARCHITECTURE, "It is.", "It is. ", 1, "white space"),
        (ARCHITECTURE, "It is.", "It is.\r", 1, "white space"),
        (
            PROGRAM,
            "fn main() {}",
            concat!("if a\n    &", "& let Some(b) = c {}"),
            2,
            "let chain",
        ),
        (TEST, "// 127", "127", 1, "port 0"),
        (TEST, "\"127.0.0.1:0\"", "(LOCALHOST, 8080)", 1, "port 0"),
        (
            LIB,
            "mod a;",
            "pub fn b() {}\nimpl C {}",
            2,
            "a module of its own",
        ),
        (TEST, "", &long(""), 1, "split it by idea"),
        (CALL, "#![al", "#[al", 1, "at the top"),
        (CALL, ", reason = \"it calls C\"", "", 1, "at the top"),
        (CALL, "unsafe {", "{", 1, "deny it again"),
        (PROGRAM, "fn main() {}", SOUND[9].1, 2, "only clock"),
        ("docs/a.md", "../README.md", "README.md", 1, "no file"),
        ("docs/a.md", "../README.md", "../../README.md", 1, "no file"),
        ("docs/a.md", "../README.md", "/README.md", 1, "no file"),
        ("docs/a.md", "```\n[i]", "[i]", 1, "no file"),
        ("docs/a.md", "[b](", "[b]: b.md\n(", 1, "no file"),
        (CRATE, "# evcore-token", "# token", 1, "begin with"),
        (CRATE, "\n", &long("\n"), 1, "more than 60"),
        (LIB, "#![doc", "// #![doc", 1, "include it"),
        (README, "DESCRIPTION", "x", 2, "row"),
        (CI, "--ci", "", 1, "cargo xtask test --ci"),
        (README, "cargo xtask test\n", "", 1, "line of its own"),
        (
            README,
            "bin httpd",
            "example chat",
            2,
            "no crate has example `chat`",
        ),
        (README, "fn main() {}", "fn main() { }", 1, "as it is"),
        (
            README,
            "VERSION",
            "1.12 and MSRV: 1.13; trust 1.14",
            2,
            "in the manifest",
        ),
        (CHANGELOG, "VERSION", "1.12", 1, "in the manifest"),
        (CHANGELOG, "Unreleased", "0.0.2", 1, "add a section"),
        (
            ARCHITECTURE,
            "Absent",
            "Present",
            1,
            "with a line `Invariant",
        ),
        (
            ARCHITECTURE,
            "`evcore-token`",
            "evcore-token",
            1,
            "with a line `Invariant",
        ),
        (ARCHITECTURE, "gate fence", "gatefence", 0, ""),
        (ARCHITECTURE, "gate fence", "gate", 1, "explain `GateFence`"),
        (LIB, "BindError", "Gate, Fence, MAX_ID, Result", 0, ""),
        (
            LIB,
            "BindError",
            "Latch, MAX_ID, Result",
            1,
            "explain `Latch`",
        ),
    ] {
        let found = found(&workspace, path, from, to);
        let is_found = found.is_empty() || found.iter().any(|it| it.contains(what));
        assert!(
            found.len() == count && is_found,
            "{path}: {from}: {found:?}"
        );
    }
}

#[test]
fn a_name_without_an_idea_is_reported() {
    let path = "src/utils/a.rs".to_owned();
    let text = String::new();
    let tree = Tree {
        files: vec![File { path, text }],
    };
    let found = super::code::a_file_is_short_and_named_after_its_idea(&tree, &workspace());
    assert_eq!(found, ["src/utils/a.rs: `utils` names no idea"]);
}
