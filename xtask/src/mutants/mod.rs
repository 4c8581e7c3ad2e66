//! Mutants: bugs planted on purpose, each of which a named test must find.
//!
//! A mutant is a file under `tests/mutants`: an edit of the source, the test that finds it, and
//! words of that test's failure. The edit is made in a copy of the tree, so shipped source has no
//! trace of it. An edit that no longer applies is an error, and so is a mutant that its test does
//! not find.

mod copy;
mod mutant;

use std::fs;
use std::path::Path;

use crate::Result;
use crate::command::CommandLine;
use crate::diagnostic::Diagnostic;
use crate::schedule::Plan;
use crate::source_tree::Tree;
use crate::step::Step;
use crate::test_report::TestReport;
use crate::workspace::Workspace;

use mutant::Mutant;

/// Where the mutants are, from the root.
const DIR: &str = "tests/mutants/";

/// Runs the mutants whose names contain `name`.
pub(crate) fn run(workspace: &Workspace, name: &str) -> Result {
    let tree = Tree::read(&workspace.root)?;
    let mut steps = steps(&tree);
    steps.retain(|step| step.name.contains(name));
    if steps.is_empty() {
        return Err(format!("no mutant in {DIR} has {name:?} in its name").into());
    }
    Plan::of(steps).run(workspace)
}

/// A step for each mutant.
pub(crate) fn steps(tree: &Tree) -> Vec<Step> {
    let files = tree.files.iter().filter(|file| is_mutant(&file.path));
    let steps = files.map(|file| {
        let path = file.path.clone();
        let name = path[DIR.len()..].trim_end_matches(".mutant").to_owned();
        let task = format!("mutants {name}");
        Step::check(&format!("mutant: {name}"), task, move |workspace| {
            try_mutant(workspace, &path)
        })
        .in_dir("mutants")
    });
    steps.collect()
}

fn is_mutant(path: &str) -> bool {
    path.starts_with(DIR) && path.ends_with(".mutant")
}

/// Makes the edits in the copy, runs the test, and returns what is wrong.
fn try_mutant(workspace: &Workspace, path: &str) -> Result<Vec<Diagnostic>> {
    let tree = Tree::read(&workspace.root)?;
    let found = read(&tree, path).and_then(|mutant| Ok((mutant.apply(&tree)?, mutant)));
    let (mutated, mutant) = match found {
        Ok(found) => found,
        Err(what) => return Ok(vec![Diagnostic::of(path, what)]),
    };
    let dir = workspace.target_dir.join("mutants");
    copy::sync(&mutated, &dir.join("tree"))?;
    let what = run_test(&mutant, &dir)?;
    Ok(what
        .map(|what| Diagnostic::of(path, what))
        .into_iter()
        .collect())
}

/// The mutant of a file.
fn read(tree: &Tree, path: &str) -> std::result::Result<Mutant, String> {
    let file = tree.file(path);
    let file = file.ok_or_else(|| format!("{path} does not exist"))?;
    Mutant::parse(&file.text)
}

/// Runs the test of a mutant in the copy. Returns `None` if the test fails as expected, or passes if
/// the edit is no bug.
fn run_test(mutant: &Mutant, dir: &Path) -> Result<Option<String>> {
    let (tree, log) = (dir.join("tree"), dir.join("log"));
    let command = |options: &str| {
        let line = format!("cargo test --locked {options} {}", mutant.test);
        // In a directory of its own: cargo takes a crate of the copy for the root's, so what is built
        // here would be linked there.
        CommandLine::new(&line)
            .env("CARGO_TARGET_DIR", dir.join("target").display().to_string())
            .env("EVCORE_SIM_SEEDS", mutant.seeds.to_string())
            // One edit after another: here it pays, also where CI leaves it out.
            .env("CARGO_INCREMENTAL", "1")
    };
    if !command("--no-run").run(&tree, &log)? {
        let output = fs::read_to_string(&log)?;
        return Ok(Some(format!("it does not compile:\n{output}")));
    }
    let passed = command("").run(&tree, &log)?;
    let output = fs::read_to_string(&log)?;
    if TestReport::parse(&output).passed == 0 && passed {
        return Ok(Some(format!("`{}` matches no test", mutant.test)));
    }
    let is_found = mutant.found_by.iter().any(|words| output.contains(words));
    Ok(match (passed, mutant.found_by.is_empty()) {
        (true, true) => None,
        (true, false) => Some(format!("not found by `{}`", mutant.test)),
        (false, false) if is_found => None,
        (false, _) => Some(format!(
            "`{}` failed, but with none of the words {:?}:\n{output}",
            mutant.test, mutant.found_by
        )),
    })
}
