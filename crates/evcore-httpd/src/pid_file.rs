//! The pid file: it appears when the server is ready, and is renamed during a binary upgrade.

use std::{
    ffi::OsString,
    fs,
    io::{self, Write},
    path::{Path, PathBuf},
};

use evcore_serve::prefork::Upgrade;

use crate::log::log;

/// A pid file. Dropping it removes the file, if it still holds the id of this process.
#[derive(Debug)]
pub struct PidFile {
    path: PathBuf,
    location: Location,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Location {
    /// `.new` is appended, until a worker is ready.
    Temporary,
    Final,
    /// `.oldbin` is appended, while a new binary uses the path.
    Renamed,
}

impl PidFile {
    /// Writes the file under a temporary name, so that a bad path is an error before workers start.
    pub fn prepare(path: &Path) -> io::Result<Self> {
        let file = Self {
            path: path.to_owned(),
            location: Location::Temporary,
        };
        // A later rename would replace a device, and would fail on a directory only after the
        // workers have started.
        let written = match fs::metadata(path) {
            Ok(there) if !there.is_file() => Err(io::Error::other("it exists, and is not a file")),
            _ => write_whole(&file.path_of(Location::Temporary), &own_line()),
        };
        written.map_err(|error| {
            let advice = match error.kind() {
                io::ErrorKind::FileTooLarge => "; raise the limit on the size of files (ulimit -f)",
                _ => "",
            };
            let path = path.display();
            io::Error::new(
                error.kind(),
                format!("cannot write {path}: {error}{advice}"),
            )
        })?;
        Ok(file)
    }

    /// Gives the file its final name. Call it when a worker is ready and signals are handled,
    /// because a reader of the file may send a signal at once.
    pub fn publish(&mut self) {
        if self.location == Location::Temporary {
            self.move_to(Location::Final);
        }
    }

    /// Renames the file when a new binary starts, and back when that binary has failed or ended, as
    /// nginx does.
    pub fn on_upgrade(&mut self, upgrade: &Upgrade) {
        match upgrade {
            Upgrade::Starting => self.move_to(Location::Renamed),
            Upgrade::Failed(_) | Upgrade::Ended(_) => self.move_to(Location::Final),
            _ => {}
        }
    }

    fn move_to(&mut self, location: Location) {
        if location == self.location {
            return;
        }
        match fs::rename(self.path_of(self.location), self.path_of(location)) {
            Ok(()) => self.location = location,
            Err(error) => {
                let path = self.path.display();
                log(format_args!("httpd: cannot rename {path}: {error}"));
            }
        }
    }

    fn path_of(&self, location: Location) -> PathBuf {
        let mut path = OsString::from(&self.path);
        path.push(match location {
            Location::Temporary => ".new",
            Location::Final => "",
            Location::Renamed => ".oldbin",
        });
        path.into()
    }
}

impl Drop for PidFile {
    fn drop(&mut self) {
        let ours = self.path_of(self.location);
        // The file may be that of another server with the same path, or that of a new binary, if
        // the rename to `.oldbin` failed before that binary started.
        if fs::read_to_string(&ours).is_ok_and(|text| text == own_line()) {
            let _ = fs::remove_file(ours);
        }
    }
}

/// Writes a file, and removes it if not all of it can be written.
fn write_whole(path: &Path, text: &str) -> io::Result<()> {
    let mut file = fs::File::create(path)?;
    file.write_all(text.as_bytes()).inspect_err(|_| {
        let _ = fs::remove_file(path);
    })
}

fn own_line() -> String {
    format!("{}\n", std::process::id())
}
