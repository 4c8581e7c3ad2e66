//! A directory for the files of one test.

use std::{
    fs,
    path::{Path, PathBuf},
};

/// A directory that is removed with this value, and everything in it.
#[derive(Debug)]
pub struct Scratch(PathBuf);

impl Scratch {
    /// Makes it, for the test of this name, which no other test of this program has.
    ///
    /// # Panics
    ///
    /// Where there is no place for files.
    #[must_use]
    pub fn new(test: &str) -> Self {
        let name = format!("evcore-tests-{}-{test}", std::process::id());
        let path = std::env::temp_dir().join(name);
        fs::create_dir(&path).expect("a place for files");
        Self(path)
    }

    /// The directory.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.0
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}
