//! The front door of a crate.

use crate::diagnostic::Diagnostic;
use crate::tree::{File, Tree};
use crate::workspace::{Package, Workspace};

const LINES_MAX: usize = 60;

/// What makes the README's example a test, and the README the crate's page.
const INCLUDED: &str = "#![doc = include_str!(\"../README.md\")]";

/// The README of a published crate can be read in two minutes, and its example runs.
pub(super) fn is_short_named_and_tested(tree: &Tree, workspace: &Workspace) -> Vec<Diagnostic> {
    let packages = workspace.published();
    packages
        .flat_map(|package| diagnostics(tree, package))
        .collect()
}

fn diagnostics(tree: &Tree, package: &Package) -> Vec<Diagnostic> {
    let path = format!("{}/README.md", package.dir);
    let Some(readme) = tree.file(&path) else {
        return vec![Diagnostic::of(
            path,
            "write it: a published crate has a README",
        )];
    };
    let mut diagnostics = Vec::new();
    let lines = readme.text.lines().count();
    if lines > LINES_MAX {
        let what = format!("{lines} lines, of {LINES_MAX} at most; move the rest to the modules");
        diagnostics.push(Diagnostic::of(&path, what));
    }
    let title = format!("# {}", package.name);
    if readme.text.lines().next() != Some(title.as_str()) {
        diagnostics.push(Diagnostic::at(&path, 1, format!("begin with `{title}`")));
    }
    let lib = format!("{}/src/lib.rs", package.dir);
    if !tree.file(&lib).is_some_and(includes_readme) {
        diagnostics.push(Diagnostic::of(
            lib,
            format!("include the README: `{INCLUDED}`"),
        ));
    }
    diagnostics
}

fn includes_readme(lib: &File) -> bool {
    lib.text.lines().any(|line| line == INCLUDED)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn count(readme: &str, lib: &str) -> usize {
        let tree = Tree::fake(&[
            ("crates/evcore-token/README.md", readme),
            ("crates/evcore-token/src/lib.rs", lib),
        ]);
        let workspace = Workspace::fake(vec![Package::fake("evcore-token")]);
        is_short_named_and_tested(&tree, &workspace).len()
    }

    #[test]
    fn a_sound_readme_has_no_diagnostic() {
        assert_eq!(count("# evcore-token\n\nNames.\n", INCLUDED), 0);
    }

    #[test]
    fn each_fault_is_found() {
        assert_eq!(count("# evcore-clock\n", INCLUDED), 1);
        assert_eq!(
            count(&format!("# evcore-token\n{}", "x\n".repeat(60)), INCLUDED),
            1
        );
        assert_eq!(count("# evcore-token\n", "//! Names."), 1);
    }

    #[test]
    fn a_published_crate_without_a_readme_is_reported() {
        let workspace = Workspace::fake(vec![Package::fake("evcore-token")]);
        assert_eq!(
            is_short_named_and_tested(&Tree::default(), &workspace).len(),
            1
        );
    }
}
