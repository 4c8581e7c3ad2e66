//! Kernels (here: sandboxes) that refuse a call: Linux, by a filter on one thread.

#![cfg(any(target_os = "linux", target_os = "android"))]
#![allow(unsafe_code, reason = "a seccomp filter is installed")]

use std::{
    io::Write,
    time::{Duration, Instant},
};

use evcore_poller::{Error, Events, Interest, Kind, Mode, Poller};

use crate::kernel::pair;

/// Runs `claim` in a thread for which the kernel answers `call` by `errno`.
fn without(call: libc::c_long, errno: libc::c_int, claim: impl FnOnce() + Send) {
    std::thread::scope(|threads| {
        threads.spawn(|| {
            install_filter(call, errno);
            claim();
        });
    });
}

fn install_filter(call: libc::c_long, errno: libc::c_int) {
    let step = |code: u32, k: u32, jump_if_not: u8| libc::sock_filter {
        code: u16::try_from(code).expect("an instruction"),
        jt: 0,
        jf: jump_if_not,
        k,
    };
    let call = u32::try_from(call).expect("a call");
    let errno = u32::try_from(errno).expect("an error");
    let mut filter = [
        step(libc::BPF_LD | libc::BPF_W | libc::BPF_ABS, 0, 0), // the call's number
        step(libc::BPF_JMP | libc::BPF_JEQ | libc::BPF_K, call, 1),
        step(
            libc::BPF_RET | libc::BPF_K,
            libc::SECCOMP_RET_ERRNO | errno,
            0,
        ),
        step(libc::BPF_RET | libc::BPF_K, libc::SECCOMP_RET_ALLOW, 0),
    ];
    let program = libc::sock_fprog {
        len: 4,
        filter: filter.as_mut_ptr(),
    };
    // SAFETY: it concerns this thread alone, and takes nothing from it but privileges to come.
    let result = unsafe { libc::prctl(libc::PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) };
    assert_eq!(result, 0, "prctl(PR_SET_NO_NEW_PRIVS)");
    // SAFETY: `program` names the four steps, and outlives the call.
    let result = unsafe {
        libc::prctl(
            libc::PR_SET_SECCOMP,
            libc::SECCOMP_MODE_FILTER,
            &raw const program,
        )
    };
    assert_eq!(result, 0, "prctl(PR_SET_SECCOMP)");
}

#[test]
fn a_backend_that_the_kernel_refuses_is_passed_over() {
    for errno in [libc::EPERM, libc::ENOSYS] {
        without(libc::SYS_epoll_create1, errno, || {
            let refused = Poller::with(Kind::Epoll);
            let named = |error: &Error| error.to_string().starts_with("epoll_create1 failed: ");
            assert!(refused.is_err_and(|error| named(&error)));
            assert_eq!(Poller::new().expect("the next best").name(), "poll");
        });
    }
}

#[test]
fn a_sandbox_that_knows_no_epoll_pwait2_waits_all_the_same() {
    for errno in [libc::EPERM, libc::ENOSYS] {
        without(libc::SYS_epoll_pwait2, errno, || {
            let (mut near, far) = pair();
            let mut poller = Poller::with(Kind::Epoll).expect("epoll");
            let mut events = Events::with_capacity(4);
            poller
                .add(&far, 1, Interest::READ, Mode::Level)
                .expect("add");
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
fn for_want_of_descriptors_no_worse_backend_is_taken() {
    for errno in [libc::EMFILE, libc::ENFILE, libc::ENOMEM] {
        without(libc::SYS_epoll_create1, errno, || {
            let refused = Poller::new().map(|poller| poller.name());
            assert!(
                matches!(&refused, Err(Error::Os { source, .. }) if source.raw_os_error() == Some(errno)),
                "{refused:?}"
            );
        });
    }
}
