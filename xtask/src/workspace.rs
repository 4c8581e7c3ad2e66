//! The workspace as cargo reports it, and what the tasks read from that.

use cargo_metadata::MetadataCommand;
pub(crate) use cargo_metadata::{Metadata as Workspace, Package};

use crate::Result;

/// Reads the workspace from cargo. Needs no network, because only the members are listed.
///
/// # Errors
///
/// Cargo cannot read the workspace.
pub(crate) fn load() -> Result<Workspace> {
    Ok(MetadataCommand::new().no_deps().exec()?)
}

/// The members that may go to a registry.
pub(crate) fn published(workspace: &Workspace) -> impl Iterator<Item = &Package> {
    workspace.packages.iter().filter(|it| is_published(it))
}

pub(crate) fn is_published(package: &Package) -> bool {
    package.publish.as_ref().is_none_or(|to| !to.is_empty())
}

pub(crate) fn has_default_features(package: &Package) -> bool {
    package.features.contains_key("default")
}

/// The directory of a package from the root.
pub(crate) fn dir<'a>(package: &'a Package, workspace: &Workspace) -> &'a str {
    let dir = package.manifest_path.parent().expect("a file is in one");
    let dir = dir.strip_prefix(&workspace.workspace_root);
    dir.expect("members are under the root").as_str()
}

/// The minor version of Rust that all members need: the 85 of 1.85.
pub(crate) fn rust_minor(workspace: &Workspace) -> u64 {
    let first = workspace.packages.first();
    let version = first.and_then(|package| package.rust_version.as_ref());
    version.map_or(0, |version| version.minor)
}

/// A target directory of one task's own, from the root, inside the common one.
pub(crate) fn target_dir(workspace: &Workspace, task: &str) -> String {
    let dir = workspace.target_directory.join(task);
    let from_root = dir.strip_prefix(&workspace.workspace_root);
    from_root.unwrap_or(&dir).to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn this_workspace_is_read_as_its_manifests_say() {
        let workspace = load().unwrap();
        let package = |name: &str| {
            let mut packages = workspace.packages.iter();
            packages.find(|it| it.name == name).unwrap()
        };
        let [xtask, clock] = ["xtask", "evcore-clock"].map(package);
        assert_eq!(dir(clock, &workspace), "crates/evcore-clock");
        assert!(is_published(clock) && !is_published(xtask));
        assert!(has_default_features(clock) && !has_default_features(xtask));
        assert!(rust_minor(&workspace) >= 85);
        assert!(target_dir(&workspace, "loom").ends_with("/loom"));
    }
}
