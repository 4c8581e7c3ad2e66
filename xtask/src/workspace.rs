//! The workspace as cargo reports it, and its files as git lists them.

use std::env;

use cargo_metadata::MetadataCommand;
pub(crate) use cargo_metadata::{Metadata as Workspace, Package};

use crate::Result;
use crate::command::printed;

/// Reads the workspace from cargo, and goes to its root, from which all paths are. Needs no network,
/// because only the members are listed.
///
/// # Errors
///
/// Cargo cannot read the workspace.
pub(crate) fn load() -> Result<Workspace> {
    let workspace = MetadataCommand::new().no_deps().exec()?;
    env::set_current_dir(&workspace.workspace_root)?;
    Ok(workspace)
}

/// The files that git does not ignore, in order; also those that nobody has added yet.
///
/// # Errors
///
/// Git is not installed.
pub(crate) fn files() -> Result<Vec<String>> {
    // A repository without a commit, since the workspace may be an archive and none.
    let git = "git --git-dir=target/xtask/git --work-tree=.";
    let list = format!("{git} ls-files --others --exclude-standard");
    let list = printed(&format!("{git} init"))
        .and_then(|_| printed(&list))
        .ok_or_else(|| format!("`{list}` failed"))?;
    let mut files: Vec<String> = list.lines().map(str::to_owned).collect();
    files.sort();
    Ok(files)
}

/// The names of the files between a directory and an extension, in order.
pub(crate) fn names_in(dir: &str, extension: &str) -> Result<Vec<String>> {
    let files = files()?.into_iter();
    let names = files.filter_map(|file| {
        let name = file.strip_prefix(dir)?.strip_suffix(extension)?;
        Some(name.to_owned())
    });
    Ok(names.collect())
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

/// A target directory of one task's own, from the root, inside the common one.
pub(crate) fn target_dir(workspace: &Workspace, task: &str) -> String {
    let dir = workspace.target_directory.join(task);
    let from_root = dir.strip_prefix(&workspace.workspace_root);
    from_root.unwrap_or(&dir).to_string()
}
