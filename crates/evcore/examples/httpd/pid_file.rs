//! The file that tells the master's process id, and where it goes while a new binary has one too.

use std::{
    ffi::OsString,
    fs, io,
    path::{Path, PathBuf},
};

use evcore_prefork::Upgrade;

use crate::log::log;

/// A file that is removed with this value, if it still holds the id of this process.
#[derive(Debug)]
pub struct PidFile {
    path: PathBuf,
    /// Whether it stands aside for that of a new binary.
    is_aside: bool,
}

impl PidFile {
    pub fn write(path: &Path) -> io::Result<Self> {
        let written = fs::write(path, own_line());
        written.map_err(|error| {
            let path = path.display();
            io::Error::new(error.kind(), format!("cannot write {path}: {error}"))
        })?;
        Ok(Self {
            path: path.to_owned(),
            is_aside: false,
        })
    }

    /// Makes room for the file of a new binary, and comes back when that one is no more (nginx).
    pub fn follow(&mut self, upgrade: &Upgrade) {
        let moved = match upgrade {
            Upgrade::Begins => fs::rename(&self.path, aside(&self.path)),
            Upgrade::Failed(_) | Upgrade::Ended(_) => fs::rename(aside(&self.path), &self.path),
            _ => return,
        };
        match moved {
            Ok(()) => self.is_aside = matches!(upgrade, Upgrade::Begins),
            Err(error) => {
                let path = self.path.display();
                log(format_args!("httpd: cannot rename {path}: {error}"));
            }
        }
    }
}

impl Drop for PidFile {
    fn drop(&mut self) {
        let ours = match self.is_aside {
            true => aside(&self.path),
            false => self.path.clone(),
        };
        // Another server may have been told the same path, or could not be made room for.
        if fs::read_to_string(&ours).is_ok_and(|text| text == own_line()) {
            let _ = fs::remove_file(ours);
        }
    }
}

/// What the file holds.
fn own_line() -> String {
    format!("{}\n", std::process::id())
}

fn aside(path: &Path) -> PathBuf {
    let mut name = OsString::from(path);
    name.push(".oldbin");
    name.into()
}
