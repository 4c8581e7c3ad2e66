//! All tests of the workspace, from one build.
//!
//! `cargo test` runs one program after the other. Most of them wait for processes, timers and
//! sockets, so here several run at a time. The documentation's tests are one more command.

use std::collections::VecDeque;
use std::fs;
use std::iter;
use std::sync::{Mutex, PoisonError};
use std::thread;

use cargo_metadata::{Artifact, Message, TargetKind};

use crate::Result;
use crate::command::{THIS, run_in, run_logged};

const AT_ONCE: usize = 4;

const BUILD: &str = "cargo test --workspace --no-run --message-format json";

const DOC_TESTS: &str = "cargo test --workspace --no-fail-fast --doc";

/// Variables with which a build also reports clippy's lints. They suffice, because `clippy-driver`
/// compiles, too. `cargo clippy` would analyze everything once more, with all dependencies. Without
/// incremental compilation, the first build takes a quarter less time. With one codegen unit for
/// each crate, it takes another 4 % less.
const LINTED: &str = "RUSTC_WORKSPACE_WRAPPER=clippy-driver CARGO_INCREMENTAL=0 \
     CARGO_PROFILE_DEV_CODEGEN_UNITS=1 ";

#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Share {
    /// A quarter of the random cases and seeds, and no load of many seconds. The build also reports
    /// clippy's lints.
    Some,
    All,
}

impl Share {
    /// Variables for the tests.
    fn settings(self) -> &'static str {
        match self {
            Share::Some => "PROPTEST_CASES=32 EVCORE_SIM_SEEDS=100 RUST_TEST_THREADS=4",
            Share::All => "PROPTEST_CASES=128 RUST_TEST_THREADS=4",
        }
    }

    /// Variables for the builds, and for the builds that the tests make.
    fn compiler(self) -> &'static str {
        match self {
            Share::Some => LINTED,
            Share::All => "",
        }
    }

    fn has(self, program: &Program) -> bool {
        self == Share::All || !program.alone.ends_with("--test soak")
    }
}

struct Program {
    head: String,
    dir: String,
    line: String,
    alone: String,
}

/// Builds and runs the tests. Prints their output in the form of `cargo test --workspace
/// --no-fail-fast`.
///
/// # Errors
///
/// If the build or a test fails.
pub(crate) fn run(share: Share) -> Result {
    let mut programs = programs(&build(share)?, share);
    programs.retain(|program| share.has(program));
    let programs = Mutex::new(programs);
    let failed = Mutex::new(Vec::new());
    thread::scope(|scope| {
        for _ in 0..AT_ONCE {
            scope.spawn(|| {
                while let Some(program) = locked(&programs, VecDeque::pop_front) {
                    if !program.run() {
                        locked(&failed, |failed| failed.push(program.alone));
                    }
                }
            });
        }
    });
    match locked(&failed, |failed| failed.join("\n    ")) {
        none if none.is_empty() => Ok(()),
        lines => Err(format!("tests failed; to run them alone:\n    {lines}").into()),
    }
}

fn locked<T, R>(mutex: &Mutex<T>, work: impl FnOnce(&mut T) -> R) -> R {
    work(&mut mutex.lock().unwrap_or_else(PoisonError::into_inner))
}

/// Builds all tests. If the build fails or warns, prints the compiler's output.
///
/// # Errors
///
/// If the build fails or warns.
fn build(share: Share) -> Result<Vec<Artifact>> {
    let line = format!("{}{BUILD}", share.compiler());
    let (messages, succeeded) = run_in(".".as_ref(), &line)?;
    artifacts(&messages, succeeded).map_err(|printed| {
        println!("{printed}");
        format!("`{line}` failed or warned").into()
    })
}

/// Reads cargo's messages, and returns the artifacts of the build. If the build has failed or
/// warned, the error is the compiler's output, or the output of cargo if the compiler has printed
/// nothing.
fn artifacts(messages: &str, succeeded: bool) -> std::result::Result<Vec<Artifact>, String> {
    let (mut artifacts, mut rendered, mut text) = (Vec::new(), String::new(), String::new());
    for message in Message::parse_stream(messages.as_bytes()) {
        match message.map_err(|error| error.to_string())? {
            Message::CompilerArtifact(artifact) => artifacts.push(artifact),
            Message::CompilerMessage(message) => {
                rendered.extend(message.message.rendered);
            }
            Message::TextLine(line) => text.extend([&line, "\n"]),
            _ => {}
        }
    }
    match (rendered.is_empty(), succeeded) {
        (true, true) => Ok(artifacts),
        (true, false) => Err(text),
        (false, _) => Err(rendered),
    }
}

/// The tests of the documentation come first, and then the programs that wait for many processes,
/// because these take longest.
fn programs(artifacts: &[Artifact], share: Share) -> VecDeque<Program> {
    let doc_tests = Program {
        head: "   Doc-tests all".to_owned(),
        dir: ".".to_owned(),
        line: format!("{}{DOC_TESTS}", share.compiler()),
        alone: "cargo test --workspace --doc".to_owned(),
    };
    let built = artifacts
        .iter()
        .filter_map(|artifact| Program::of(artifact, share));
    let (waiting, others): (Vec<_>, Vec<_>) = built.partition(Program::waits);
    iter::once(doc_tests).chain(waiting).chain(others).collect()
}

impl Program {
    /// Returns `None` if the artifact has no tests.
    fn of(artifact: &Artifact, share: Share) -> Option<Program> {
        let path = artifact
            .executable
            .as_ref()
            .filter(|_| artifact.profile.test)?;
        let (target, dir) = (&artifact.target, artifact.manifest_path.parent()?);
        let package = artifact.package_id.repr.rsplit(['/', '#', '@']);
        let package = package
            .into_iter()
            .find(|name| name.starts_with("evcore") || *name == "xtask")?;
        let file = target
            .src_path
            .strip_prefix(dir)
            .unwrap_or(&target.src_path);
        let (kind, selects) = match target.kind.first()? {
            TargetKind::Test => ("", format!("--test {}", target.name)),
            TargetKind::Bin => ("unittests ", format!("--bin {}", target.name)),
            TargetKind::Example => ("unittests ", format!("--example {}", target.name)),
            _ => ("unittests ", "--lib".to_owned()),
        };
        let (compiler, settings) = (share.compiler(), share.settings());
        Some(Program {
            head: format!("     Running {kind}{file} ({path})"),
            dir: dir.to_string(),
            line: format!(
                "{compiler}CARGO_MANIFEST_DIR={dir} CARGO_PKG_NAME={package} {settings} {path}"
            ),
            alone: format!("cargo test -p {package} {selects}"),
        })
    }

    fn waits(&self) -> bool {
        self.dir.ends_with("/tests") || self.alone.ends_with("--test processes")
    }

    fn run_logged(&self) -> Result<(String, bool)> {
        let logs = THIS.with_file_name("xtask-tests");
        fs::create_dir_all(&logs)?;
        let log = logs.join(format!("{}.log", self.alone.replace([' ', '/'], "-")));
        run_logged(self.dir.as_ref(), &self.line, &log)
    }

    fn run(&self) -> bool {
        let (output, passed) = self
            .run_logged()
            .unwrap_or_else(|error| (error.to_string(), false));
        println!("{}\n{}", self.head, output.trim_end());
        passed
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_build_that_fails_or_warns_is_an_error_with_what_was_printed() {
        assert_eq!(artifacts("   Compiling evcore\n", true).unwrap().len(), 0);
        let failed = artifacts("error: no such package\n", false);
        assert_eq!(failed.unwrap_err(), "error: no such package\n");
        let warning = r#"{"reason":"compiler-message","package_id":"a","target":{"kind":["lib"],
            "name":"a","src_path":"a","crate_types":["lib"]},"message":{"message":"unused","code":null,
            "level":"warning","spans":[],"children":[],"rendered":"warning: unused"}}"#;
        let warned = artifacts(
            &format!("   Compiling a\n{}", warning.replace('\n', "")),
            true,
        );
        assert_eq!(warned.unwrap_err(), "warning: unused");
    }
}
