//! The command that repeats a failing seed, and the path of the HTML page that draws its run.

use std::{
    env,
    ffi::OsStr,
    path::{Path, PathBuf},
    thread,
};

use crate::shrink::Candidate;

/// The environment variable with the only seed to run.
pub(crate) const SEED: &str = "EVCORE_SIM_SEED";

/// The command that repeats the run of a candidate (a seed with a restriction of its run), as far
/// as a test program can derive it.
pub(crate) fn command(test: &str, candidate: &Candidate) -> String {
    // Cargo sets the variable to the package that is tested.
    let package = env::var("CARGO_PKG_NAME").ok();
    let program = env::current_exe().unwrap_or_default();
    let thread = thread::current().name().map(str::to_owned);
    let target = arguments(package.as_deref(), &program, test, thread.as_deref());
    let (seed, variables) = (candidate.seed, candidate.restriction.to_environment());
    format!("{SEED}={seed} {variables}cargo test{target}")
}

/// The path of a failing seed's HTML page, such as `target/debug/evcore-sim/TEST-SEED.html`.
pub(crate) fn page_file(test: &str, seed: u64) -> PathBuf {
    let program = env::current_exe().unwrap_or_default();
    let folder = program.parent().unwrap_or(Path::new(""));
    let folder = match cargo_folder(&program) {
        Some(deps) => deps.parent().unwrap_or(deps),
        None => folder,
    };
    folder
        .join("evcore-sim")
        .join(format!("{test}-{seed}.html"))
}

/// The folder `deps`, if cargo has built the program. The names of programs in it end with a hash.
fn cargo_folder(program: &Path) -> Option<&Path> {
    let is_cargo = |folder: &&Path| folder.file_name() == Some(OsStr::new("deps"));
    program.parent().filter(is_cargo)
}

/// The arguments of `cargo test` that select the package, the profile, the test program and the
/// test.
fn arguments(package: Option<&str>, program: &Path, test: &str, thread: Option<&str>) -> String {
    let mut arguments = package.map_or_else(String::new, |package| format!(" -p {package}"));
    let folder = cargo_folder(program);
    let profile = folder
        .and_then(Path::parent)
        .and_then(Path::file_name)
        .and_then(OsStr::to_str);
    match profile {
        None | Some("debug") => {}
        Some("release") => arguments += " --release",
        Some(profile) => arguments += &format!(" --profile {profile}"),
    }
    let stem = program.file_stem().and_then(OsStr::to_str);
    let name = stem.and_then(|stem| Some(stem.rsplit_once('-')?.0));
    if let (Some(_), Some(name)) = (folder, name) {
        let is_library = package.is_some_and(|package| package.replace('-', "_") == name);
        arguments += &match is_library {
            true => " --lib".to_owned(),
            false => format!(" --test {name}"),
        };
    }
    // The harness names the thread by the test's path, unless it runs all tests on one thread.
    let path = thread.filter(|path| *path == test || path.ends_with(&format!("::{test}")));
    match path {
        Some(path) => arguments + " -- --exact " + path,
        None => arguments + " " + test,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_command_names_package_program_profile_and_test() {
        let of = |program: &str, thread| {
            arguments(Some("evcore-tests"), Path::new(program), "it_works", thread)
        };
        assert_eq!(
            of(
                "/x/target/debug/deps/simulation-0a1b",
                Some("busy::it_works")
            ),
            " -p evcore-tests --test simulation -- --exact busy::it_works"
        );
        assert_eq!(
            of("/x/target/release/deps/simulation-0a1b", Some("main")),
            " -p evcore-tests --release --test simulation it_works"
        );
        assert_eq!(
            of("/x/target/nightly/deps/evcore_tests-0a1b", Some("it_works")),
            " -p evcore-tests --profile nightly --lib -- --exact it_works"
        );
        assert_eq!(of("/tmp/rust_out", None), " -p evcore-tests it_works");
        assert_eq!(
            arguments(None, Path::new(""), "it_works", None),
            " it_works"
        );
    }
}
