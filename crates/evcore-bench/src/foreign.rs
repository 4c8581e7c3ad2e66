//! The *peers* in C: libraries with which the benchmarks compare the project. Each peer is a table
//! of functions, which a file of `c/` defines.

#![allow(unsafe_code, reason = "it calls C")]

use std::ffi::{c_int, c_long, c_void};
use std::os::fd::OwnedFd;
use std::ptr;
use std::time::Duration;

use crate::pollers::{Pairs, PeerPoller, Ring};
use crate::report::Report;
use crate::timers::{PeerQueue, Step};

/// The layout of `struct peer` in `c/peer.h`, where the functions are described.
#[repr(C)]
pub(crate) struct Functions {
    create: unsafe extern "C" fn(*const OwnedFd, usize, usize, c_int, c_long) -> *mut c_void,
    destroy: unsafe extern "C" fn(*mut c_void),
    arm: unsafe extern "C" fn(*mut c_void, *const Step, usize, c_int),
    expire: unsafe extern "C" fn(*mut c_void) -> usize,
    run: Option<unsafe extern "C" fn(*mut c_void, *const OwnedFd, usize, usize) -> usize>,
    toggle: Option<unsafe extern "C" fn(*mut c_void, usize)>,
    rearm_due: Option<unsafe extern "C" fn(*mut c_void, u64, u64)>,
    option: c_long,
    turns: Option<unsafe extern "C" fn(*mut c_void, *const Step, usize, c_int)>,
}

/// Declares the table of each peer that `build.rs` has compiled.
macro_rules! peers {
    ($($name:expr, $table:ident if $library:ident;)*) => {
        // SAFETY: `build.rs` links the files that define these tables, of type `const struct peer`.
        // Nothing writes to a table, and its functions may be called from any thread.
        unsafe extern "C" {
            $(#[cfg($library)] safe static $table: Functions;)*
        }

        /// The peers that `build.rs` has compiled.
        pub(crate) fn installed() -> Vec<(&'static str, &'static Functions)> {
            vec![$(#[cfg($library)] ($name, &$table)),*]
        }

        /// Records the absence of the other peers.
        pub(crate) fn record_absent(report: &mut Report) {
            for (name, is_here) in [$(($name, cfg!($library))),*] {
                if !is_here {
                    report.absent(name, missing(name));
                }
            }
        }
    };
}

peers! {
    "libev", libev if peer_libev;
    "libevent", libevent if peer_libevent;
    CHANGELIST, libevent_changelist if peer_libevent;
    "libuv", libuv if peer_libuv;
    "nginx's tree", nginx_own if peer_nginx;
    "our C after nginx's tree", nginx_rbtree if peer_nginx_rbtree;
    "our C after nginx's tree, 300 ms", nginx_rbtree_lazy if peer_nginx_rbtree;
}

/// libevent with an option that collects changes of descriptors. Its timers are those of
/// `libevent`, and are not measured again.
pub(crate) const CHANGELIST: &str = "libevent, changelist";

fn missing(peer: &str) -> &'static str {
    match peer {
        "nginx's tree" => "`NGINX_SOURCE` named no source of nginx when this was built",
        _ => "not installed when this was built",
    }
}

impl Functions {
    pub(crate) fn watches(&self) -> bool {
        self.run.is_some()
    }
}

pub(crate) struct Foreign<'a> {
    functions: &'static Functions,
    // Invariant: the pointer that `create` returned, which is not null, and of which no other copy
    // exists.
    this: *mut c_void,
    /// The descriptors that the loop watches, which must stay open.
    watched: &'a [OwnedFd],
    timers: usize,
}

impl<'a> Foreign<'a> {
    /// Creates a loop. `due` is described in `c/peer.h`.
    pub(crate) fn new(
        functions: &'static Functions,
        watched: &'a [OwnedFd],
        timers: usize,
        due: bool,
    ) -> Foreign<'a> {
        let (fds, n) = (watched.as_ptr(), watched.len());
        assert!(n == 0 || timers == 0 || timers == n, "a timer for each");
        // SAFETY: `fds` points to `n` descriptors, each of which is laid out as its number, and
        // they outlive the loop; if the loop cannot be created, the program ends.
        let this = unsafe { (functions.create)(fds, n, timers, due.into(), functions.option) };
        Foreign {
            functions,
            this,
            watched,
            timers,
        }
    }

    fn arm(&mut self, steps: &[Step], disarms: bool) {
        // The ids are indices of a table in C, where nothing checks them. In a release build
        // nothing checks them here either.
        debug_assert!(steps.iter().all(|step| (step.id as usize) < self.timers));
        let (this, arm) = (self.this, self.functions.arm);
        // SAFETY: by the invariant of `this`. All ids of a script are below its number of ids,
        // which was an argument of `create`. The steps outlive the call.
        unsafe { arm(this, steps.as_ptr(), steps.len(), disarms.into()) }
    }
}

impl PeerPoller for Foreign<'_> {
    fn turn(&mut self, timeout: Option<Duration>, _ring: &mut Ring<'_>) {
        assert_eq!(
            timeout,
            Some(Duration::ZERO),
            "a peer in C can only poll without waiting"
        );
        self.expire();
    }

    fn watch_first(&mut self, _starts: bool) {
        unreachable!("a peer in C toggles in one call");
    }

    fn run(&mut self, ring: &mut Ring<'_>) {
        let Pairs { near, far } = ring.pairs;
        let are_these = ptr::eq(self.watched, near.as_slice()) && far.len() == near.len();
        assert!(are_these, "the loop watches the near ends of these pairs");
        let run = self.functions.run.expect("it watches");
        // SAFETY: by the invariant of `this`. The loop uses the indices of its near ends, and there
        // are as many far ends.
        ring.left = unsafe { run(self.this, far.as_ptr(), ring.writes, ring.left) };
    }

    fn toggle(&mut self, times: usize) {
        assert!(!self.watched.is_empty(), "the loop watches a descriptor");
        let toggle = self.functions.toggle.expect("it watches");
        // SAFETY: by the invariant of `this`, which watches a first descriptor.
        unsafe { toggle(self.this, times) }
    }
}

impl PeerQueue for Foreign<'_> {
    fn arm(&mut self, steps: &[Step]) {
        Foreign::arm(self, steps, false);
    }

    fn replace(&mut self, steps: &[Step]) {
        Foreign::arm(self, steps, true);
    }

    fn expire(&mut self) -> usize {
        // SAFETY: by the invariant of `this`.
        unsafe { (self.functions.expire)(self.this) }
    }

    fn rearm_due(&mut self, now: u64, deadline: u64) -> bool {
        let Some(rearm_due) = self.functions.rearm_due else {
            return false;
        };
        // SAFETY: by the invariant of `this`.
        unsafe { rearm_due(self.this, now, deadline) };
        true
    }

    fn turns(&mut self, steps: &[Step], closes: bool) -> bool {
        debug_assert!(steps.iter().all(|step| (step.id as usize) < self.timers));
        let Some(turns) = self.functions.turns else {
            return false;
        };
        // SAFETY: as for `arm`.
        unsafe { turns(self.this, steps.as_ptr(), steps.len(), closes.into()) };
        true
    }
}

impl Drop for Foreign<'_> {
    fn drop(&mut self) {
        // SAFETY: by the invariant of `this`, which is not used again.
        unsafe { (self.functions.destroy)(self.this) }
    }
}
