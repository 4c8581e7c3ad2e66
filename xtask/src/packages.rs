//! The packages that a registry would get: archived, unpacked, and built from what the archives hold.
//!
//! Cargo's own verification goes by version: it keeps what it once unpacked of a crate, and builds
//! that again after the crate has changed. Here the unpacked packages are a workspace of their own,
//! in which each takes the place of the published crate of its name.

use std::fs;

use crate::Result;
use crate::command::run_attended;
use crate::schedule::Plan;
use crate::workspace::{self, Workspace, published};

pub(crate) fn plan(workspace: &Workspace) -> Plan {
    let dir = workspace::target_dir(workspace, "packages");
    let packages = workspace.packages.iter();
    let private = packages.filter(|it| !workspace::is_published(it));
    let exclude: String = private
        .map(|it| format!(" --exclude {}", it.name))
        .collect();
    let archive = format!("package --workspace --no-verify --allow-dirty{exclude}");
    // In one build: `check alone` finds a crate that depends on the features of another.
    let check = format!("check --workspace --manifest-path {dir}/unpacked/Cargo.toml");
    let [archive, check] = [archive, check].map(|it| format!("CARGO_TARGET_DIR={dir} cargo {it}"));
    Plan::default()
        .command("packages: archive", archive)
        .check("packages: unpack", "packages", unpack)
        .command("packages: check", check)
}

/// Unpacks the archives into a new directory, as the members of a workspace.
fn unpack(workspace: &Workspace) -> Result {
    let unpacked = workspace.target_directory.join("packages/unpacked");
    if unpacked.exists() {
        fs::remove_dir_all(&unpacked)?;
    }
    fs::create_dir_all(&unpacked)?;
    for package in published(workspace) {
        // Archives have the same old times always: with those of now, cargo builds what has changed.
        let archive = format!("../package/{}-{}.crate", package.name, package.version);
        run_attended(&format!("tar -xzmf {archive}"), unpacked.as_std_path())?;
    }
    fs::write(unpacked.join("Cargo.toml"), manifest(workspace))?;
    // The other dependencies are those that the workspace is tested with.
    let lock = workspace.workspace_root.join("Cargo.lock");
    fs::copy(lock, unpacked.join("Cargo.lock"))?;
    Ok(())
}

/// A workspace whose members replace the crates of the same names on crates.io.
fn manifest(workspace: &Workspace) -> String {
    let patches = published(workspace)
        .map(|it| format!("{0} = {{ path = \"{0}-{1}\" }}\n", it.name, it.version));
    let patches: String = patches.collect();
    format!("[workspace]\nresolver = \"3\"\nmembers = [\"*\"]\n[patch.crates-io]\n{patches}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_published_package_replaces_the_registrys() {
        let manifest = manifest(&workspace::load().unwrap());
        let patch = "\nevcore-token = { path = \"evcore-token-0.1.0\" }\n";
        assert!(manifest.contains(patch), "{manifest}");
        assert!(!manifest.contains("xtask"), "{manifest}");
    }
}
