//! The report of test programs: the number of tests that passed, and those that did not run.

use regex_lite::Regex;

use crate::Result;

#[derive(Debug, Default)]
pub(crate) struct TestReport {
    pub(crate) passed: usize,
    /// A line for each test that was ignored or could not run, with its reason.
    pub(crate) not_run: Vec<String>,
    /// The integration tests in which no test passed.
    empty: Vec<String>,
}

impl TestReport {
    /// Reads the lines of cargo, of the usual harness, and of `evcore_testing::not_run`.
    pub(crate) fn parse(output: &str) -> TestReport {
        let line = Regex::new(concat!(
            r"(?m)^ *(?:Running (.+?) \(|Doc-tests )",
            r"|^test result: .*?(\d+) passed",
            r"|^test (.+) \.\.\. (ignored.*)$",
            r"|not run: (.+)$",
        ));
        let line = line.expect("a pattern");
        let (mut report, mut program) = (TestReport::default(), "");
        for found in line.captures_iter(output) {
            let group = |number| found.get(number).map(|group| group.as_str());
            if let Some(passed) = group(2) {
                let passed = passed.parse().unwrap_or(0);
                report.passed += passed;
                if passed == 0 && !program.is_empty() && !program.starts_with("unittests ") {
                    report.empty.push(program.to_owned());
                }
            } else if let Some(reason) = group(4) {
                report.not_run.push(format!("{}: {reason}", &found[3]));
            } else if let Some(reason) = group(5) {
                report.not_run.push(reason.to_owned());
            } else {
                program = group(1).unwrap_or_default();
            }
        }
        report
    }

    /// Reads the output of a step. Programs without a test are listed if another program ran a
    /// test.
    ///
    /// # Errors
    ///
    /// If no test ran, or if a program that the line names ran none.
    pub(crate) fn of_step(name: &str, line: &str, output: &str) -> Result<TestReport> {
        let mut report = TestReport::parse(output);
        let is_test = line.contains("cargo test");
        if is_test && report.passed == 0 {
            return Err("no test ran".into());
        }
        let empty = report.empty.join(", ");
        if is_test && line.contains(" --test ") && !empty.is_empty() {
            return Err(format!("without a test: {empty}").into());
        }
        // Without the flag of `cargo xtask loom`, the programs of the loom models are empty.
        let empty = report
            .empty
            .iter()
            .filter(|program| !program.contains("loom_"));
        let empty = empty.map(|program| format!("{program}: no test in it, in the step `{name}`"));
        report.not_run.extend(empty);
        Ok(report)
    }
}

/// The part of an output that is about failed tests, with their names at its end; `None` if no test
/// failed.
pub(crate) fn failures(output: &str) -> Option<String> {
    let (mut shown, mut names) = (String::new(), String::new());
    let (mut program, mut failures) = ("", 0);
    for line in output.lines() {
        let is_head = line.starts_with("     Running ") || line.starts_with("   Doc-tests ");
        match line {
            _ if is_head => (program, failures) = (line, 0),
            "failures:" => {
                failures += 1;
                let once = if failures == 1 { program } else { "" };
                shown += &format!("{once}\n");
            }
            _ if line.starts_with("test result: ") => failures = 0,
            _ if failures == 2 => names += &format!("{line}\n"),
            _ if failures == 1 => shown += &format!("{line}\n"),
            _ => {}
        }
    }
    let alone = output
        .lines()
        .skip_while(|line| !line.starts_with("xtask: "));
    let alone = alone.collect::<Vec<_>>().join("\n");
    let names: Vec<&str> = names.lines().filter(|line| !line.is_empty()).collect();
    let count = names.len();
    (count > 0).then(|| format!("{shown}\n{count} failed:\n{}\n{alone}", names.join("\n")))
}

#[cfg(test)]
mod tests {
    use super::*;

    const OUTPUT: &str = "   Compiling a v0.1.0
     Running unittests src/lib.rs (target/debug/deps/a-1)
test result: ok. 0 passed; 0 failed; 0 ignored
     Running tests/b.rs (target/debug/deps/b-1)
test one ... ok
test two ... ignored, it is long
test three ... not run: three: strace is not installed
ok
test result: ok. 2 passed; 0 failed; 1 ignored
     Running tests/c.rs (target/debug/deps/c-1)
test result: ok. 0 passed; 0 failed; 0 ignored
     Running tests/loom_d.rs (target/debug/deps/loom_d-1)
test result: ok. 0 passed; 0 failed; 0 ignored
   Doc-tests a
test result: ok. 0 passed; 0 failed; 0 ignored
";

    #[test]
    fn results_of_all_programs_count_and_missing_tests_are_listed() {
        let report = TestReport::of_step("a step", "cargo test", OUTPUT).unwrap();
        let not_run = [
            "two: ignored, it is long",
            "three: strace is not installed",
            "tests/c.rs: no test in it, in the step `a step`",
        ];
        assert_eq!(
            (report.passed, &report.not_run[..]),
            (2, &not_run.map(str::to_owned)[..])
        );
    }

    #[test]
    fn a_step_without_a_test_fails() {
        let none = OUTPUT.replace("2 passed", "0 passed");
        let fails = |line, output| TestReport::of_step("a step", line, output).is_err();
        assert!(fails("cargo test", &none) && !fails("cargo build", &none));
        assert!(fails("cargo test --test b --test c", OUTPUT));
    }

    #[test]
    fn failures_are_shown_and_named_without_what_passed() {
        let output = "     Running tests/b.rs (target/debug/deps/b-1)
test one ... ok
test two ... FAILED

failures:

---- two stdout ----
it broke

failures:
    two

test result: FAILED. 1 passed; 1 failed
     Running tests/c.rs (target/debug/deps/c-1)
test three ... ok
test result: ok. 1 passed; 0 failed
xtask: tests failed; to run them alone:
    cargo test -p b --test b
";
        let expected = "     Running tests/b.rs (target/debug/deps/b-1)

---- two stdout ----
it broke



1 failed:
    two
xtask: tests failed; to run them alone:
    cargo test -p b --test b";
        assert_eq!(failures(output).as_deref(), Some(expected));
        assert_eq!(failures(OUTPUT), None);
    }
}
