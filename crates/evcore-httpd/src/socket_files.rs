//! Removal of the files of Unix sockets.

use std::cell::Cell;

use evcore::{Listener, net::SocketFile};
use evcore_serve::prefork::{Upgrade, parent_binary_alive};

use crate::log::log;

/// The files of this server's Unix listeners. Dropping this value removes the files. The workers
/// share the listeners, so only the process that has opened them has such a value.
#[derive(Debug, Default)]
pub struct SocketFiles {
    ours: Vec<SocketFile>,
    /// The files of listeners that only an older binary may use.
    left_over: Vec<SocketFile>,
    /// True while a new binary uses the same listeners.
    passed_on: Cell<bool>,
}

impl SocketFiles {
    /// Adds the file of a listener that this server has opened or inherited.
    pub fn add(&mut self, listener: &Listener) {
        self.ours.extend(listener.file().cloned());
    }

    /// Adds the file of an inherited listener that no option names.
    pub fn add_left_over(&mut self, listener: &Listener) {
        let file = listener.file().filter(|file| !self.ours.contains(file));
        self.left_over.extend(file.cloned());
    }

    /// Leaves the files to a new binary while it runs.
    pub fn on_upgrade(&self, upgrade: &Upgrade) {
        match upgrade {
            Upgrade::Started(_) => self.passed_on.set(true),
            Upgrade::Ended(_) => self.passed_on.set(false),
            _ => {}
        }
    }
}

impl Drop for SocketFiles {
    fn drop(&mut self) {
        // If the parent, an older binary, is alive, it serves again with the same files. (If both
        // are stopped at the same time, each may leave the files to the other. The next server then
        // finds that they are stale.)
        if parent_binary_alive() {
            return;
        }
        // A new binary does not use the files that are left over.
        remove(&self.left_over);
        if !self.passed_on.get() {
            remove(&self.ours);
        }
    }
}

fn remove(files: &[SocketFile]) {
    for file in files {
        if let Err(error) = file.remove() {
            let path = file.path().display();
            log(format_args!("httpd: cannot remove {path}: {error}"));
        }
    }
}
