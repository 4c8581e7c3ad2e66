//! An application that holds HUP back while it sets itself up, and gets one meanwhile.

#![allow(unsafe_code, reason = "a mask of signals, which rustix leaves out")]

use std::{mem::MaybeUninit, num::NonZeroU32, process, ptr};

use evcore_prefork::Worker;
use rustix::process::Signal;

use super::{run, serve, signal, talkative, threads};

pub(super) fn play(scene: &str) -> bool {
    match scene {
        "hup before processes" => {
            hup_is_held_back();
            run(talkative(1), serve);
        }
        "hup before threads" => {
            hup_is_held_back();
            threads::run(threads::talkative(1), serve);
        }
        "hup before solo" => {
            hup_is_held_back();
            serve(Worker::solo().unwrap());
        }
        _ => return false,
    }
    true
}

fn hup_is_held_back() {
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
    // SAFETY: `set` is a set, and a null pointer asks for no old one.
    let refused =
        unsafe { libc::pthread_sigmask(libc::SIG_BLOCK, &raw const set, ptr::null_mut()) };
    assert_eq!(refused, 0);
}
