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
use crate::workspace::Workspace;

/// Returns what is wrong, as `file:line: what to do`.
type Rule = fn(&Tree, &Workspace) -> Vec<String>;

const RULES: &[Rule] = &[
    lines::no_line_has_a_forbidden_pattern,
    code::a_file_is_short_and_named_after_its_idea,
    code::unsafe_is_in_files_that_say_so,
    documents::relative_links_resolve,
    documents::a_readme_is_short_named_and_tested,
    documents::the_map_is_what_the_manifests_say,
    documents::the_readme_has_the_commands_and_programs,
    documents::the_program_is_the_example,
    documents::rust_is_the_manifests_version,
    documents::the_changelog_has_a_section_for_what_comes_next,
    documents::each_crate_has_its_invariant_and_absence,
    documents::each_coined_name_is_in_the_glossary,
];

pub(crate) fn plan() -> Plan {
    Plan::default().check("tidy", "tidy", |workspace| {
        let tree = Tree::read(&workspace.workspace_root)?;
        let faults = faults(&tree, workspace);
        match faults.is_empty() {
            true => Ok(()),
            false => Err(faults.join("\n").into()),
        }
    })
}

fn faults(tree: &Tree, workspace: &Workspace) -> Vec<String> {
    RULES
        .iter()
        .flat_map(|rule| rule(tree, workspace))
        .collect()
}
