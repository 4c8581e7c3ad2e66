//! Descriptors of other kinds, and descriptors that are no more.

use std::{fs::File, io::Write, os::fd::AsRawFd, path::Path};

use evcore_poller::{Error, Interest, Mode};

use crate::{
    backends::Backend,
    kernel,
    stage::{ERROR, READABLE, Stage, WRITABLE},
};

crate::scenarios! {
    a_closed_descriptor_blinds_none_of_a_hundred,
    a_forgotten_descriptor_is_silent_after_its_close;
    of kernels alone:
    a_file_without_readiness_is_refused_or_always_ready,
    a_descriptor_beyond_the_sets_is_refused_or_watched,
}

/// Here backends differ: epoll takes only what can tell of its readiness; a kqueue or a port may
/// refuse a device.
fn a_file_without_readiness_is_refused_or_always_ready(stage: &mut Stage) {
    let program = std::env::current_exe().expect("this program");
    for path in [program.as_path(), Path::new("/"), Path::new("/dev/null")] {
        let file = File::open(path).expect("readable");
        match stage.poller.add(&file, 1, Interest::READ, Mode::Level) {
            Ok(()) => {
                stage.expect(&[(1, READABLE)]);
                stage.remove(1);
            }
            Err(error @ Error::NotPollable { .. }) => {
                let said = error.to_string();
                let who = format!("{} cannot watch", stage.poller.backend().name());
                assert!(said.starts_with(&who), "{said}");
                // True of each of them.
                let why = "a file of its kind (such as a regular file, a directory or /dev/null) \
                           is always ready";
                assert!(said.contains(why), "{}: {said}", stage.name);
                stage.expect_nothing();
            }
            Err(Error::Os { .. })
                if matches!(
                    stage.ground.backend(),
                    Backend::Kqueue | Backend::EventPorts
                ) => {}
            Err(error) => panic!("{}: {error}", stage.name),
        }
    }
}

/// Here backends differ: epoll forgets what is closed, poll tells of it once.
fn a_closed_descriptor_blinds_none_of_a_hundred(stage: &mut Stage) {
    let good: Vec<_> = (0..100).map(|_| stage.pair()).collect();
    let lost = stage.ground.with_a_number_of_its_own(stage.pair().0, 1);
    stage.events = evcore_poller::Events::with_capacity(128);
    for ((near, far), key) in good.iter().zip(0..) {
        stage.add(far, key, Interest::READ, Mode::Level);
        let mut near = near;
        near.write_all(b"a").expect("write");
        if key == 50 {
            stage.add(&lost, 1000, Interest::READ, Mode::Level);
        }
    }
    drop(lost);

    let all_good: Vec<_> = (0..100).map(|key| (key, READABLE)).collect();
    let mut first = stage.now();
    if first.last() == Some(&(1000, READABLE | ERROR)) {
        first.pop();
    }
    assert_eq!(first, all_good, "{}", stage.name);
    for _ in 0..3 {
        stage.expect(&all_good);
    }
    // Whether it is an error to remove it is up to the backend; it is gone all the same.
    let _ = stage.poller.remove(1000);
    assert!(stage.poller.remove(1000).is_err());
    stage.expect(&all_good);
}

fn a_forgotten_descriptor_is_silent_after_its_close(stage: &mut Stage) {
    let ((_near, far), (_other, stays)) = (stage.pair(), stage.pair());
    stage.add(&far, 1, Interest::WRITE, Mode::Level);
    stage.add(&stays, 2, Interest::WRITE, Mode::Level);
    stage.expect(&[(1, WRITABLE), (2, WRITABLE)]);
    stage.poller.remove_before_close(1).expect("registered");
    drop(far);
    stage.expect(&[(2, WRITABLE)]);
}

/// Here backends differ: select's sets end at 1024.
fn a_descriptor_beyond_the_sets_is_refused_or_watched(stage: &mut Stage) {
    let ((_near, far), (_other, good)) = (kernel::pair(), kernel::pair());
    stage.add(&good, 1, Interest::WRITE, Mode::Level);
    let high = rustix::io::fcntl_dupfd_cloexec(&far, 1024).expect("a duplicate");
    let number = high.as_raw_fd();
    let added = stage.poller.add(&high, 2, Interest::WRITE, Mode::Level);
    if stage.ground.backend().has_sets() {
        let refused = added.expect_err("it is beyond");
        assert!(
            matches!(refused, Error::BeyondSets { fd, .. } if fd == number),
            "{}: {refused:?}",
            stage.name
        );
        let way_out = "its sets hold 1024; use poll";
        assert!(refused.to_string().contains(way_out), "{refused}");
        stage.expect(&[(1, WRITABLE)]);
    } else {
        added.expect("add");
        stage.expect(&[(1, WRITABLE), (2, WRITABLE)]);
    }
}
