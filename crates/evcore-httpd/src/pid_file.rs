//! The file that tells the master's process id: when it appears, and where it goes while a new
//! binary has one too.

use std::{
    ffi::OsString,
    fs,
    io::{self, Write},
    path::{Path, PathBuf},
};

use evcore_prefork::Upgrade;

use crate::log::log;

/// A file that is removed with this value, if it still holds the id of this process.
#[derive(Debug)]
pub struct PidFile {
    path: PathBuf,
    place: Place,
}

/// Where the file is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Place {
    /// Beside its path, until a worker serves.
    Ahead,
    AtPath,
    /// Beside its path, while a new binary has the path.
    Aside,
}

impl PidFile {
    /// Writes it beside `path`: so what is wrong with the path is known before anything is started.
    pub fn prepare(path: &Path) -> io::Result<Self> {
        let file = Self {
            path: path.to_owned(),
            place: Place::Ahead,
        };
        // It would take the place of anything else as well.
        let written = match fs::metadata(path) {
            Ok(there) if !there.is_file() => Err(io::Error::other("it is there, and no file")),
            _ => write_whole(&file.at(Place::Ahead), &own_line()),
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

    /// Makes it appear, whole: when a worker serves and signals are heeded, since whoever finds it
    /// may send one at once.
    pub fn show(&mut self) {
        if self.place == Place::Ahead {
            self.move_to(Place::AtPath);
        }
    }

    /// Makes room for the file of a new binary, and comes back when that one is no more (nginx).
    pub fn follow(&mut self, upgrade: &Upgrade) {
        match upgrade {
            Upgrade::Starting => self.move_to(Place::Aside),
            Upgrade::Failed(_) | Upgrade::Ended(_) => self.move_to(Place::AtPath),
            _ => {}
        }
    }

    fn move_to(&mut self, place: Place) {
        if place == self.place {
            return;
        }
        match fs::rename(self.at(self.place), self.at(place)) {
            Ok(()) => self.place = place,
            Err(error) => {
                let path = self.path.display();
                log(format_args!("httpd: cannot rename {path}: {error}"));
            }
        }
    }

    fn at(&self, place: Place) -> PathBuf {
        let mut path = OsString::from(&self.path);
        path.push(match place {
            Place::Ahead => ".new",
            Place::AtPath => "",
            Place::Aside => ".oldbin",
        });
        path.into()
    }
}

impl Drop for PidFile {
    fn drop(&mut self) {
        let ours = self.at(self.place);
        // Another server may have been told the same path, or could not be made room for.
        if fs::read_to_string(&ours).is_ok_and(|text| text == own_line()) {
            let _ = fs::remove_file(ours);
        }
    }
}

/// Writes a file, of which nothing is left if not all of it can be written.
fn write_whole(path: &Path, text: &str) -> io::Result<()> {
    let mut file = fs::File::create(path)?;
    file.write_all(text.as_bytes()).inspect_err(|_| {
        let _ = fs::remove_file(path);
    })
}

/// What the file holds.
fn own_line() -> String {
    format!("{}\n", std::process::id())
}
