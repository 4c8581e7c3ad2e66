//! The packages that a registry would get: archived, unpacked, and built from what the archives hold.
//!
//! Cargo's own verification goes by version: it keeps what it once unpacked of a crate, and builds
//! that again after the crate has changed. Here the unpacked packages are a workspace of their own,
//! in which each takes the place of the published crate of its name.

use std::fmt::Write;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::Result;
use crate::command::CommandLine;
use crate::schedule::Plan;
use crate::step::Step;
use crate::workspace::{Package, Workspace};

pub(crate) fn plan(workspace: &Workspace) -> Plan {
    let unpublished = workspace.packages.iter().filter(|p| !p.published);
    let exclude: String = unpublished
        .map(|p| format!(" --exclude {}", p.name))
        .collect();
    let archive = format!("cargo package --workspace --no-verify --allow-dirty{exclude}");
    let target_dir = workspace.own_target_dir("packages");
    let in_target_dir = |line: &str| CommandLine::new(line).env("CARGO_TARGET_DIR", &target_dir);
    let manifest = format!("{target_dir}/unpacked/Cargo.toml");
    // In one build: `check alone` finds a crate that depends on the features of another.
    let check = format!("cargo check --workspace --manifest-path {manifest}");
    Plan::of([
        Step::command("packages: archive", in_target_dir(&archive)),
        Step::check("packages: unpack", "packages", |workspace| {
            unpack(workspace).map(|()| Vec::new())
        })
        .in_dir(&target_dir),
        Step::command("packages: check", in_target_dir(&check)),
    ])
}

/// Unpacks the archives into a new directory, as the members of a workspace.
fn unpack(workspace: &Workspace) -> Result {
    let packages = workspace.target_dir.join("packages");
    let unpacked = packages.join("unpacked");
    if unpacked.exists() {
        fs::remove_dir_all(&unpacked)?;
    }
    fs::create_dir_all(&unpacked)?;
    for package in workspace.published() {
        let archive = format!("package/{}.crate", directory(package));
        extract(&packages.join(archive), &unpacked)?;
    }
    fs::write(unpacked.join("Cargo.toml"), manifest(workspace))?;
    // The other dependencies are those that the workspace is tested with.
    fs::copy(
        workspace.root.join("Cargo.lock"),
        unpacked.join("Cargo.lock"),
    )?;
    Ok(())
}

fn extract(archive: &PathBuf, into: &Path) -> Result {
    let mut tar = Command::new("tar");
    // Archives have the same old times always: with those of now, cargo builds what has changed.
    tar.arg("-xzmf").arg(archive).arg("-C").arg(into);
    let status = tar.status()?;
    if status.success() {
        return Ok(());
    }
    Err(format!("tar cannot unpack {}: {status}", archive.display()).into())
}

/// A workspace whose members replace the crates of the same names on crates.io.
fn manifest(workspace: &Workspace) -> String {
    let mut text =
        "[workspace]\nresolver = \"3\"\nmembers = [\"*\"]\n[patch.crates-io]\n".to_owned();
    for package in workspace.published() {
        let dir = directory(package);
        writeln!(text, "{} = {{ path = {dir:?} }}", package.name).expect("a string takes all");
    }
    text
}

/// The directory that a package's archive holds.
fn directory(package: &Package) -> String {
    format!("{}-{}", package.name, package.version)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_published_package_replaces_the_registrys() {
        let private = Package {
            published: false,
            ..Package::fake("xtask")
        };
        let workspace = Workspace::fake(vec![Package::fake("evcore-token"), private]);
        let manifest = manifest(&workspace);
        let patch = "[patch.crates-io]\nevcore-token = { path = \"evcore-token-0.1.0\" }\n";
        assert!(manifest.ends_with(patch), "{manifest}");
    }
}
