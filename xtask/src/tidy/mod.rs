//! Rules that no compiler knows: sizes, names, places, documents.
//!
//! `lines.rs` has the rules that are a pattern each, `code.rs` those about Rust files, and
//! `documents.rs` those about documents.

mod code;
mod documents;
mod lines;

use crate::Result;
use crate::diagnostic::Diagnostic;
use crate::schedule::Plan;
use crate::source_tree::Tree;
use crate::step::Step;
use crate::workspace::Workspace;

const RULES: &[fn(&Tree, &Workspace) -> Vec<Diagnostic>] = &[
    lines::no_line_has_a_forbidden_pattern,
    code::a_file_is_short_and_named_after_its_idea,
    code::unsafe_is_in_files_that_say_so,
    code::unsafe_is_forbidden_in_other_crates,
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

pub(crate) fn run(workspace: &Workspace) -> Result {
    Plan::of([step()]).run(workspace)
}

pub(crate) fn step() -> Step {
    Step::check("tidy", "tidy", check)
}

fn check(workspace: &Workspace) -> Result<Vec<Diagnostic>> {
    let tree = Tree::read(&workspace.root)?;
    let rules = RULES.iter();
    Ok(rules.flat_map(|rule| rule(&tree, workspace)).collect())
}
