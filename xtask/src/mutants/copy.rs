//! The copy of the tree in which mutants are made.

use std::fs;
use std::io;
use std::path::Path;

use crate::source_tree::{File, Tree};

/// Makes `dir` have exactly these files.
///
/// A file that is as it should be is not written, so that cargo builds only what a patch touches.
pub(super) fn sync(files: &[File], dir: &Path) -> io::Result<()> {
    fs::create_dir_all(dir)?;
    let copy = Tree::read(dir)?;
    let is_gone = |file: &&File| files.iter().all(|it| it.path != file.path);
    for file in copy.files.iter().filter(is_gone) {
        fs::remove_file(dir.join(&file.path))?;
    }
    for file in files {
        let path = dir.join(&file.path);
        if path.exists() && copy.text(&file.path) == file.text {
            continue;
        }
        fs::create_dir_all(path.parent().unwrap_or(dir))?;
        fs::write(path, &file.text)?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_copy_has_the_files_and_no_others() {
        let dir = std::env::temp_dir().join(format!("xtask-copy-{}", std::process::id()));
        let file = |path: &str, text: &str| File {
            path: path.to_owned(),
            text: text.to_owned(),
        };
        sync(&[file("a/b", "1"), file("c", "2")], &dir).unwrap();
        sync(&[file("a/b", "3")], &dir).unwrap();
        assert_eq!(fs::read_to_string(dir.join("a/b")).unwrap(), "3");
        assert!(!dir.join("c").exists());
        fs::remove_dir_all(dir).unwrap();
    }
}
