//! Implements `Platform` with this system's kernel. `Platform` is the interface by which scenarios
//! make pollers and sockets.

use std::{
    io::Write,
    os::{
        fd::{AsRawFd, OwnedFd},
        unix::net::UnixStream,
    },
    time::{Duration, Instant},
};

use evcore_poller::{BackendKind, Interest, Poller, Ready, Source, Waker};
use evcore_tests::allow_many_descriptors;
use rustix::event::{PollFd, PollFlags, Timespec, poll};

use crate::{
    expectations::Backend,
    fixture::{ERROR, READ_CLOSED, READABLE, WRITABLE, WRITE_CLOSED},
    platform::{ManySockets, Platform},
    socket::Socket,
};

#[derive(Debug)]
pub(crate) struct Kernel {
    kind: BackendKind,
    since: Instant,
}

impl Kernel {
    pub(crate) fn new(kind: BackendKind) -> Self {
        // The tests run in parallel, and some need thousands of descriptors.
        allow_many_descriptors();
        let since = Instant::now();
        Self { kind, since }
    }

    /// The `nth` of the descriptor numbers that only scenarios of this backend use. These numbers
    /// are near the highest number that the process may have, or that select can watch.
    fn own_number(&self, nth: i32) -> i32 {
        if self.backend().has_sets() {
            return 1000 + nth;
        }
        let place = BackendKind::available()
            .iter()
            .position(|kind| *kind == self.kind);
        let place = i32::try_from(place.expect("it is available")).expect("there are few");
        limit() - 100 * (place + 1) + nth
    }
}

impl Platform for Kernel {
    fn name(&self) -> String {
        self.kind.to_string()
    }

    fn poller(&self) -> Poller {
        Poller::with(self.kind).expect("the system has this backend")
    }

    fn backend(&self) -> Backend {
        Backend::of(self.kind)
    }

    fn has_exclusive(&self) -> bool {
        self.backend().has_exclusive()
    }

    fn time(&self) -> Duration {
        self.since.elapsed()
    }

    fn pair(&self) -> (Socket, Socket) {
        let (near, far) = pair();
        (Socket::Real(near), Socket::Real(far))
    }

    fn succeed(&self, old: Socket) -> (Socket, Socket) {
        let Socket::Real(old) = old else {
            panic!("a simulated socket")
        };
        let ((near, new), mut number) = (pair(), OwnedFd::from(old));
        rustix::io::dup2(&new, &mut number).expect("the number is taken over");
        (Socket::Real(near), Socket::Real(number.into()))
    }

    fn with_a_number_of_its_own(&self, socket: Socket, nth: i32) -> Socket {
        let Socket::Real(socket) = socket else {
            panic!("a simulated socket")
        };
        let number = self.own_number(nth);
        let own = rustix::io::fcntl_dupfd_cloexec(&socket, number).expect("a duplicate");
        let found = own.as_raw_fd();
        assert_eq!(found, number, "each number is used by one test alone");
        Socket::Real(own.into())
    }

    fn many_sockets(&self, count: u64) -> ManySockets {
        // The lowest number of the duplicates, above the tests' ordinary descriptors.
        const CROWDED: i32 = 2000;
        let lowest = if self.backend().has_sets() {
            0
        } else {
            CROWDED
        };
        let (near, far) = pair();
        let twin = |_| -> Box<dyn Source> {
            let twin = rustix::io::fcntl_dupfd_cloexec(&far, lowest);
            Box::new(twin.expect("a duplicate"))
        };
        let twins = (0..count).map(twin).collect();
        ManySockets::new(vec![(Socket::Real(near), Socket::Real(far))], twins)
    }

    fn truth(&self, socket: &Socket, interest: Interest) -> Ready {
        let Socket::Real(socket) = socket else {
            panic!("a simulated socket")
        };
        truth(socket, interest)
    }

    fn wake_during(&self, waker: &Waker, wait: &mut dyn FnMut()) {
        std::thread::scope(|threads| {
            threads.spawn(|| waker.wake());
            wait();
        });
    }

    fn write_during(&self, mut near: &Socket, wait: &mut dyn FnMut()) {
        std::thread::scope(|threads| {
            threads.spawn(move || near.write_all(b"a").expect("write"));
            wait();
        });
    }
}

/// Two connected non-blocking sockets, for scenarios that need a kernel.
pub(crate) fn pair() -> (UnixStream, UnixStream) {
    let (near, far) = UnixStream::pair().expect("a pair of sockets");
    for end in [&near, &far] {
        end.set_nonblocking(true).expect("non-blocking");
    }
    (near, far)
}

/// A terminal whose other side is closed. `None` on systems on which that was not tried.
#[cfg(target_os = "linux")]
pub(crate) fn hung_up_terminal() -> Option<OwnedFd> {
    use rustix::{
        fs::{Mode, OFlags, open},
        pty::{OpenptFlags, openpt, ptsname, unlockpt},
    };

    let flags = OpenptFlags::RDWR | OpenptFlags::NOCTTY | OpenptFlags::CLOEXEC;
    let master = openpt(flags).expect("the system has terminals");
    unlockpt(&master).expect("it is new");
    let name = ptsname(&master, Vec::new()).expect("it has a name");
    let flags = OFlags::RDWR | OFlags::NOCTTY | OFlags::NONBLOCK | OFlags::CLOEXEC;
    let terminal = open(name, flags, Mode::empty());
    Some(terminal.expect("it is unlocked"))
}

#[cfg(not(target_os = "linux"))]
pub(crate) fn hung_up_terminal() -> Option<OwnedFd> {
    None
}

/// The flag of `poll` for a half-close. The poll backend requests it only on Linux, although
/// FreeBSD and illumos have it, too.
#[cfg(any(target_os = "linux", target_os = "android"))]
const HALF_CLOSED: PollFlags = PollFlags::RDHUP;
#[cfg(not(any(target_os = "linux", target_os = "android")))]
const HALF_CLOSED: PollFlags = PollFlags::empty();

fn truth(fd: &UnixStream, interest: Interest) -> Ready {
    if interest.is_empty() {
        return Ready::NONE;
    }
    let mut flags = PollFlags::empty();
    if interest.contains(Interest::READ) {
        flags |= PollFlags::IN | HALF_CLOSED;
    }
    if interest.contains(Interest::WRITE) {
        flags |= PollFlags::OUT;
    }
    if interest.contains(Interest::PRIORITY) {
        flags |= PollFlags::PRI;
    }
    let mut fds = [PollFd::new(fd, flags)];
    let now = Timespec {
        tv_sec: 0,
        tv_nsec: 0,
    };
    poll(&mut fds, Some(&now)).expect("poll");
    let found = fds[0].revents();

    let mut ready = Ready::NONE;
    for (flag, bit) in [
        (PollFlags::IN, READABLE),
        (PollFlags::OUT, WRITABLE),
        (PollFlags::PRI, Ready::PRIORITY),
        (HALF_CLOSED, READ_CLOSED),
        (PollFlags::HUP, WRITE_CLOSED),
        (PollFlags::ERR, ERROR),
    ] {
        if found.intersects(flag) {
            ready |= bit;
        }
    }
    if ready.is_error() || ready.is_write_closed() {
        for (side, bit) in [(Interest::READ, READABLE), (Interest::WRITE, WRITABLE)] {
            if interest.contains(side) {
                ready |= bit;
            }
        }
    }
    ready
}

fn limit() -> i32 {
    i32::try_from(allow_many_descriptors()).expect("a number of descriptors")
}
