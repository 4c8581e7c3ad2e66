//! The programs under test, built on demand in the profile of the test that runs them.

use std::{
    path::{Path, PathBuf},
    process::Command,
    sync::OnceLock,
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
    PATH.get_or_init(|| example("evcore-prefork", "prefork_echo"))
}

/// The path of an example of any package. It asks cargo in each call whether it has to be built.
///
/// # Panics
///
/// If it does not build.
#[must_use]
pub fn example(package: &str, name: &str) -> PathBuf {
    build(package, "--example", name)
}

/// Builds a program of a package. `kind` is `--bin` or `--example`.
fn build(package: &str, kind: &str, name: &str) -> PathBuf {
    let test = std::env::current_exe().expect("this program has a path");
    // The path of a test is target/PROFILE/deps/TEST.
    let profile = test
        .ancestors()
        .nth(2)
        .expect("cargo puts a test into PROFILE/deps");
    let target = profile
        .parent()
        .expect("PROFILE is in the target directory");
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let mut build = Command::new(cargo);
    build
        // With the features of the whole workspace, for which the tests of CI have built it already.
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
        // With an example cargo takes the features of dev-dependencies too, as it does for tests.
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
