//! The files of the repository, as text.
//!
//! Read from the directory and not from git, so that a file is checked before
//! it is committed. What git ignores (build output) is left out by name.

use std::collections::BTreeSet;
use std::fs;
use std::io;
use std::path::Path;

/// A text file: its path from the root, with `/`, and what it holds.
#[derive(Clone, Debug)]
pub(crate) struct File {
    pub(crate) path: String,
    pub(crate) text: String,
}

/// All text files, and the names of all others.
#[derive(Clone, Debug, Default)]
pub(crate) struct Tree {
    pub(crate) files: Vec<File>,
    paths: BTreeSet<String>,
}

impl File {
    pub(crate) fn new(path: impl Into<String>, text: impl Into<String>) -> File {
        File {
            path: path.into(),
            text: text.into(),
        }
    }

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
    pub(crate) fn read(root: &Path) -> io::Result<Tree> {
        let mut tree = Tree::default();
        tree.read_dir(root, "")?;
        tree.files.sort_by(|a, b| a.path.cmp(&b.path));
        Ok(tree)
    }

    /// The text file at `path`.
    pub(crate) fn file(&self, path: &str) -> Option<&File> {
        self.files.iter().find(|file| file.path == path)
    }

    /// Whether `path` is a file or a directory here. The root is `""`.
    pub(crate) fn contains(&self, path: &str) -> bool {
        let inside = format!("{path}/");
        path.is_empty()
            || self.paths.contains(path)
            || self.paths.iter().any(|other| other.starts_with(&inside))
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
                self.read_file(&entry.path(), path)?;
            }
        }
        Ok(())
    }

    fn read_file(&mut self, file: &Path, path: String) -> io::Result<()> {
        self.paths.insert(path.clone());
        if let Ok(text) = String::from_utf8(fs::read(file)?) {
            self.files.push(File { path, text });
        }
        Ok(())
    }
}

/// Generated files. (In a second work tree, `.git` is a file.)
fn is_output(name: &str) -> bool {
    name == "target"
        || name.starts_with("target-")
        || name == ".git"
        || name == "proptest-regressions"
}

#[cfg(test)]
impl Tree {
    pub(crate) fn fake(files: &[(&str, &str)]) -> Tree {
        Tree {
            files: files.iter().map(|&(p, t)| File::new(p, t)).collect(),
            paths: files.iter().map(|&(path, _)| path.to_owned()).collect(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn this_very_file_is_read_with_its_path_from_the_root() {
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap();
        let tree = Tree::read(root).unwrap();
        assert!(tree.file("xtask/src/source_tree.rs").is_some());
        assert!(tree.contains("xtask/src") && !tree.contains("xtask/sr"));
        assert!(!tree.contains(".git") && !tree.contains("target"));
    }

    #[test]
    fn lines_count_from_one_and_keep_their_carriage_return() {
        let file = File::new("a.md", "x\r\ny");
        assert_eq!(file.lines().collect::<Vec<_>>(), [(1, "x\r"), (2, "y")]);
    }
}
