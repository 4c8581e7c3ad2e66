//! Mutants: bugs planted on purpose, each of which a named test has to find.
//!
//! A mutant is a file under `tests/mutants`: an edit of the source, the test that finds it, and
//! words of that test's failure. The edit is made in a copy of the tree, so that the source that
//! ships has no trace of it. An edit that does not apply any more is a fault, and so is a mutant
//! that no test finds.

mod copy;
mod mutant;

use std::fs;

use crate::Result;
use crate::command::CommandLine;
use crate::fault::Fault;
use crate::part::{self, Part};
use crate::tree::Tree;
use crate::workspace::Workspace;

use mutant::Mutant;

/// Where the mutants are, from the root.
const DIR: &str = "tests/mutants/";

/// Runs the mutants whose names contain `name`.
pub(crate) fn run(workspace: &Workspace, name: &str) -> Result {
    let tree = Tree::read(&workspace.root)?;
    let mut parts = parts(&tree);
    parts.retain(|part| part.name.contains(name));
    if parts.is_empty() {
        return Err(format!("no mutant in {DIR} has {name:?} in its name").into());
    }
    part::run_all(workspace, &parts)
}

/// A part for each mutant.
pub(crate) fn parts(tree: &Tree) -> Vec<Part> {
    let files = tree.files.iter().filter(|file| is_mutant(&file.path));
    let parts = files.map(|file| {
        let path = file.path.clone();
        let name = path[DIR.len()..].trim_end_matches(".mutant").to_owned();
        let task = format!("mutants {name}");
        Part::check(&format!("mutant: {name}"), task, move |workspace| {
            try_mutant(workspace, &path)
        })
    });
    parts.collect()
}

fn is_mutant(path: &str) -> bool {
    path.starts_with(DIR) && path.ends_with(".mutant")
}

/// Makes the edit in the copy, runs the test, and says what is wrong.
fn try_mutant(workspace: &Workspace, path: &str) -> Result<Vec<Fault>> {
    let tree = Tree::read(&workspace.root)?;
    let fault = |what: String| Ok(vec![Fault::of(path, what)]);
    let text = &tree.file(path).ok_or("it has just been listed")?.text;
    let mutant = match Mutant::parse(text) {
        Ok(mutant) => mutant,
        Err(what) => return fault(what),
    };
    let mutated = match mutant.apply(&tree) {
        Ok(mutated) => mutated,
        Err(what) => return fault(what),
    };
    let dir = workspace.target_dir.join("mutants");
    copy::sync(&mutated, &dir.join("tree"))?;
    let log = dir.join("log");
    let command = |subcommand: &str| {
        CommandLine::new(&format!("cargo {subcommand} --locked {}", mutant.test))
            .env("CARGO_TARGET_DIR", dir.join("target").display().to_string())
            .env("EVCORE_SIM_SEEDS", mutant.seeds.to_string())
    };
    if !command("test --no-run").run(&dir.join("tree"), &log)? {
        return fault(format!(
            "it does not compile:\n{}",
            fs::read_to_string(&log)?
        ));
    }
    let passed = command("test").run(&dir.join("tree"), &log)?;
    let output = fs::read_to_string(&log)?;
    if passed {
        return fault(format!("not found by `{}`", mutant.test));
    }
    if mutant.found_by.iter().any(|words| output.contains(words)) {
        return Ok(Vec::new());
    }
    fault(format!(
        "`{}` failed, but with none of the words {:?}:\n{output}",
        mutant.test, mutant.found_by
    ))
}
