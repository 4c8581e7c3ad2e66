//! Rules that no compiler knows: sizes, names, places, documents.
//!
//! `lines.rs` has the rules that are a pattern each, `code.rs` those about Rust files, and
//! `documents.rs` those about documents.

mod code;
mod documents;
mod lines;
#[cfg(test)]
mod tests;

use crate::schedule::Plan;
use crate::source_tree::Tree;
use crate::step::error_of;
use crate::workspace::Workspace;

/// Returns what is wrong, as `file:line: what to do`.
type Rule = fn(&Tree, &Workspace) -> Vec<String>;

const RULES: &[Rule] = &[
    lines::no_line_has_a_forbidden_pattern,
    code::a_file_is_short_and_named_after_its_idea,
    code::unsafe_is_in_files_that_say_so,
    code::unsafe_is_denied_elsewhere,
    documents::relative_links_resolve,
    documents::documents_have_what_they_need,
    documents::what_the_readme_names_exists,
    documents::rust_is_the_manifests_version,
    documents::each_coined_name_is_in_the_glossary,
];

pub(crate) fn plan() -> Plan {
    Plan::default().check("tidy", "tidy", |workspace| {
        let tree = Tree::read(&workspace.workspace_root)?;
        error_of(&faults(&tree, workspace))
    })
}

fn faults(tree: &Tree, workspace: &Workspace) -> Vec<String> {
    RULES
        .iter()
        .flat_map(|rule| rule(tree, workspace))
        .collect()
}
