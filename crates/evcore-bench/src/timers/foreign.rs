//! The peers in C, by the table of functions that each file of `c/` has.

#![allow(unsafe_code, reason = "it calls C")]

use std::ffi::{CStr, c_char, c_int, c_void};

use super::operations::{Step, TIMEOUT_MS};
use super::peers::Peer;
use super::queue::PeerQueue;
use crate::report::Report;

/// As `struct peer` in `c/timers/peer.h`, where the functions are described.
#[repr(C)]
pub(super) struct Functions {
    version: unsafe extern "C" fn() -> *const c_char,
    create: unsafe extern "C" fn(usize, c_int) -> *mut c_void,
    arm: unsafe extern "C" fn(*mut c_void, *const Step, usize),
    replace: unsafe extern "C" fn(*mut c_void, *const Step, usize),
    expire: unsafe extern "C" fn(*mut c_void) -> usize,
    destroy: unsafe extern "C" fn(*mut c_void),
    serve: Option<unsafe extern "C" fn(*mut c_void, *const Step, usize, u64)>,
}

// SAFETY: `build.rs` links the file that defines each, whose type is `const struct peer`; nothing
// writes to it, and its functions may be called from any thread.
unsafe extern "C" {
    #[cfg(peer_libev)]
    pub(super) safe static libev_peer: Functions;
    #[cfg(peer_libevent)]
    pub(super) safe static libevent_peer: Functions;
    #[cfg(peer_libuv)]
    pub(super) safe static libuv_peer: Functions;
    #[cfg(peer_nginx_rbtree)]
    pub(super) safe static nginx_rbtree_peer: Functions;
    #[cfg(peer_nginx_rbtree)]
    pub(super) safe static nginx_rbtree_lazy_peer: Functions;
}

/// The queues that were found when this was built, with the peer's name.
fn installed() -> Vec<(&'static str, &'static Functions)> {
    vec![
        #[cfg(peer_libev)]
        ("libev", &libev_peer),
        #[cfg(peer_libevent)]
        ("libevent", &libevent_peer),
        #[cfg(peer_libuv)]
        ("libuv", &libuv_peer),
        #[cfg(peer_nginx_rbtree)]
        (NGINX, &nginx_rbtree_peer),
        #[cfg(peer_nginx_rbtree)]
        ("nginx's tree, 300 ms", &nginx_rbtree_lazy_peer),
    ]
}

/// The peer that needs a C compiler only.
const NGINX: &str = "nginx's tree";

pub(super) fn peers() -> impl Iterator<Item = Peer> {
    installed().into_iter().map(|(name, functions)| Peer {
        name,
        create: Box::new(move |ids, due| Box::new(Foreign::new(functions, ids, due))),
    })
}

/// Whether a peer is in C.
#[cfg(test)]
pub(super) fn has(name: &str) -> bool {
    installed().iter().any(|(it, _)| *it == name)
}

/// Records the versions of the libraries that are installed, and the absence of others.
pub(super) fn record_versions(report: &mut Report) {
    let installed = installed();
    for name in ["libev", "libevent", "libuv", NGINX] {
        match installed.iter().find(|(it, _)| *it == name) {
            Some((_, functions)) => {
                report.versions.insert(name.to_owned(), functions.version());
            }
            None => report.absent(name, "not installed when this was built"),
        }
    }
}

/// A queue of one of them.
#[derive(Debug)]
pub(super) struct Foreign {
    functions: &'static Functions,
    // Invariant: what `create` returned, which is not null; there is no other copy.
    queue: *mut c_void,
    ids: usize,
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
        // SAFETY: all return a string that ends with 0 and stays.
        let text = unsafe { CStr::from_ptr(text) };
        text.to_string_lossy().into_owned()
    }
}

impl Foreign {
    pub(super) fn new(functions: &'static Functions, ids: usize, due: bool) -> Foreign {
        // SAFETY: any number is good; where it cannot be had, the program ends.
        let queue = unsafe { (functions.create)(ids, due.into()) };
        Foreign {
            functions,
            queue,
            ids,
        }
    }

    /// The ids index a table in C, which does not check them. A release build trusts the script.
    fn debug_assert_known(&self, steps: &[Step]) {
        debug_assert!(steps.iter().all(|step| (step.id as usize) < self.ids));
    }
}

impl PeerQueue for Foreign {
    fn arm(&mut self, steps: &[Step]) {
        self.debug_assert_known(steps);
        // SAFETY: by the invariant of `queue`; `Script` makes ids below `Script::ids` only, which
        // is the argument of `create`; the steps outlive the call.
        unsafe { (self.functions.arm)(self.queue, steps.as_ptr(), steps.len()) }
    }

    fn replace(&mut self, steps: &[Step]) {
        self.debug_assert_known(steps);
        // SAFETY: as in `arm`.
        unsafe { (self.functions.replace)(self.queue, steps.as_ptr(), steps.len()) }
    }

    fn expire(&mut self) -> usize {
        // SAFETY: by the invariant of `queue`.
        unsafe { (self.functions.expire)(self.queue) }
    }

    fn serve(&mut self, steps: &[Step]) -> bool {
        self.debug_assert_known(steps);
        let Some(serve) = self.functions.serve else {
            return false;
        };
        // SAFETY: as in `arm`.
        unsafe { serve(self.queue, steps.as_ptr(), steps.len(), TIMEOUT_MS) };
        true
    }
}

impl Drop for Foreign {
    fn drop(&mut self) {
        // SAFETY: by the invariant of `queue`, which is not used again.
        unsafe { (self.functions.destroy)(self.queue) }
    }
}
