//! Links between our own documents lead somewhere.

use crate::diagnostic::Diagnostic;
use crate::tree::{File, Tree};
use crate::workspace::Workspace;

/// Each relative link of a Markdown file names a file or directory of the tree.
///
/// `[text](path)`, images, and definitions `[name]: path`. Links that only
/// rustdoc understands are reported too: on the registry's page they lead nowhere.
pub(super) fn relative_links_resolve(tree: &Tree, _: &Workspace) -> Vec<Diagnostic> {
    let mut diagnostics = Vec::new();
    for file in tree.files.iter().filter(|file| file.is_markdown()) {
        for (number, target) in targets(file) {
            if !resolves(tree, &file.path, &target) {
                let what = format!("the link `{target}` leads nowhere; name a path from this file");
                diagnostics.push(Diagnostic::at(&file.path, number, what));
            }
        }
    }
    diagnostics
}

fn resolves(tree: &Tree, from: &str, target: &str) -> bool {
    let is_elsewhere = target.contains("://") || target.starts_with("mailto:");
    let path = target.split('#').next().unwrap_or_default();
    if is_elsewhere || path.is_empty() {
        return true;
    }
    joined(from, path).is_some_and(|path| tree.contains(&path))
}

/// `target` as seen from the directory of the file `from`; `None` if it leaves the tree.
fn joined(from: &str, target: &str) -> Option<String> {
    let mut names: Vec<&str> = from.split('/').collect();
    names.pop();
    if target.starts_with('/') {
        return None;
    }
    for name in target.trim_end_matches('/').split('/') {
        match name {
            "." => {}
            ".." => drop(names.pop()?),
            name => names.push(name),
        }
    }
    Some(names.join("/"))
}

/// All link targets with their lines, except those in code.
fn targets(file: &File) -> Vec<(usize, String)> {
    let mut targets = Vec::new();
    let mut in_fence = false;
    for (number, line) in file.lines() {
        if line.trim_start().starts_with("```") {
            in_fence = !in_fence;
        } else if !in_fence {
            let found = targets_in(&without_code(line));
            targets.extend(found.into_iter().map(|target| (number, target)));
        }
    }
    targets
}

fn targets_in(line: &str) -> Vec<String> {
    let inline = line
        .split("](")
        .skip(1)
        .map(|rest| up_to(rest, &[')', ' ']));
    let definition = line
        .trim_start()
        .strip_prefix('[')
        .and_then(|rest| rest.split_once("]: "))
        .map(|(_, target)| up_to(target.trim_start(), &[' ']));
    inline.chain(definition).collect()
}

fn up_to(text: &str, ends: &[char]) -> String {
    let target = text.split(ends).next().unwrap_or_default();
    target.trim_matches(['<', '>']).to_owned()
}

/// `line` without what stands between back quotes.
fn without_code(line: &str) -> String {
    line.split('`').step_by(2).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn diagnostics(text: &str) -> Vec<String> {
        let tree = Tree::fake(&[
            ("README.md", ""),
            ("crates/a/src/lib.rs", ""),
            ("crates/a/README.md", text),
        ]);
        let diagnostics = relative_links_resolve(&tree, &Workspace::fake(Vec::new()));
        diagnostics.iter().map(ToString::to_string).collect()
    }

    #[test]
    fn links_that_lead_somewhere_are_sound() {
        for text in [
            "[a](src/lib.rs) and [b](../../README.md#heading)",
            "[a](..), [b](../a/), [c](./src) and [d](../..)",
            "[a](https://example.org/x) [b](#here) [c](mailto:a@example.org)",
            "[`a`]: src/lib.rs",
            "`[a](nowhere)`",
            "```\n[a](nowhere)\n```",
            "![a](src/lib.rs \"title\")",
        ] {
            assert_eq!(diagnostics(text), Vec::<String>::new(), "{text}");
        }
    }

    #[test]
    fn links_that_lead_nowhere_are_faults_in_their_line() {
        for text in [
            "\n[`a`](src/lib)",
            "\n[a](src/lib.rs) [b](nowhere)",
            "\n[a]: crate::Thing",
            "\n[a](../../../README.md)",
            "\n[a](/README.md)",
            "\n```\n```\n[a](nowhere)",
        ] {
            assert_eq!(diagnostics(text).len(), 1, "{text}");
            assert!(
                diagnostics(text)[0].starts_with("crates/a/README.md:"),
                "{text}"
            );
        }
    }
}
