//! The changelog has a section for unreleased changes.

use crate::diagnostic::Diagnostic;
use crate::tree::Tree;
use crate::workspace::Workspace;

const CHANGELOG: &str = "CHANGELOG.md";

/// There is a section for the version of the manifests, or one for what is not yet released.
pub(super) fn has_a_section_for_what_comes_next(
    tree: &Tree,
    workspace: &Workspace,
) -> Vec<Diagnostic> {
    let Some(changelog) = tree.file(CHANGELOG) else {
        return vec![Diagnostic::of(
            CHANGELOG,
            "write it: what changed, newest first",
        )];
    };
    let version = workspace.packages.first().map_or("", |p| &p.version);
    let headings = changelog
        .text
        .lines()
        .filter_map(|line| line.strip_prefix("## "));
    let mut names = headings.flat_map(|heading| heading.split([' ', '[', ']', '(', ')']));
    if names.any(|name| name == version || name == "Unreleased") {
        return Vec::new();
    }
    let what = format!("add a section `## {version}` or `## Unreleased`");
    vec![Diagnostic::of(CHANGELOG, what)]
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::workspace::Package;

    fn diagnostics(tree: &Tree) -> usize {
        let workspace = Workspace::fake(vec![Package::fake("evcore-token")]);
        has_a_section_for_what_comes_next(tree, &workspace).len()
    }

    fn faults_of(text: &str) -> usize {
        diagnostics(&Tree::fake(&[(CHANGELOG, text)]))
    }

    #[test]
    fn the_current_version_or_unreleased_is_sound() {
        assert_eq!(faults_of("# Changes\n\n## 0.1.0\n"), 0);
        assert_eq!(faults_of("## [0.1.0] (2026-01-01)\n"), 0);
        assert_eq!(faults_of("## Unreleased\n"), 0);
    }

    #[test]
    fn another_version_a_mere_mention_or_no_file_is_reported() {
        assert_eq!(faults_of("## 0.1.01\n\n0.1.0 is next\n"), 1);
        assert_eq!(diagnostics(&Tree::default()), 1);
    }
}
