//! Files that are not sockets, and closed descriptors.

use std::{fs::File, io::Write, os::fd::AsRawFd, path::Path};

use evcore_poller::{Error, Interest, Mode};
use evcore_testing::not_run;

use crate::{
    expectations::Backend,
    fixture::{ERROR, Fixture, READABLE, WRITABLE},
    kernel,
};

crate::scenarios! {
    a_closed_descriptor_hides_none_of_a_hundred,
    a_descriptor_removed_before_close_is_silent;
    of kernels alone:
    a_file_without_readiness_is_refused_or_always_ready,
    a_descriptor_beyond_the_sets_is_refused_or_watched,
    a_terminal_that_has_hung_up_is_an_edge_once,
}

/// Backends differ: epoll accepts only files with readiness, and a kqueue or an event port may
/// refuse a device.
fn a_file_without_readiness_is_refused_or_always_ready(fixture: &mut Fixture) {
    let program = std::env::current_exe().expect("this program");
    for path in [program.as_path(), Path::new("/"), Path::new("/dev/null")] {
        let file = File::open(path).expect("readable");
        match fixture.poller.add(&file, 1, Interest::READ, Mode::Level) {
            Ok(()) => {
                fixture.expect(&[(1, READABLE)]);
                fixture.remove(1);
            }
            Err(error @ Error::NotPollable { .. }) => {
                let message = error.to_string();
                let expected = format!("{} cannot watch", fixture.poller.backend().name());
                assert!(message.starts_with(&expected), "{message}");
                // All three kinds of file are always ready.
                let why = "a file of its kind (such as a regular file, a directory or /dev/null) \
                           is always ready";
                assert!(message.contains(why), "{}: {message}", fixture.name);
                fixture.expect_nothing();
            }
            Err(Error::Os { .. })
                if matches!(
                    fixture.platform.backend(),
                    Backend::Kqueue | Backend::EventPorts
                ) => {}
            Err(error) => panic!("{}: {error}", fixture.name),
        }
    }
}

/// Backends differ: epoll drops a closed descriptor, poll reports it once.
fn a_closed_descriptor_hides_none_of_a_hundred(fixture: &mut Fixture) {
    let good: Vec<_> = (0..100).map(|_| fixture.pair()).collect();
    let lost = fixture
        .platform
        .with_a_number_of_its_own(fixture.pair().0, 1);
    fixture.events = evcore_poller::Events::bounded(128);
    for ((near, far), key) in good.iter().zip(0..) {
        fixture.add(far, key, Interest::READ, Mode::Level);
        let mut near = near;
        near.write_all(b"a").expect("write");
        if key == 50 {
            fixture.add(&lost, 1000, Interest::READ, Mode::Level);
        }
    }
    drop(lost);

    let all_good: Vec<_> = (0..100).map(|key| (key, READABLE)).collect();
    let mut first = fixture.now();
    if first.last() == Some(&(1000, READABLE | ERROR)) {
        first.pop();
    }
    assert_eq!(first, all_good, "{}", fixture.name);
    for _ in 0..3 {
        fixture.expect(&all_good);
    }
    // Removing a closed descriptor is an error on some backends, but the key is unregistered.
    let _ = fixture.poller.remove(1000);
    assert!(fixture.poller.remove(1000).is_err());
    fixture.expect(&all_good);
}

fn a_descriptor_removed_before_close_is_silent(fixture: &mut Fixture) {
    let ((_near, far), (_other, stays)) = (fixture.pair(), fixture.pair());
    fixture.add(&far, 1, Interest::WRITE, Mode::Level);
    fixture.add(&stays, 2, Interest::WRITE, Mode::Level);
    fixture.expect(&[(1, WRITABLE), (2, WRITABLE)]);
    fixture.poller.remove_before_close(1).expect("registered");
    drop(far);
    fixture.expect(&[(2, WRITABLE)]);
}

/// Backends differ: select's sets end at 1024.
fn a_descriptor_beyond_the_sets_is_refused_or_watched(fixture: &mut Fixture) {
    let ((_near, far), (_other, good)) = (kernel::pair(), kernel::pair());
    fixture.add(&good, 1, Interest::WRITE, Mode::Level);
    let high = rustix::io::fcntl_dupfd_cloexec(&far, 1024).expect("a duplicate");
    let number = high.as_raw_fd();
    let added = fixture.poller.add(&high, 2, Interest::WRITE, Mode::Level);
    if fixture.platform.backend().has_sets() {
        let refused = added.expect_err("it is beyond");
        assert!(
            matches!(refused, Error::BeyondSets { fd, .. } if fd == number),
            "{}: {refused:?}",
            fixture.name
        );
        let way_out = "its sets hold only descriptors below 1024; use poll";
        assert!(refused.to_string().contains(way_out), "{refused}");
        fixture.expect(&[(1, WRITABLE)]);
    } else {
        added.expect("add");
        fixture.expect(&[(1, WRITABLE), (2, WRITABLE)]);
    }
}

/// A terminal that has hung up is always ready, and no later event follows.
fn a_terminal_that_has_hung_up_is_an_edge_once(fixture: &mut Fixture) {
    let Some(terminal) = kernel::hung_up_terminal() else {
        return not_run("the hang-up of a terminal was not tried on this system");
    };
    fixture.add(&terminal, 1, Interest::READ, Mode::Edge);
    for _ in 0..2 {
        let trace = fixture.now();
        assert!(matches!(trace[..], [(1, _)]), "{}: {trace:?}", fixture.name);
        for _ in 0..3 {
            fixture.expect_nothing();
        }
        fixture.expect_silence();
        fixture.reregister(1);
    }
}
