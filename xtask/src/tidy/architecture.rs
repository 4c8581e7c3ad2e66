//! ARCHITECTURE.md, which describes every crate.

use crate::diagnostic::Diagnostic;
use crate::tree::Tree;
use crate::workspace::Workspace;

const ARCHITECTURE: &str = "ARCHITECTURE.md";

/// The words of each crate's section: its invariant, and what it leaves out on purpose.
const WORDS: &[&str] = &["Invariant", "Absent"];

/// Each published crate has a section or a paragraph with its invariant and its absence.
///
/// A section has the crate's name in its heading; a paragraph begins with it.
pub(super) fn each_crate_has_its_invariant_and_absence(
    tree: &Tree,
    workspace: &Workspace,
) -> Vec<Diagnostic> {
    let Some(page) = tree.file(ARCHITECTURE) else {
        return vec![Diagnostic::of(
            ARCHITECTURE,
            "write it: a paragraph a crate",
        )];
    };
    let is_told = |name: &str| {
        let mut passages = sections(&page.text).chain(page.text.split("\n\n"));
        passages.any(|passage| is_about(passage, name) && WORDS.iter().all(|w| passage.contains(w)))
    };
    workspace
        .published()
        .filter(|package| !is_told(&package.name))
        .map(|package| {
            let what = format!(
                "add a heading or a paragraph that begins with `{}`, with the words {}",
                package.name,
                WORDS.join(" and ")
            );
            Diagnostic::of(ARCHITECTURE, what)
        })
        .collect()
}

/// The text from each heading to the next, whatever their levels.
fn sections(text: &str) -> impl Iterator<Item = &str> {
    let headings = text.match_indices("\n#").map(|(at, _)| at + 1);
    let starts: Vec<usize> = std::iter::once(0).chain(headings).collect();
    let ends = starts.clone().into_iter().skip(1).chain([text.len()]);
    starts
        .into_iter()
        .zip(ends)
        .map(|(start, end)| &text[start..end])
}

/// Whether the first words of a passage, marks aside, hold the crate's name.
fn is_about(passage: &str, name: &str) -> bool {
    let first = passage.trim_start().lines().next().unwrap_or_default();
    let is_of_name = |c: char| c.is_alphanumeric() || c == '-' || c == '_';
    let mut words = first
        .split(|c| !is_of_name(c))
        .filter(|word| word.starts_with("evcore"));
    let begins = words.next() == Some(name);
    begins && (first.starts_with('#') || begins_with_name(first))
}

/// Whether nothing but marks stands before the name.
fn begins_with_name(line: &str) -> bool {
    line.trim_start_matches(['*', '`', '[', '-', ' '])
        .starts_with("evcore")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::workspace::Package;

    fn diagnostics(text: &str) -> usize {
        let packages = vec![Package::fake("evcore"), Package::fake("evcore-timer")];
        let tree = Tree::fake(&[(ARCHITECTURE, text)]);
        each_crate_has_its_invariant_and_absence(&tree, &Workspace::fake(packages)).len()
    }

    #[test]
    fn headings_and_paragraphs_both_serve() {
        let headings = "# Page\n\n## `evcore`\n\nInvariant: a.\n\nAbsent: b.\n\n\
                        ### evcore-timer: deadlines\nInvariant: c. Absent: d.\n";
        assert_eq!(diagnostics(headings), 0);
        let paragraphs = "# Page\n\n**`evcore`** turns.\nInvariant: a.\nAbsent: b.\n\n\
                          - `evcore-timer`: Invariant: c. Absent: d.\n";
        assert_eq!(diagnostics(paragraphs), 0);
    }

    #[test]
    fn a_crate_without_its_own_passage_is_reported() {
        assert_eq!(diagnostics("## evcore\nInvariant: a. Absent: b.\n"), 1);
        assert_eq!(
            diagnostics("## evcore-timer\nInvariant: a. Absent: b.\n"),
            1
        );
    }

    #[test]
    fn a_passage_without_both_words_is_reported() {
        let text = "## evcore\nInvariant: a.\n\n## evcore-timer\nInvariant: a. Absent: b.\n";
        assert_eq!(diagnostics(text), 1);
    }

    #[test]
    fn a_missing_page_is_reported() {
        let workspace = Workspace::fake(vec![Package::fake("evcore")]);
        let rule = each_crate_has_its_invariant_and_absence;
        assert_eq!(rule(&Tree::default(), &workspace).len(), 1);
    }
}
