//! What test programs print: how many tests passed, and which did not run.

/// The tests of a step, read from its output.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct TestReport {
    pub(crate) passed: usize,
    /// A line for each test that was ignored or could not run, with its reason.
    pub(crate) not_run: Vec<String>,
    /// The integration tests in which no test passed.
    pub(crate) empty: Vec<String>,
}

/// What precedes a test that could not run, and its reason.
const NOT_RUN: &str = "not run: ";

impl TestReport {
    /// Reads the lines of cargo, of the usual harness, and of `evcore_testing::not_run`.
    pub(crate) fn parse(output: &str) -> TestReport {
        let (mut report, mut program) = (TestReport::default(), "");
        for line in output.lines() {
            if let Some(started) = line.trim_start().strip_prefix("Running ") {
                program = started.split(" (").next().unwrap_or_default();
            } else if line.trim_start().starts_with("Doc-tests ") {
                program = "";
            } else if let Some(result) = line.strip_prefix("test result: ") {
                let passed = passed(result);
                report.passed += passed;
                if passed == 0 && !program.is_empty() && !program.starts_with("unittests ") {
                    report.empty.push(program.to_owned());
                }
            } else if let Some(line) = ignored(line) {
                report.not_run.push(line);
            } else if let Some(at) = line.find(NOT_RUN) {
                report.not_run.push(line[at + NOT_RUN.len()..].to_owned());
            }
        }
        report
    }

    pub(crate) fn add(&mut self, other: TestReport) {
        self.passed += other.passed;
        self.not_run.extend(other.not_run);
    }
}

/// The 7 of `ok. 7 passed; 0 failed; ...`.
fn passed(result: &str) -> usize {
    let number = result.split(" passed").next().unwrap_or_default();
    let number = number.rsplit(' ').next().unwrap_or_default();
    number.parse().unwrap_or(0)
}

/// `NAME: ignored, REASON`, if this is the line of an ignored test.
fn ignored(line: &str) -> Option<String> {
    let (name, result) = line.strip_prefix("test ")?.split_once(" ... ")?;
    let is_ignored = result.starts_with("ignored");
    is_ignored.then(|| format!("{name}: {result}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_results_of_all_programs_count() {
        let report = TestReport::parse(
            "   Compiling a v0.1.0\n     Running unittests src/lib.rs (target/debug/deps/a-1)\n\n\
             running 0 tests\n\ntest result: ok. 0 passed; 0 failed; 0 ignored; 0 measured\n\n\
             \x20    Running tests/b.rs (target/debug/deps/b-1)\n\nrunning 3 tests\n\
             test one ... ok\ntest two ... ignored, it is long\n\
             test three ... not run: three: strace is not installed\nok\n\n\
             test result: ok. 2 passed; 0 failed; 1 ignored; 0 measured; 0 filtered out\n\
             \x20    Running tests/c.rs (target/debug/deps/c-1)\n\nrunning 0 tests\n\n\
             test result: ok. 0 passed; 0 failed; 0 ignored; 0 measured; 0 filtered out\n\
             \x20  Doc-tests a\n\nrunning 0 tests\n\ntest result: ok. 0 passed; 0 failed\n",
        );
        let not_run = ["two: ignored, it is long", "three: strace is not installed"];
        let expected = TestReport {
            passed: 2,
            not_run: not_run.map(str::to_owned).into(),
            empty: vec!["tests/c.rs".to_owned()],
        };
        assert_eq!(report, expected);
    }
}
