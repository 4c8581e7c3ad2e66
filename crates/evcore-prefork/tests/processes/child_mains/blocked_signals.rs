//! An application that blocks HUP during its own start, and gets a HUP meanwhile.

#![allow(unsafe_code, reason = "a mask of signals, which rustix leaves out")]

use std::{mem::MaybeUninit, num::NonZeroU32, process, ptr};

use evcore_prefork::Worker;
use rustix::process::Signal;

use super::{logging, run, serve, signal, threads};

pub(super) fn run_main(name: &str) -> bool {
    match name {
        "hup before processes" => {
            get_hup_while_blocked();
            run(logging(1), serve);
        }
        "hup before threads" => {
            get_hup_while_blocked();
            threads::run(logging(1), serve);
        }
        "hup before solo" => {
            get_hup_while_blocked();
            serve(Worker::solo().unwrap());
        }
        _ => return false,
    }
    true
}

fn get_hup_while_blocked() {
    block(libc::SIGHUP);
    signal(NonZeroU32::new(process::id()).unwrap(), Signal::HUP);
}

fn block(signal: libc::c_int) {
    let mut set = MaybeUninit::uninit();
    // SAFETY: the pointer is to memory for a set, which this call fills.
    unsafe { libc::sigemptyset(set.as_mut_ptr()) };
    // SAFETY: `sigemptyset` has just filled it, and cannot fail.
    let mut set = unsafe { set.assume_init() };
    // SAFETY: `set` is a set, and `signal` the number of a signal.
    unsafe { libc::sigaddset(&raw mut set, signal) };
    // SAFETY: `set` is a set, and a null pointer means that the old one is not returned.
    let refused =
        unsafe { libc::pthread_sigmask(libc::SIG_BLOCK, &raw const set, ptr::null_mut()) };
    assert_eq!(refused, 0);
}
