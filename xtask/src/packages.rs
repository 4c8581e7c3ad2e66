//! The packages that a registry would get: archived, unpacked, and built from the archives.
//!
//! Cargo's own verification identifies a crate by its version. If a crate has changed without a new
//! version, cargo builds the copy that it unpacked before.

use std::fs;

use crate::Result;
use crate::command::run_attended;
use crate::workspace::{Workspace, published, target_dir};

pub(crate) fn check(workspace: &Workspace) -> Result {
    let dir = target_dir(workspace, "packages");
    let unpacked = format!("{dir}/unpacked");
    if fs::exists(&unpacked)? {
        fs::remove_dir_all(&unpacked)?;
    }
    fs::create_dir_all(&unpacked)?;
    let all: String = published(workspace)
        .map(|package| format!(" -p {}", package.name))
        .collect();
    let cargo = format!("CARGO_TARGET_DIR={dir} cargo");
    run_attended(&format!("{cargo} package --no-verify --allow-dirty{all}"))?;
    // Each package replaces the crate of its name on crates.io.
    let mut manifest = "[workspace]\nresolver = \"3\"\nmembers = [\"*\"]\n\n".to_owned();
    manifest += "[patch.crates-io]\n";
    for package in published(workspace) {
        let name = format!("{}-{}", package.name, package.version);
        // Files in archives have an old time. The present time makes cargo build what has changed.
        run_attended(&format!(
            "tar -xzmf {dir}/package/{name}.crate -C {unpacked}"
        ))?;
        manifest += &format!("{} = {{ path = \"{name}\" }}\n", package.name);
    }
    fs::write(format!("{unpacked}/Cargo.toml"), manifest)?;
    // The other dependencies have the versions with which the workspace is tested.
    fs::copy("Cargo.lock", format!("{unpacked}/Cargo.lock"))?;
    // One build is enough, because the steps `check alone` find a crate that needs another's
    // features.
    run_attended(&format!(
        "{cargo} check --workspace --manifest-path {unpacked}/Cargo.toml"
    ))
}
