//! What every scenario stands on: a poller with its buffer, and sockets to play with.

use std::{
    io::{ErrorKind, Read, Write},
    os::{
        fd::{AsFd, AsRawFd, OwnedFd},
        unix::net::UnixStream,
    },
    sync::{MutexGuard, Once},
    time::Duration,
};

use evcore_poller::{Events, Interest, Kind, Mode, Poller, Ready};
use rustix::process::{Resource, getrlimit, setrlimit};

use crate::company::{Present, alone};

pub(crate) const READABLE: Ready = Ready::READABLE;
pub(crate) const WRITABLE: Ready = Ready::WRITABLE;
pub(crate) const READ_CLOSED: Ready = Ready::READ_CLOSED;
pub(crate) const WRITE_CLOSED: Ready = Ready::WRITE_CLOSED;
pub(crate) const ERROR: Ready = Ready::ERROR;

/// Only a failure waits this long.
pub(crate) const PATIENCE: Duration = Duration::from_secs(20);

/// A poller of one kind, in one scenario.
pub(crate) struct Stage {
    pub(crate) kind: Kind,
    pub(crate) poller: Poller,
    pub(crate) events: Events,
    /// Backend and scenario, for what panics.
    pub(crate) name: String,
    present: Option<Present>,
}

/// What a wait brought, by rising keys.
pub(crate) type Trace = Vec<(u64, Ready)>;

impl Stage {
    pub(crate) fn new(kind: Kind, scenario: &str) -> Self {
        allow_many_descriptors();
        Self {
            kind,
            poller: Poller::with(kind).expect("the system has this backend"),
            events: Events::with_capacity(64),
            name: format!("{kind}, {scenario}"),
            present: Some(Present::enter()),
        }
    }

    /// Waits until the other scenarios are over: for who forks. None begins while the guard lives.
    pub(crate) fn alone(&mut self) -> MutexGuard<'static, usize> {
        self.present = None;
        alone()
    }

    #[track_caller]
    pub(crate) fn add(&mut self, fd: impl AsFd, key: u64, interest: Interest, mode: Mode) {
        let added = self.poller.add(&fd, key, interest, mode);
        added.unwrap_or_else(|error| panic!("{}: add {key}: {error}", self.name));
    }

    #[track_caller]
    pub(crate) fn add_exclusive(
        &mut self,
        fd: impl AsFd,
        key: u64,
        interest: Interest,
        mode: Mode,
    ) {
        let added = self.poller.add_exclusive(&fd, key, interest, mode);
        added.unwrap_or_else(|error| panic!("{}: add {key}: {error}", self.name));
    }

    #[track_caller]
    pub(crate) fn modify(&mut self, key: u64, interest: Interest) {
        let modified = self.poller.modify(key, interest);
        modified.unwrap_or_else(|error| panic!("{}: modify {key}: {error}", self.name));
    }

    #[track_caller]
    pub(crate) fn rearm(&mut self, key: u64, interest: Interest) {
        let rearmed = self.poller.rearm(key, interest);
        rearmed.unwrap_or_else(|error| panic!("{}: rearm {key}: {error}", self.name));
    }

    #[track_caller]
    pub(crate) fn remove(&mut self, key: u64) {
        let removed = self.poller.remove(key);
        removed.unwrap_or_else(|error| panic!("{}: remove {key}: {error}", self.name));
    }

    #[track_caller]
    pub(crate) fn wait(&mut self, timeout: Option<Duration>) -> Trace {
        let waited = self.poller.wait(&mut self.events, timeout);
        let count = waited.unwrap_or_else(|error| panic!("{}: wait: {error}", self.name));
        let events = self.events.iter();
        let mut trace: Trace = events.map(|event| (event.key, event.ready)).collect();
        assert_eq!(count, trace.len(), "{}: the count of a wait", self.name);
        trace.sort_unstable_by_key(|event| event.0);
        trace
    }

    /// What is ready now. (What one end of a pair does, the other end can see at once.)
    #[track_caller]
    pub(crate) fn now(&mut self) -> Trace {
        self.wait(Some(Duration::ZERO))
    }

    /// Waits without waiting, and compares with what holds, as far as this backend can tell it.
    #[track_caller]
    pub(crate) fn expect(&mut self, expected: &[(u64, Ready)]) {
        let told = expected.iter().map(|it| (it.0, self.told(it.1)));
        let told: Trace = told.collect();
        assert_eq!(self.now(), told, "{}", self.name);
    }

    /// What this backend tells of what holds. Here, and nowhere else, is what a backend cannot say.
    pub(crate) fn told(&self, holds: Ready) -> Ready {
        match self.poller.name() {
            // The end of a stream, a hang-up and an error make a side ready, and no more is said.
            "select" => holds & (READABLE | WRITABLE | Ready::PRIORITY),
            // Linux alone has a flag for the peer's half of the stream.
            "poll" | "eventport" if !cfg!(any(target_os = "linux", target_os = "android")) => {
                holds & (READABLE | WRITABLE | Ready::PRIORITY | ERROR | WRITE_CLOSED)
            }
            _ => holds,
        }
    }

    /// Whether it watches low numbers alone.
    pub(crate) fn is_select(&self) -> bool {
        self.poller.name() == "select"
    }

    #[track_caller]
    pub(crate) fn expect_nothing(&mut self) {
        self.expect(&[]);
    }
}

/// Two connected stream sockets that do not block.
pub(crate) fn pair() -> (UnixStream, UnixStream) {
    let (near, far) = UnixStream::pair().expect("a pair of sockets");
    for end in [&near, &far] {
        end.set_nonblocking(true).expect("non-blocking");
    }
    (near, far)
}

/// Writes until it would block. Returns how many bytes that took.
pub(crate) fn fill(mut stream: &UnixStream) -> usize {
    let mut written = 0;
    loop {
        match stream.write(&[b'x'; 4096]) {
            Ok(n) => written += n,
            Err(error) if error.kind() == ErrorKind::WouldBlock => return written,
            Err(error) => panic!("write: {error}"),
        }
    }
}

/// How a stream was found by [`drain`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Drained {
    /// The next read would block.
    Empty,
    /// The next read returns nothing.
    AtEnd,
}

/// Reads all that there is. Returns how many bytes that was, and what came after them.
pub(crate) fn drain(mut stream: &UnixStream) -> (usize, Drained) {
    let (mut bytes, mut count) = ([0; 4096], 0);
    loop {
        match stream.read(&mut bytes) {
            Ok(0) => return (count, Drained::AtEnd),
            Ok(n) => count += n,
            Err(error) if error.kind() == ErrorKind::WouldBlock => return (count, Drained::Empty),
            Err(error) => panic!("read: {error}"),
        }
    }
}

/// The numbers from here on are for crowds: what else the tests open stays below, where select,
/// whose numbers end at 1024, can watch it too.
const CROWDED: i32 = 2000;

/// A duplicate of `fd`, one of very many.
pub(crate) fn one_of_a_crowd(fd: impl AsFd, stage: &Stage) -> OwnedFd {
    let lowest = if stage.is_select() { 0 } else { CROWDED };
    rustix::io::fcntl_dupfd_cloexec(fd, lowest).expect("a duplicate")
}

/// A duplicate of `fd` with a number that no other descriptor of this process will have: `nth` of
/// its kind, from the end of what the process may have, or select can watch.
pub(crate) fn with_a_number_of_its_own(fd: impl AsFd, stage: &Stage, nth: i32) -> OwnedFd {
    let place = Kind::available().iter().position(|it| *it == stage.kind);
    let place = i32::try_from(place.expect("it is available")).expect("there are few");
    let lowest = if stage.is_select() {
        1000 + nth
    } else {
        limit() - 100 * (place + 1) + nth
    };
    let own = rustix::io::fcntl_dupfd_cloexec(fd, lowest).expect("a duplicate");
    assert_eq!(
        own.as_raw_fd(),
        lowest,
        "each number is used by one test alone"
    );
    own
}

fn limit() -> i32 {
    let limit = getrlimit(Resource::Nofile).current.unwrap_or(20_000);
    i32::try_from(limit).expect("a number of descriptors")
}

/// The tests run beside each other, and some need thousands.
fn allow_many_descriptors() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        let mut limit = getrlimit(Resource::Nofile);
        limit.current = Some(limit.maximum.map_or(20_000, |most| most.min(20_000)));
        setrlimit(Resource::Nofile, limit).expect("up to the hard limit it is allowed");
    });
}
