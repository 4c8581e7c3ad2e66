//! The workspace as cargo reports it, and its files as git lists them.

use std::{env, fs};

use cargo_metadata::MetadataCommand;
pub(crate) use cargo_metadata::{Metadata as Workspace, Package};

use crate::Result;
use crate::command::run_in;

/// Reads the workspace from cargo, and makes its root the working directory, to which all paths are
/// relative. This needs no network, because only the members are listed.
///
/// # Errors
///
/// Cargo cannot read the workspace.
pub(crate) fn load() -> Result<Workspace> {
    let workspace = MetadataCommand::new().no_deps().exec()?;
    env::set_current_dir(&workspace.workspace_root)?;
    Ok(workspace)
}

/// Arguments of `env` that run git with an empty repository, because the workspace may be an
/// unpacked archive. So git takes all files for untracked. `GIT_INDEX_FILE`, which git sets for
/// hooks, is removed.
const GIT: &str = "-u GIT_INDEX_FILE git --git-dir=target/xtask/git --work-tree=.";

/// The files that no `.gitignore` names, sorted by path.
///
/// # Errors
///
/// Git is not installed.
pub(crate) fn files() -> Result<Vec<String>> {
    if !fs::exists("target/xtask/git")? {
        fs::create_dir_all("target/xtask")?;
        run_quietly(&format!("{GIT} init"))?;
    }
    let list = "-c core.quotePath=false ls-files --others --exclude-per-directory=.gitignore";
    let list = run_quietly(&format!("{GIT} {list}"))?;
    // A repository within this one is listed as a directory.
    let files = list.lines().filter(|file| !file.ends_with('/'));
    let mut files: Vec<String> = files.map(str::to_owned).collect();
    files.sort();
    Ok(files)
}

fn run_quietly(line: &str) -> Result<String> {
    match run_in(".".as_ref(), line)? {
        (output, true) => Ok(output),
        (output, false) => Err(format!("`env {line}` failed:\n{output}").into()),
    }
}

/// The names of the files with this prefix and this extension, without both, sorted.
pub(crate) fn names_in(dir: &str, extension: &str) -> Result<Vec<String>> {
    let files = files()?.into_iter();
    let names = files.filter_map(|file| {
        let name = file.strip_prefix(dir)?.strip_suffix(extension)?;
        Some(name.to_owned())
    });
    Ok(names.collect())
}

pub(crate) fn published(workspace: &Workspace) -> impl Iterator<Item = &Package> {
    workspace
        .packages
        .iter()
        .filter(|package| is_published(package))
}

pub(crate) fn is_published(package: &Package) -> bool {
    package.publish.as_ref().is_none_or(|to| !to.is_empty())
}

pub(crate) fn has_default_features(package: &Package) -> bool {
    package.features.contains_key("default")
}

pub(crate) fn dir<'a>(package: &'a Package, workspace: &Workspace) -> &'a str {
    let dir = package.manifest_path.parent().expect("a file is in one");
    let dir = dir.strip_prefix(&workspace.workspace_root);
    dir.expect("members are under the root").as_str()
}

/// The target directory of one task, inside the common one, relative to the root.
pub(crate) fn target_dir(workspace: &Workspace, task: &str) -> String {
    let dir = workspace.target_directory.join(task);
    let from_root = dir.strip_prefix(&workspace.workspace_root);
    from_root.unwrap_or(&dir).to_string()
}

#[test]
fn files_are_listed_without_ignored_ones() {
    load().unwrap();
    let files = files().unwrap();
    assert!(files.contains(&"Cargo.toml".to_owned()));
    assert!(files.iter().all(|file| !file.starts_with("target/")));
}
