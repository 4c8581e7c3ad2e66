//! The copy of the tree in which mutants are made.

use std::fs;
use std::io;
use std::path::Path;

use crate::source_tree::File;

/// Makes `dir` hold exactly these files.
///
/// A file that is as it should be is not written, so that cargo builds only what an edit touches.
pub(super) fn sync(files: &[File], dir: &Path) -> io::Result<()> {
    fs::create_dir_all(dir)?;
    remove_others(files, dir, "")?;
    for file in files {
        let path = dir.join(&file.path);
        if fs::read_to_string(&path).is_ok_and(|text| text == file.text) {
            continue;
        }
        if let Some(parent) = path.parent() {
            fs::create_dir_all(parent)?;
        }
        fs::write(path, &file.text)?;
    }
    Ok(())
}

/// Removes what is in the directory and not among the files, such as a file that was renamed.
fn remove_others(files: &[File], dir: &Path, prefix: &str) -> io::Result<()> {
    for entry in fs::read_dir(dir)? {
        let entry = entry?;
        let path = format!("{prefix}{}", entry.file_name().to_string_lossy());
        if entry.file_type()?.is_dir() {
            remove_others(files, &entry.path(), &format!("{path}/"))?;
        } else if !files.iter().any(|file| file.path == path) {
            fs::remove_file(entry.path())?;
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_copy_has_the_files_and_no_others() {
        let dir = std::env::temp_dir().join(format!("xtask-copy-{}", std::process::id()));
        let first = [File::new("a/b", "1"), File::new("c", "2")];
        sync(&first, &dir).unwrap();
        sync(&[File::new("a/b", "3")], &dir).unwrap();
        assert_eq!(fs::read_to_string(dir.join("a/b")).unwrap(), "3");
        assert!(!dir.join("c").exists());
        fs::remove_dir_all(dir).unwrap();
    }
}
