//! The rules that no compiler checks.
//!
//! Each rule is a function from text to diagnostics, with tests on sample text. Rules about Rust look
//! at code with strings and comments blanked out (`source.rs`), so that a word in a sentence is not
//! taken for a call.

mod architecture;
mod changelog;
mod crate_readme;
mod fixed_port;
mod glossary;
mod let_chain;
mod lib_rs;
mod links;
mod machine_path;
mod root_readme;
mod rust_version;
mod shape;
mod source;
mod unsafe_code;

use crate::Result;
use crate::diagnostic::Diagnostic;
use crate::step::{self, Step};
use crate::tree::{File, Tree};
use crate::workspace::Workspace;

/// Rules of one file each, of any kind.
const OF_ANY_FILE: &[fn(&File) -> Vec<Diagnostic>] = &[machine_path::no_path_of_one_machine];

/// Rules of one Rust file each.
const OF_RUST: &[fn(&File) -> Vec<Diagnostic>] = &[
    shape::a_file_has_at_most_600_lines,
    shape::a_file_is_named_after_its_idea,
    lib_rs::holds_no_logic,
    let_chain::there_is_none,
    fixed_port::tests_bind_to_port_0,
    unsafe_code::is_in_files_that_say_so,
    unsafe_code::is_in_crates_that_meet_the_os,
    unsafe_code::is_forbidden_in_all_other_crates,
];

/// Rules of one Markdown file each.
const OF_MARKDOWN: &[fn(&File) -> Vec<Diagnostic>] = &[shape::no_line_ends_in_white_space];

/// Rules of how files fit each other and the manifests.
const OF_ALL: &[fn(&Tree, &Workspace) -> Vec<Diagnostic>] = &[
    links::relative_links_resolve,
    crate_readme::is_short_named_and_tested,
    root_readme::the_map_is_what_the_manifests_say,
    root_readme::the_test_command_is_the_one_of_ci,
    root_readme::the_programs_exist,
    root_readme::its_program_is_the_example,
    rust_version::documents_say_what_the_manifest_says,
    changelog::has_a_section_for_what_comes_next,
    architecture::each_crate_has_its_invariant_and_absence,
    glossary::has_each_coined_name,
];

pub(crate) fn run(workspace: &Workspace) -> Result {
    step::run_all(workspace, &[step()])
}

pub(crate) fn step() -> Step {
    Step::check("tidy", "tidy", check)
}

fn check(workspace: &Workspace) -> Result<Vec<Diagnostic>> {
    let tree = Tree::read(&workspace.root)?;
    let mut diagnostics = Vec::new();
    for file in &tree.files {
        diagnostics.extend(OF_ANY_FILE.iter().flat_map(|rule| rule(file)));
        if file.is_rust() {
            diagnostics.extend(OF_RUST.iter().flat_map(|rule| rule(file)));
        }
        if file.is_markdown() {
            diagnostics.extend(OF_MARKDOWN.iter().flat_map(|rule| rule(file)));
        }
    }
    diagnostics.extend(OF_ALL.iter().flat_map(|rule| rule(&tree, workspace)));
    Ok(diagnostics)
}
