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
/// Where it cannot be built.
#[must_use]
pub fn httpd() -> &'static Path {
    static PATH: OnceLock<PathBuf> = OnceLock::new();
    PATH.get_or_init(|| build("evcore-httpd", "--bin", "httpd"))
}

/// The path of the example `echo`.
///
/// # Panics
///
/// Where it cannot be built.
#[must_use]
pub fn echo() -> &'static Path {
    static PATH: OnceLock<PathBuf> = OnceLock::new();
    PATH.get_or_init(|| build("evcore", "--example", "echo"))
}

/// The path of the example `prefork_echo`.
///
/// # Panics
///
/// Where it cannot be built.
#[must_use]
pub fn prefork_echo() -> &'static Path {
    static PATH: OnceLock<PathBuf> = OnceLock::new();
    PATH.get_or_init(|| build("evcore-prefork", "--example", "prefork_echo"))
}

/// Builds a program of a package; `kind` is `--bin` or `--example`.
fn build(package: &str, kind: &str, name: &str) -> PathBuf {
    let test = std::env::current_exe().expect("this program has a path");
    // target/PROFILE/deps/TEST
    let profile = test
        .ancestors()
        .nth(2)
        .expect("cargo puts tests three levels down");
    let target = profile
        .parent()
        .expect("and its profiles below the target directory");
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let mut build = Command::new(cargo);
    build
        .args(["build", "--quiet", "--package", package])
        .args([kind, name, "--target-dir"])
        .arg(target)
        .current_dir(env!("CARGO_MANIFEST_DIR"));
    if profile.ends_with("release") {
        build.arg("--release");
    }
    let built = build.status().expect("cargo runs");
    assert!(built.success(), "{name} does not build");
    match kind {
        "--example" => profile.join("examples").join(name),
        _ => profile.join(name),
    }
}
