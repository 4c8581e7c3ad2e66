//! The examples as programs, built if they have to be, as the test that asks was.

use std::{
    path::{Path, PathBuf},
    process::Command,
    sync::OnceLock,
};

/// The path of the example server.
///
/// # Panics
///
/// Where it cannot be built.
#[must_use]
pub fn httpd() -> &'static Path {
    static PATH: OnceLock<PathBuf> = OnceLock::new();
    PATH.get_or_init(|| build("httpd"))
}

/// The path of the example `echo`.
///
/// # Panics
///
/// Where it cannot be built.
#[must_use]
pub fn echo() -> &'static Path {
    static PATH: OnceLock<PathBuf> = OnceLock::new();
    PATH.get_or_init(|| build("echo"))
}

fn build(example: &str) -> PathBuf {
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
        .args(["build", "--quiet", "--package", "evcore"])
        .args(["--example", example, "--target-dir"])
        .arg(target)
        .current_dir(env!("CARGO_MANIFEST_DIR"));
    if profile.ends_with("release") {
        build.arg("--release");
    }
    let built = build.status().expect("cargo runs");
    assert!(built.success(), "{example} does not build");
    profile.join("examples").join(example)
}
