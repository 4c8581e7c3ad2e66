//! The oldest Rust is the same wherever it is named.

use crate::diagnostic::Diagnostic;
use crate::tree::{File, Tree};
use crate::workspace::Workspace;

/// What the version follows, in lower case.
const BEFORE_A_VERSION: &[&str] = &["rust ", "rustc ", "msrv ", "msrv: ", "rust-version = \""];

/// The documents whose Rust is the workspace's.
const DOCUMENTS: &[&str] = &["README.md", "ARCHITECTURE.md", "CHANGELOG.md"];

/// Each `Rust 1.x` of a document is the `rust-version` of the manifests.
///
/// In the changelog only the unreleased section counts.
pub(super) fn documents_say_what_the_manifest_says(
    tree: &Tree,
    workspace: &Workspace,
) -> Vec<Diagnostic> {
    let Some(package) = workspace.packages.first() else {
        return Vec::new();
    };
    let version = &package.rust_version;
    let readmes = workspace
        .published()
        .map(|p| format!("{}/README.md", p.dir));
    let paths = DOCUMENTS
        .iter()
        .map(|path| (*path).to_owned())
        .chain(readmes);
    let mut diagnostics = Vec::new();
    for file in paths.filter_map(|path| tree.file(&path)) {
        for (number, named) in versions(file) {
            if named != *version {
                let what = format!("Rust {named} is named; the manifest says {version}");
                diagnostics.push(Diagnostic::at(&file.path, number, what));
            }
        }
    }
    diagnostics
}

fn versions(file: &File) -> Vec<(usize, String)> {
    let is_section = |line: &str| line.starts_with("## ");
    let history = match file.path.as_str() {
        "CHANGELOG.md" => file.lines().filter(|(_, line)| is_section(line)).nth(1),
        _ => None,
    };
    let end = history.map_or(usize::MAX, |(number, _)| number);
    let current = file.lines().take_while(|(number, _)| *number < end);
    current
        .flat_map(|(number, line)| versions_in(line).into_iter().map(move |v| (number, v)))
        .collect()
}

/// The versions that a line names, as `1.x`.
fn versions_in(line: &str) -> Vec<String> {
    let line = line.to_lowercase();
    let after = BEFORE_A_VERSION
        .iter()
        .flat_map(|before| after_word(&line, before));
    after.filter_map(major_and_minor).collect()
}

/// What follows each `word` in `line`, where it does not end another one.
fn after_word<'a>(line: &'a str, word: &'a str) -> impl Iterator<Item = &'a str> {
    line.match_indices(word)
        .filter(|(at, _)| !line[..*at].ends_with(char::is_alphanumeric))
        .map(|(at, _)| &line[at + word.len()..])
}

fn major_and_minor(text: &str) -> Option<String> {
    let minor = text.strip_prefix("1.")?;
    let end = minor
        .find(|c: char| !c.is_ascii_digit())
        .unwrap_or(minor.len());
    Some(format!("1.{}", &minor[..end]))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::workspace::Package;

    fn diagnostics(path: &str, text: &str) -> Vec<String> {
        let workspace = Workspace::fake(vec![Package::fake("evcore-token")]);
        let tree = Tree::fake(&[(path, text)]);
        let diagnostics = documents_say_what_the_manifest_says(&tree, &workspace);
        diagnostics.iter().map(ToString::to_string).collect()
    }

    #[test]
    fn another_version_is_reported_in_its_line() {
        for text in ["Needs Rust 1.84.", "MSRV 1.90", "`rust-version = \"1.8\"`"] {
            assert_eq!(diagnostics("README.md", text).len(), 1, "{text}");
            assert_eq!(
                diagnostics("crates/evcore-token/README.md", text).len(),
                1,
                "{text}"
            );
        }
        assert!(diagnostics("README.md", "\nRust 1.84")[0].starts_with("README.md:2: "));
    }

    #[test]
    fn the_manifests_version_is_sound() {
        let text = "Rust 1.85.0 or later. `rust-version = \"1.85\"`. We trust 1.2.";
        assert!(diagnostics("README.md", text).is_empty());
    }

    #[test]
    fn the_history_of_changes_may_name_older_ones() {
        let text = "## Unreleased\nRust 1.85\n## 0.1.0\nRust 1.70\n";
        assert!(diagnostics("CHANGELOG.md", text).is_empty());
        assert_eq!(
            diagnostics("CHANGELOG.md", "## 0.2.0\nRust 1.84\n## 0.1.0\n").len(),
            1
        );
    }
}
