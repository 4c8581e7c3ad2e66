//! The files of Unix sockets, and when they go.

use std::cell::Cell;

use evcore::{Listener, accept::SocketFile};
use evcore_prefork::{Upgrade, parent_binary_alive};

use crate::log::log;

/// What Unix listeners leave in the file system. It goes with this value, however the server ends;
/// but not with a worker, since others share the listeners.
#[derive(Debug, Default)]
pub struct SocketFiles {
    /// Where this server listens.
    ours: Vec<SocketFile>,
    /// Where only an older binary listens, if anybody.
    left_over: Vec<SocketFile>,
    /// Whether a new binary listens at ours too.
    passed_on: Cell<bool>,
}

impl SocketFiles {
    /// That of a listener that this server has opened or taken over.
    pub fn add(&mut self, listener: &Listener) {
        self.ours.extend(listener.file().cloned());
    }

    /// That of a listener that an older binary has passed on, and that nobody wants.
    pub fn add_left_over(&mut self, listener: &Listener) {
        let file = listener.file().filter(|file| !self.ours.contains(file));
        self.left_over.extend(file.cloned());
    }

    /// Leaves ours to a new binary, for as long as that one lives.
    pub fn follow(&self, upgrade: &Upgrade) {
        match upgrade {
            Upgrade::Started(_) => self.passed_on.set(true),
            Upgrade::Ended(_) => self.passed_on.set(false),
            _ => {}
        }
    }
}

impl Drop for SocketFiles {
    fn drop(&mut self) {
        // It takes over again, by the same files. (Where both are stopped at the same time, each
        // may leave them to the other: then the next server finds that they are stale.)
        if parent_binary_alive() {
            return;
        }
        // A successor knows nothing of what was not passed on to it.
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
