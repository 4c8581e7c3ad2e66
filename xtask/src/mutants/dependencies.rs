//! The dependencies in the build directory of the mutants.

use std::fs;
use std::io;
use std::path::Path;

use crate::workspace::Workspace;

/// Copies into a new build directory what `cargo test` has built of other people's crates, which no
/// patch touches. Without that they are built again.
pub(super) fn copy(workspace: &Workspace, tree: &Path) -> io::Result<()> {
    let from = workspace.target_directory.join("debug");
    let to = tree.with_file_name("target").join("debug");
    if to.exists() || !from.exists() {
        return Ok(());
    }
    // Crates of the copy have the same names, and must not be taken for those of the root.
    let is_own = |name: &str| {
        let name = name.trim_start_matches("lib").replace('_', "-");
        let mut packages = workspace.packages.iter();
        packages.any(|it| name.starts_with(it.name.as_str()))
    };
    for part in ["build", "deps", ".fingerprint"] {
        for entry in fs::read_dir(from.join(part))? {
            let entry = entry?;
            let name = entry.file_name().to_string_lossy().into_owned();
            // Of files, libraries only: programs are our tests.
            if !is_own(&name) && (part != "deps" || name.starts_with("lib")) {
                copy_all(&entry.path(), &to.join(part).join(name))?;
            }
        }
    }
    Ok(())
}

/// Copies a file, or all files of a directory. They keep their times, by which cargo compares them.
fn copy_all(from: &Path, to: &Path) -> io::Result<()> {
    if from.is_dir() {
        for entry in fs::read_dir(from)? {
            let entry = entry?;
            copy_all(&entry.path(), &to.join(entry.file_name()))?;
        }
        return Ok(());
    }
    fs::create_dir_all(to.parent().unwrap_or(to))?;
    // Cargo writes into its own files. The compiler makes new ones, so a link to a library will do.
    let is_library = from.parent().is_some_and(|dir| dir.ends_with("debug/deps"));
    let copied = match is_library {
        true => fs::hard_link(from, to),
        false => Err(io::ErrorKind::Unsupported.into()),
    };
    let copied = copied.or_else(|_| {
        fs::copy(from, to)?;
        let times = fs::metadata(from)?.modified()?;
        fs::File::open(to)?.set_modified(times)
    });
    match copied {
        // Another step builds it again just now, and so must this one.
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        result => result,
    }
}
