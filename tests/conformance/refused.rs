//! Kernels that refuse a system call, as in a sandbox of Linux. Here, a filter on one thread
//! refuses the call.

#![cfg(any(target_os = "linux", target_os = "android"))]

use std::{
    io::Write,
    os::unix::net::UnixStream,
    time::{Duration, Instant},
};

use evcore_poller::{BackendKind, Error, Events, Interest, Mode, Poller};
use evcore_tests::{is_permitted, without};

use crate::kernel::pair;

/// Two connected sockets without data, and a poller over epoll that watches the second.
fn watching() -> (UnixStream, UnixStream, Poller) {
    let (near, far) = pair();
    let mut poller = Poller::with(BackendKind::Epoll).expect("epoll");
    poller
        .add(&far, 1, Interest::READ, Mode::Level)
        .expect("add");
    (near, far, poller)
}

#[test]
fn a_backend_that_the_kernel_refuses_is_skipped() {
    for errno in [libc::EPERM, libc::ENOSYS] {
        without(libc::SYS_epoll_create1, errno, || {
            let refused = Poller::with(BackendKind::Epoll);
            let named = |error: &Error| error.to_string().starts_with("epoll_create1 failed: ");
            assert!(refused.is_err_and(|error| named(&error)));
            let next = Poller::new().expect("the next best");
            assert_eq!(
                next.backend().name(),
                BackendKind::available()[1].to_string()
            );
        });
    }
}

#[test]
fn a_refused_ring_is_an_error_with_a_reason() {
    let forbidden = "this system does not permit it";
    for (call, name, errno, remedy) in [
        (
            libc::SYS_io_uring_setup,
            "io_uring_setup",
            libc::EPERM,
            forbidden,
        ),
        (
            libc::SYS_io_uring_setup,
            "io_uring_setup",
            libc::ENOSYS,
            forbidden,
        ),
        (
            libc::SYS_io_uring_setup,
            "io_uring_setup",
            libc::EINVAL,
            "Linux 6.1 or later is needed",
        ),
        // A sandbox may permit the creation of a ring, and deny its use.
        (
            libc::SYS_io_uring_enter,
            "io_uring_enter",
            libc::EPERM,
            forbidden,
        ),
        (
            libc::SYS_io_uring_enter,
            "io_uring_enter",
            libc::ENOSYS,
            forbidden,
        ),
    ] {
        if call == libc::SYS_io_uring_enter && !is_permitted(BackendKind::IoUring) {
            continue;
        }
        without(call, errno, || {
            let refused = Poller::with(BackendKind::IoUring).expect_err("it is refused");
            let message = refused.to_string();
            assert!(message.starts_with(name), "{message}");
            assert!(message.contains(remedy), "{message}");

            assert!(!BackendKind::usable().contains(&BackendKind::IoUring));
        });
    }
}

#[test]
fn a_sandbox_without_epoll_pwait2_falls_back() {
    for errno in [libc::EPERM, libc::ENOSYS] {
        without(libc::SYS_epoll_pwait2, errno, || {
            let (mut near, _far, mut poller) = watching();
            let mut events = Events::bounded(4);
            for nanoseconds in [0, 1, 999_999, 1_000_001] {
                let timeout = Duration::from_nanos(nanoseconds);
                let start = Instant::now();
                assert_eq!(poller.wait(&mut events, Some(timeout)).expect("a wait"), 0);
                assert!(start.elapsed() >= timeout, "{timeout:?}");
            }
            near.write_all(b"a").expect("write");
            for timeout in [None, Some(Duration::MAX)] {
                assert_eq!(poller.wait(&mut events, timeout).expect("a wait"), 1);
            }
        });
    }
}

#[test]
fn a_wait_of_a_second_or_more_needs_no_epoll_pwait2() {
    without(libc::SYS_epoll_pwait2, libc::EINVAL, || {
        let (mut near, _far, mut poller) = watching();
        let mut events = Events::bounded(4);
        near.write_all(b"a").expect("write");
        let ns = Duration::from_nanos;
        for timeout in [ns(1_000_000_001), ns(65_000_999_999)] {
            let waited = poller.wait(&mut events, Some(timeout));
            assert_eq!(waited.expect("a wait"), 1, "{timeout:?}");
        }
        let in_ns = poller.wait(&mut events, Some(ns(999_999_999)));
        assert!(in_ns.is_err(), "a shorter one needs it: {in_ns:?}");
    });
}

#[test]
fn no_worse_backend_is_chosen_when_descriptors_run_out() {
    for errno in [libc::EMFILE, libc::ENFILE, libc::ENOMEM] {
        without(libc::SYS_epoll_create1, errno, || {
            let refused = Poller::new().map(|poller| poller.backend().name());
            assert!(
                matches!(&refused, Err(Error::Os { source, .. }) if source.raw_os_error() == Some(errno)),
                "{refused:?}"
            );
        });
    }
}
