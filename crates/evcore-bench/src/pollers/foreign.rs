//! The peers in C, by the table of functions that each file of `c/pollers/` has.

#![allow(unsafe_code, reason = "it calls C")]

use std::ffi::{CStr, c_char, c_int, c_void};
use std::os::fd::OwnedFd;

use super::peer_poller::{PeerPoller, Setup};
use super::peers::Peer;
use super::ring_of_pairs::{Pairs, Ring};
use crate::report::Report;

/// As `struct peer` in `c/pollers/peer.h`, where the functions are described.
#[repr(C)]
pub(super) struct Functions {
    version: unsafe extern "C" fn() -> *const c_char,
    create: unsafe extern "C" fn(*const OwnedFd, usize, c_int) -> *mut c_void,
    run: unsafe extern "C" fn(*mut c_void, *mut RingInC),
    toggle: unsafe extern "C" fn(*mut c_void, usize),
    destroy: unsafe extern "C" fn(*mut c_void),
}

// SAFETY: `build.rs` links the file that defines each, whose type is `const struct peer`; nothing
// writes to it, and its functions may be called from any thread.
unsafe extern "C" {
    #[cfg(peer_libev)]
    pub(super) safe static libev_poller: Functions;
    #[cfg(peer_libevent)]
    pub(super) safe static libevent_poller: Functions;
    #[cfg(peer_libevent)]
    pub(super) safe static libevent_changelist_poller: Functions;
    #[cfg(peer_libuv)]
    pub(super) safe static libuv_poller: Functions;
}

/// Those that were found when this was built.
fn installed() -> Vec<(&'static str, &'static Functions)> {
    vec![
        #[cfg(peer_libev)]
        ("libev", &libev_poller),
        #[cfg(peer_libevent)]
        ("libevent", &libevent_poller),
        #[cfg(peer_libevent)]
        ("libevent, changelist", &libevent_changelist_poller),
        #[cfg(peer_libuv)]
        ("libuv", &libuv_poller),
    ]
}

pub(super) fn peers() -> impl Iterator<Item = Peer> {
    installed().into_iter().map(|(name, functions)| {
        Peer::with_timers(
            name,
            Box::new(move |watched, setup| Box::new(Foreign::new(functions, watched, setup))),
        )
    })
}

/// Records the versions of the libraries that are installed, and the absence of others.
pub(super) fn record_versions(report: &mut Report) {
    let installed = installed();
    for name in ["libev", "libevent", "libuv"] {
        match installed.iter().find(|(it, _)| *it == name) {
            Some((_, functions)) => {
                report.versions.insert(name.to_owned(), functions.version());
            }
            None => report.absent(name, "not installed when this was built"),
        }
    }
}

/// As `struct ring` in `c/pollers/peer.h`.
#[repr(C)]
struct RingInC {
    near: *const OwnedFd,
    far: *const OwnedFd,
    n: usize,
    writes: usize,
    left: usize,
}

/// A poller of one of them.
#[derive(Debug)]
pub(super) struct Foreign<'a> {
    functions: &'static Functions,
    // Invariant: what `create` returned, which is not null; there is no other copy.
    poller: *mut c_void,
    /// What it watches, which is to stay open.
    watched: &'a [OwnedFd],
}

impl std::fmt::Debug for Functions {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Functions").finish_non_exhaustive()
    }
}

impl Functions {
    /// The library's own word for its version.
    pub(super) fn version(&self) -> String {
        // SAFETY: it takes nothing.
        let text = unsafe { (self.version)() };
        // SAFETY: all three return a string that ends with 0 and stays.
        let text = unsafe { CStr::from_ptr(text) };
        text.to_string_lossy().into_owned()
    }
}

impl<'a> Foreign<'a> {
    pub(super) fn new(
        functions: &'static Functions,
        watched: &'a [OwnedFd],
        setup: Setup,
    ) -> Foreign<'a> {
        // SAFETY: there are so many descriptors, each of which is laid out as its number; where it
        // cannot be had, the program ends.
        let poller =
            unsafe { (functions.create)(watched.as_ptr(), watched.len(), setup.timers.into()) };
        Foreign {
            functions,
            poller,
            watched,
        }
    }
}

impl PeerPoller for Foreign<'_> {
    fn run(&mut self, ring: &mut Ring<'_>) {
        let Pairs { near, far } = ring.pairs;
        let n = self.watched.len();
        assert!(near.len() == n && far.len() == n, "indices are of these");
        let mut state = RingInC {
            near: near.as_ptr(),
            far: far.as_ptr(),
            n,
            writes: ring.writes,
            left: ring.left,
        };
        // SAFETY: by the invariant of `poller`, whose indices are below `n`;
        // the state outlives the call, after which it is not looked at.
        unsafe { (self.functions.run)(self.poller, &raw mut state) };
        (ring.writes, ring.left) = (state.writes, state.left);
    }

    fn toggle(&mut self, times: usize) {
        assert!(!self.watched.is_empty(), "there is a first");
        // SAFETY: by the invariant of `poller`, which watches a first descriptor.
        unsafe { (self.functions.toggle)(self.poller, times) }
    }
}

impl Drop for Foreign<'_> {
    fn drop(&mut self) {
        // SAFETY: by the invariant of `poller`, which is not used again.
        unsafe { (self.functions.destroy)(self.poller) }
    }
}
