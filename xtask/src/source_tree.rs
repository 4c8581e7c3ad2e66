//! The files of the repository, as text.
//!
//! Read from the directory and not from git, so that a file is checked before it is committed. What
//! git ignores (build output) is left out by name.

use std::fs;
use std::io;
use std::path::Path;

/// A file: its path from the root, with `/`, and its text, which is empty if it is none.
#[derive(Clone, Debug)]
pub(crate) struct File {
    pub(crate) path: String,
    pub(crate) text: String,
}

/// All files, in the order of their paths.
#[derive(Clone, Debug, Default)]
pub(crate) struct Tree {
    pub(crate) files: Vec<File>,
}

impl File {
    /// The lines, counted from 1.
    pub(crate) fn lines(&self) -> impl Iterator<Item = (usize, &str)> {
        // `split`, not `lines`: a carriage return is white space at the end.
        (1..).zip(self.text.split('\n'))
    }

    pub(crate) fn is_rust(&self) -> bool {
        self.path.ends_with(".rs")
    }

    pub(crate) fn is_markdown(&self) -> bool {
        self.path.ends_with(".md")
    }
}

impl Tree {
    /// Reads everything under `root`.
    ///
    /// # Errors
    ///
    /// A directory or a file that cannot be read.
    pub(crate) fn read(root: impl AsRef<Path>) -> io::Result<Tree> {
        let mut tree = Tree::default();
        tree.read_dir(root.as_ref(), "")?;
        tree.files.sort_by(|a, b| a.path.cmp(&b.path));
        Ok(tree)
    }

    /// The text of the file at `path`; empty if there is none, so that whatever it must have is
    /// missing.
    pub(crate) fn text(&self, path: &str) -> &str {
        let file = self.files.iter().find(|file| file.path == path);
        file.map_or("", |file| &file.text)
    }

    /// Whether `path` is a file or a directory here. The root is `""`.
    pub(crate) fn contains(&self, path: &str) -> bool {
        let has = |file: &File| {
            let rest = file.path.strip_prefix(path);
            rest.is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
        };
        path.is_empty() || self.files.iter().any(has)
    }

    fn read_dir(&mut self, dir: &Path, prefix: &str) -> io::Result<()> {
        for entry in fs::read_dir(dir)? {
            let entry = entry?;
            let name = entry.file_name().to_string_lossy().into_owned();
            let path = format!("{prefix}{name}");
            if is_output(&name) {
                continue;
            }
            if entry.file_type()?.is_dir() {
                self.read_dir(&entry.path(), &format!("{path}/"))?;
            } else {
                let text = String::from_utf8(fs::read(entry.path())?).unwrap_or_default();
                self.files.push(File { path, text });
            }
        }
        Ok(())
    }
}

/// Generated files. (In a second work tree, `.git` is a file.)
fn is_output(name: &str) -> bool {
    [".git", "target", "proptest-regressions"].contains(&name) || name.starts_with("target-")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn this_very_file_is_read_with_its_path_from_the_root() {
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap();
        let tree = Tree::read(root).unwrap();
        assert!(
            tree.text("xtask/src/source_tree.rs")
                .starts_with("//! The files")
        );
        assert!(tree.contains("xtask/src") && !tree.contains("xtask/sr"));
        assert!(!tree.contains(".git") && !tree.contains("target"));
    }
}
