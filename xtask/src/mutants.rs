//! Mutants: bugs planted on purpose, each of which a named test must find.
//!
//! A mutant is a patch under `tests/mutants`, as `git diff -U1` writes it. The lines before the
//! diff describe the bug, and how it is found:
//!
//! ```text
//! A sentence that describes the bug.
//!
//! test = the arguments of `cargo test` that select the test which must fail
//! found by = words of the failure
//! ```
//!
//! If there are several lines `found by`, one of them must match. If there is none, the test must
//! pass, because the patch plants no bug.
//!
//! The patch is applied to a copy of the tree, so the shipped source has no trace of a mutant. A
//! patch that does not apply is an error.

use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};

use crate::Result;
use crate::command::run_in;
use crate::plan::Plan;
use crate::test_report::TestReport;
use crate::workspace::{Workspace, files, names_in};

const DIR: &str = "tests/mutants";

/// The mutants that `cargo xtask test --ci` leaves to `cargo xtask nightly`, because they take
/// long.
const SLOW: [&str; 1] = ["fail_points"];

/// A step for each mutant whose name contains `part`.
pub(crate) fn plan(part: &str) -> Result<Plan> {
    let mut mutants = Vec::new();
    for name in names_in(&format!("{DIR}/"), ".patch")? {
        // Ordered by the patched files, so that few crates are built again.
        let text = fs::read_to_string(patch(&name))?;
        let patched = text.lines().find_map(|line| line.strip_prefix("+++ b/"));
        mutants.push((patched.map(str::to_owned), name));
    }
    mutants.sort();
    let names = mutants.iter().map(|(_, name)| name.as_str());
    let plan = names
        .filter(|name| name.contains(part))
        .fold(Plan::default(), with_mutant);
    match plan.steps.is_empty() {
        false => Ok(plan),
        true => Err(format!("no mutant in {DIR} has {part:?} in its name").into()),
    }
}

/// Shell script that makes the build directory of the mutants, if it does not exist yet. It copies
/// the builds of dependencies, which no patch touches, from the target directory `$0`.
///
/// Libraries are hard links, because the compiler replaces them; cargo's own files are copies,
/// because it writes into them. Our crates are left out, because cargo would take them for the
/// crates of the copied tree.
const REUSE: &str = r#"
cd "$0" && [ -d debug/deps ] && [ ! -e mutants/target ] || exit 0
rm -rf mutants/new && mkdir -p mutants/new/debug/deps
cp -a debug/build debug/.fingerprint mutants/new/debug
cp -al debug/deps/lib* mutants/new/debug/deps
find mutants/new/debug -maxdepth 2 -name '*evcore*' -exec rm -r {} +
mv mutants/new mutants/target
"#;

pub(crate) fn all_but_slow() -> Result<Plan> {
    let mut plan = plan("")?;
    plan.steps
        .retain(|step| !SLOW.iter().any(|slow| step.name.ends_with(slow)));
    Ok(plan)
}

pub(crate) fn slow() -> Plan {
    SLOW.into_iter().fold(Plan::default(), with_mutant)
}

fn with_mutant(plan: Plan, name: &str) -> Plan {
    let line = format!("cargo xtask mutants {name}");
    plan.command(format!("mutant: {name}"), line)
}

pub(crate) fn patch(name: &str) -> String {
    format!("{DIR}/{name}.patch")
}

pub(crate) fn check(workspace: &Workspace, name: &str) -> Result {
    let patch = patch(name);
    let text = fs::read_to_string(&patch)?;
    let (test, found_by) = head(&text)?;
    let copy = workspace.target_directory.join("mutants/tree");
    copy_to(copy.as_std_path())?;
    let script = ["-c", REUSE, workspace.target_directory.as_str()];
    // A failure only costs time. A file may vanish when another step builds it again.
    Command::new("sh")
        .args(script)
        .stderr(Stdio::null())
        .status()?;
    let run = |line: &str| run_in(copy.as_std_path(), line);
    // The line sets `GIT_DIR=none`, because git would otherwise leave out files that the repository
    // around the copy ignores.
    let (output, applies) = run(&format!("GIT_DIR=none git apply {patch}"))?;
    if !applies {
        return Err(format!("{patch} does not apply:\n{output}").into());
    }
    // In the common directory, cargo would take the crates of the copy for the crates of the root.
    // The build is incremental, because each mutant is a small edit.
    let (output, passed) = run(&format!(
        "CARGO_TARGET_DIR=../target CARGO_INCREMENTAL=1 EVCORE_SIM_SEEDS=100 \
         EVCORE_SIM_SHRINK=0 cargo test --locked {test}"
    ))?;
    if output.contains("error: could not compile") {
        return Err(format!("{patch} does not compile:\n{output}").into());
    }
    verdict(&output, passed, &found_by).map_err(|what| format!("{patch}: `{test}` {what}").into())
}

/// Makes `dir` a copy of the tree. Equal files are not written, so that cargo builds only the
/// crates that a patch changes.
fn copy_to(dir: &Path) -> Result {
    fs::create_dir_all(dir)?;
    let files = files()?;
    for file in &files {
        let (text, copy) = (fs::read(file)?, dir.join(file));
        if !fs::read(&copy).is_ok_and(|bytes| bytes == text) {
            fs::create_dir_all(copy.parent().unwrap_or(dir))?;
            fs::write(copy, text)?;
        }
    }
    let (copied, _) = run_in(dir, "find . -type f")?;
    let copied = copied.lines().filter_map(|line| line.strip_prefix("./"));
    for gone in copied.filter(|path| !files.iter().any(|file| file == path)) {
        fs::remove_file(dir.join(gone))?;
    }
    Ok(())
}

fn head(patch: &str) -> Result<(&str, Vec<&str>)> {
    let head = patch.split("\ndiff ").next().unwrap_or_default();
    let values = |key| head.lines().filter_map(move |line| line.strip_prefix(key));
    let test = values("test = ")
        .next()
        .ok_or("a mutant needs a line `test = ...`")?;
    Ok((test, values("found by = ").collect()))
}

/// Checks the test's result. The error describes what is wrong with it.
fn verdict(output: &str, passed: bool, found_by: &[&str]) -> std::result::Result<(), String> {
    let is_found = found_by.iter().any(|words| output.contains(words));
    match (passed, found_by.is_empty()) {
        (true, _) if TestReport::parse(output).passed == 0 => Err("matches no test".to_owned()),
        (true, false) => Err("does not find it".to_owned()),
        (false, _) if !is_found => Err(format!(
            "failed, but with none of the words {found_by:?}:\n{output}"
        )),
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_lines_before_a_patch_select_its_test() {
        let patch = "A bug.\n\ntest = -p a --test b\nfound by = early\nfound by = too soon\n\n\
                     diff --git a/x b/x\n--- a/x\n+++ b/x\n@@ -1 +1 @@\n-test = no\n+found by = no\n";
        let (test, found_by) = head(patch).unwrap();
        assert_eq!(
            (test, found_by),
            ("-p a --test b", vec!["early", "too soon"])
        );
        assert!(head("tests = a\n").is_err());
    }

    #[test]
    fn a_mutant_is_found_only_by_the_words_of_its_failure() {
        let ok = "test result: ok. 1 passed; 0 failed";
        let none = "test result: ok. 0 passed; 0 failed";
        let failed = "it was early\ntest result: FAILED. 0 passed; 1 failed";
        for (output, passed, found_by, is_right) in [
            (failed, false, &["late", "early"][..], true),
            (failed, false, &["late"], false),
            (failed, false, &[], false),
            (ok, true, &["early"], false),
            (ok, true, &[], true),
            (none, true, &[], false),
        ] {
            let verdict = verdict(output, passed, found_by);
            assert_eq!(verdict.is_ok(), is_right, "{verdict:?}");
        }
    }
}
