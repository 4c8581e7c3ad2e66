//! A worker's seat that does as it is told, and a record of what the loop says there.

use std::{
    fs::File,
    mem,
    os::fd::{AsRawFd, RawFd},
    sync::{Arc, Mutex, MutexGuard},
};

use evcore::balancer::{Keeper, Load, Peer, Seat, View};

use crate::script::{Did, Script};

/// A seat from which is seen what the test says, and a record of what is told there.
#[derive(Clone, Debug)]
pub(crate) struct Place(Arc<Mutex<Seen>>);

#[derive(Debug)]
struct Seen {
    called: bool,
    view: View,
    told: Vec<Told>,
    /// Where it is noted too.
    script: Option<Script>,
    /// Any descriptor will do, since only the script looks at it.
    bell: File,
}

#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Told {
    Take,
    Resign,
    Call(u32),
    /// To its own bell.
    Silence,
}

impl Place {
    pub(crate) fn new() -> Self {
        Self(Arc::new(Mutex::new(Seen {
            called: false,
            view: View::alone(),
            told: Vec::new(),
            script: None,
            bell: File::open("/dev/null").unwrap(),
        })))
    }

    /// From here on this is seen of the others: who keeps, and the least load, which is seat 7's.
    pub(crate) fn show(&self, keeper: Keeper, least: Option<u32>) {
        let least = least.map(|load| Peer { seat: 7, load });
        self.seen().view = View {
            keeper,
            least,
            called: false,
        };
    }

    pub(crate) fn told(&self) -> Vec<Told> {
        mem::take(&mut self.seen().told)
    }

    /// From here on what is told is on the script's record as well, among all else.
    pub(crate) fn goes_on_record(&self, script: &Script) {
        self.seen().script = Some(script.clone());
    }

    /// Another worker calls.
    pub(crate) fn set_called(&self, is_called: bool) {
        self.seen().called = is_called;
    }

    /// What a call makes readable.
    pub(crate) fn bell_fd(&self) -> RawFd {
        self.seen().bell.as_raw_fd()
    }

    fn seen(&self) -> MutexGuard<'_, Seen> {
        self.0.lock().expect("no test goes on after a panic")
    }

    fn tell(&self, told: Told) {
        let mut seen = self.seen();
        seen.told.push(told);
        if let Some(script) = &seen.script {
            script.note(Did::Told(told));
        }
    }
}

impl Seat for Place {
    fn is_called(&self) -> bool {
        self.seen().called
    }

    fn look(&mut self, _load: Load) -> View {
        let mut seen = self.seen();
        View {
            called: mem::take(&mut seen.called),
            ..seen.view
        }
    }

    fn take(&mut self) {
        self.tell(Told::Take);
    }

    fn resign(&mut self) {
        self.tell(Told::Resign);
    }

    fn call(&mut self, peer: u32) {
        self.tell(Told::Call(peer));
    }

    fn bell(&self) -> Option<RawFd> {
        Some(self.bell_fd())
    }

    fn silence(&mut self) {
        self.tell(Told::Silence);
    }
}
