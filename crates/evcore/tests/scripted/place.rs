//! A worker's seat that does as it is told, and a record of what the loop says there.

use std::{
    cell::RefCell,
    fs::File,
    mem,
    os::fd::{AsRawFd, RawFd},
    rc::Rc,
};

use evcore::balancer::{Keeper, Load, Peer, Seat, View};

use crate::script::{Did, Script};

/// A seat from which is seen what the test says, and a record of what is told there.
#[derive(Clone, Debug)]
pub(crate) struct Place(Rc<RefCell<Seen>>);

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
        Self(Rc::new(RefCell::new(Seen {
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
        self.0.borrow_mut().view = View {
            keeper,
            least,
            called: false,
        };
    }

    pub(crate) fn told(&self) -> Vec<Told> {
        std::mem::take(&mut self.0.borrow_mut().told)
    }

    /// From here on what is told is on the script's record as well, among all else.
    pub(crate) fn goes_on_record(&self, script: &Script) {
        self.0.borrow_mut().script = Some(script.clone());
    }

    /// Another worker calls.
    pub(crate) fn set_called(&self, is_called: bool) {
        self.0.borrow_mut().called = is_called;
    }

    /// What a call makes readable.
    pub(crate) fn bell_fd(&self) -> RawFd {
        self.0.borrow().bell.as_raw_fd()
    }

    fn tell(&self, told: Told) {
        let mut seen = self.0.borrow_mut();
        seen.told.push(told);
        if let Some(script) = &seen.script {
            script.note(Did::Told(told));
        }
    }
}

impl Seat for Place {
    fn is_called(&self) -> bool {
        self.0.borrow().called
    }

    fn look(&mut self, _load: Load) -> View {
        let mut seen = self.0.borrow_mut();
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
