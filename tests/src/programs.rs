//! The programs under test, built on demand in the profile of the test that runs them.

use std::{
    collections::BTreeMap,
    env,
    path::{Path, PathBuf},
    process::Command,
    sync::{Mutex, OnceLock, PoisonError},
};

/// The path of the program `httpd`.
///
/// # Panics
///
/// If it does not build.
#[must_use]
pub fn httpd() -> &'static Path {
    static PATH: OnceLock<PathBuf> = OnceLock::new();
    PATH.get_or_init(|| build("evcore-httpd", "--bin", "httpd"))
}

/// The path of the program `evcore-replay`.
///
/// # Panics
///
/// If it does not build.
#[must_use]
pub fn evcore_replay() -> &'static Path {
    static PATH: OnceLock<PathBuf> = OnceLock::new();
    PATH.get_or_init(|| build("evcore-httpd", "--bin", "evcore-replay"))
}

/// The path of the example `echo`.
///
/// # Panics
///
/// If it does not build.
#[must_use]
pub fn echo() -> &'static Path {
    static PATH: OnceLock<PathBuf> = OnceLock::new();
    PATH.get_or_init(|| example("evcore", "echo"))
}

/// The path of the example `prefork_echo`.
///
/// # Panics
///
/// If it does not build.
#[must_use]
pub fn prefork_echo() -> &'static Path {
    static PATH: OnceLock<PathBuf> = OnceLock::new();
    PATH.get_or_init(|| example("evcore-serve", "prefork_echo"))
}

/// The path of an example of any package.
///
/// # Panics
///
/// If it does not build.
#[must_use]
pub fn example(package: &str, name: &str) -> PathBuf {
    // Paths are kept, because cargo takes a fifth of a second to find that nothing has changed.
    static PATHS: Mutex<BTreeMap<(String, String), PathBuf>> = Mutex::new(BTreeMap::new());
    let mut paths = PATHS.lock().unwrap_or_else(PoisonError::into_inner);
    let path = paths.entry((package.to_owned(), name.to_owned()));
    path.or_insert_with(|| build(package, "--example", name))
        .clone()
}

/// Builds a program of a package. `kind` is `--bin` or `--example`.
fn build(package: &str, kind: &str, name: &str) -> PathBuf {
    let test = env::current_exe().expect("this program has a path");
    let profile = test
        .ancestors()
        .nth(2)
        .expect("cargo puts a test into PROFILE/deps");
    let target = profile
        .parent()
        .expect("PROFILE is in the target directory");
    let mut build = cargo();
    build
        // CI's tests have already built the program with the features of the whole workspace.
        .args([
            "build",
            "--quiet",
            "--workspace",
            kind,
            name,
            "--target-dir",
        ])
        .arg(target)
        .current_dir(env!("CARGO_MANIFEST_DIR"));
    if kind == "--bin" {
        // An example makes cargo use the features of dev-dependencies too, as CI's tests do.
        build.args(["--example", "echo"]);
    }
    if profile.ends_with("release") {
        build.arg("--release");
    }
    let built = build.status().expect("cargo runs");
    assert!(built.success(), "{name} of {package} does not build");
    match kind {
        "--example" => profile.join("examples").join(name),
        _ => profile.join(name),
    }
}

/// Cargo without the variables that describe the package of the test. With them, the build script
/// of ring would run again, and each test would build ring and the crates that depend on it.
fn cargo() -> Command {
    let mut cargo = Command::new(env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    for (name, _) in env::vars_os() {
        let text = name.to_string_lossy();
        if text.starts_with("CARGO_PKG_") || text.starts_with("CARGO_MANIFEST_") {
            cargo.env_remove(name);
        }
    }
    cargo
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cargo_gets_no_variable_about_the_package_of_the_test() {
        let cargo = cargo();
        let mut removed = cargo.get_envs().filter(|(_, value)| value.is_none());
        assert!(removed.any(|(name, _)| name == "CARGO_PKG_NAME"));
    }
}
