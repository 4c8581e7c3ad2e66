//! Tests with files for which no wake-up ever comes. Most of them have no wait queue. The kernel
//! ends each request for a file without a wait queue at once.

use rustix::{
    fs::{Mode as FileMode, OFlags},
    pty::{OpenptFlags, openpt, ptsname, unlockpt},
};

use super::*;

fn open(path: impl rustix::path::Arg) -> Option<OwnedFd> {
    let flags = OFlags::RDWR | OFlags::NOCTTY | OFlags::NONBLOCK | OFlags::CLOEXEC;
    rustix::fs::open(path, flags, FileMode::empty()).ok()
}

/// A terminal whose other side has been closed.
fn hung_up_terminal() -> OwnedFd {
    let flags = OpenptFlags::RDWR | OpenptFlags::NOCTTY | OpenptFlags::CLOEXEC;
    let master = openpt(flags).expect("the system has terminals");
    unlockpt(&master).expect("it is new");
    let name = ptsname(&master, Vec::new()).expect("it has a name");
    open(name).expect("it is unlocked")
}

/// Files that nothing wakes, and that are ready. The system may lack some.
fn files() -> Vec<(&'static str, OwnedFd)> {
    let mut files = vec![("a hung-up terminal", hung_up_terminal())];
    match open("/dev/net/tun") {
        Some(tun) => files.push(("a tun without an interface", tun)),
        None => evcore_testing::not_run("/dev/net/tun cannot be opened"),
    }
    for path in ["/dev/null", "/proc/uptime", "/proc/self/mounts"] {
        let file = std::fs::File::open(path).expect("there is one");
        files.push((path, file.into()));
    }
    files
}

/// epoll, which refuses only `/dev/null`, reports each of the other files once.
#[test]
fn a_file_that_nothing_wakes_is_an_edge_once() {
    let Some(mut poller) = poller(64) else {
        return;
    };
    for (name, file) in files() {
        for mode in [Mode::Edge, Mode::Oneshot] {
            poller
                .add(&file.as_fd(), 1, Interest::READ, mode)
                .expect("add");
            assert_eq!(keys(&mut poller, 8), [1], "{name}");
            for _ in 0..3 {
                assert_eq!(keys(&mut poller, 8), [], "{name}: {mode:?}");
            }
            poller.reregister(1).expect("registered");
            assert_eq!(keys(&mut poller, 8), [1], "{name}: {mode:?}");
            poller.remove(1).expect("registered");
        }
    }
}

#[test]
fn an_edge_that_nothing_wakes_ends_no_later_wait() {
    let Some(mut poller) = poller(64) else {
        return;
    };
    let files = files();
    for (key, (_, file)) in (0..).zip(&files) {
        let added = poller.add(&file.as_fd(), key, Interest::READ, Mode::Edge);
        added.expect("add");
    }
    // Each wait has room for one event, and leaves the other files for the next waits.
    let found: Vec<_> = (0..files.len())
        .flat_map(|_| keys(&mut poller, 1))
        .collect();
    assert_eq!(found.len(), files.len(), "{found:?}");
    let mut events = Events::raw(8);
    let (start, timeout) = (Instant::now(), Duration::from_millis(5));
    poller.wait(&mut events, Some(timeout)).expect("a wait");
    assert!(
        events.is_empty() && start.elapsed() >= timeout,
        "{events:?}"
    );
}

/// The backend looks for such edges only among renewed requests, and not among the requests of new
/// registrations.
#[test]
fn an_edge_that_nothing_wakes_hides_no_new_one() {
    let Some(mut poller) = poller(64) else {
        return;
    };
    for (key, (name, file)) in (0..).zip(&files()) {
        let added = poller.add(&file.as_fd(), key, Interest::READ, Mode::Edge);
        added.expect("add");
        assert_eq!(keys(&mut poller, 8), [key], "{name}");
    }
    assert_eq!(keys(&mut poller, 8), []);
}
