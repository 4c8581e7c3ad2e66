//! What each crate may depend on, with the reason.
//!
//! A line here is how a dependency is decided, and its reason kept.

use By::{Every, Only, Tests};

/// The prefix of all names of crates of this workspace that others may see.
const OURS: &str = "evcore";

/// The leaves. Each is independent: a user of one pulls in one.
pub(super) const LEAVES: &[&str] = &[
    "evcore-token",
    "evcore-clock",
    "evcore-timer",
    "evcore-poller",
    "evcore-posted",
    "evcore-balancer",
    "evcore-accept",
];

/// Crates that only tests may depend on, published or not.
pub(super) const ONLY_IN_TESTS: &[&str] = &["evcore-sim", "evcore-testing", "evcore-tests"];

/// Which of our crates a crate may depend on.
#[derive(Clone, Copy, Debug)]
pub(super) struct Layer {
    /// For what it ships.
    pub(super) normal: Ours,
    /// For its tests and examples.
    pub(super) dev: Ours,
}

/// A set of our own crates.
#[derive(Clone, Copy, Debug)]
pub(super) enum Ours {
    None,
    /// What tests share.
    Testing,
    Leaves,
    /// The facade and what is below it.
    FacadeAndLeaves,
    /// What a server is made of: these, and the supervisor.
    FacadePreforkAndLeaves,
    Any,
}

impl Ours {
    pub(super) fn holds(self, name: &str) -> bool {
        match self {
            Ours::None => false,
            Ours::Testing => name == "evcore-testing",
            Ours::Leaves => LEAVES.contains(&name),
            Ours::FacadeAndLeaves => name == "evcore" || LEAVES.contains(&name),
            Ours::FacadePreforkAndLeaves => {
                name == "evcore-prefork" || Ours::FacadeAndLeaves.holds(name)
            }
            Ours::Any => true,
        }
    }
}

/// The layer of a crate of ours; `None` if the table has none.
pub(super) fn layer(name: &str) -> Option<Layer> {
    let (normal, dev) = match name {
        leaf if LEAVES.contains(&leaf) => (Ours::None, Ours::Testing),
        "evcore" => (Ours::Leaves, Ours::Testing),
        // The caller's hook ties it to the balancer.
        "evcore-prefork" => (Ours::None, Ours::Any),
        "evcore-scheduler" => (Ours::Leaves, Ours::Any),
        "evcore-sim" => (Ours::FacadeAndLeaves, Ours::Any),
        "evcore-httpd" => (Ours::FacadePreforkAndLeaves, Ours::Testing),
        "evcore-testing" => (Ours::None, Ours::None),
        "evcore-tests" | "evcore-bench" => (Ours::Any, Ours::Any),
        "xtask" => (Ours::None, Ours::None),
        _ => return None,
    };
    Some(Layer { normal, dev })
}

/// The crates that may use a crate of others.
#[derive(Debug)]
enum By {
    /// What this crate ships.
    Only(&'static str),
    /// Every crate, in what it ships.
    Every,
    /// Every crate, in its tests and examples.
    Tests,
}

/// The crates of others: the allowed users, the name, and the reason.
#[rustfmt::skip] // A table is read by its columns.
const ALLOWED: &[(By, &str, &str)] = &[
    (Only("evcore-token"), "slab", "the vector of reused slots that most callers already have"),
    (Only("evcore-clock"), "rustix", "clock_gettime with a choice of clock"),
    (Only("evcore-clock"), "jiff", "the local offset from UTC, behind the feature `local-time`"),
    (Only("evcore-scheduler"), "parking_lot", "a mutex without poison, and a wait until an `Instant`"),
    (Only("evcore-poller"), "rustix", "epoll, kqueue, poll, select and ports without errno"),
    (Only("evcore-poller"), "libc", "epoll_pwait2 with a fallback: rustix has it only without"),
    (Only("evcore-posted"), "parking_lot", "the inbox's mutex"),
    (Only("evcore-balancer"), "rustix", "shared memory by mmap, and eventfd"),
    (Only("evcore-accept"), "rustix", "sockets and their options"),
    (Only("evcore-accept"), "libc", "TCP_DEFER_ACCEPT and TCP_FASTOPEN, which rustix leaves out"),
    (Only("evcore-prefork"), "rustix", "waiting for processes, pipes and affinity"),
    (Only("evcore-prefork"), "signal-hook", "signals that arrive as bytes in a pipe"),
    (Only("evcore-prefork"), "libc", "fork and signal masks, which rustix leaves out"),
    (Only("evcore"), "hdrhistogram", "histograms of a fixed size that a record takes little of"),
    (Only("evcore"), "tracing", "events for the subscriber of the application, behind a feature"),
    (Only("evcore-httpd"), "httparse", "the parser of heads"),
    (Only("evcore-httpd"), "httpdate", "the three formats of a date in a header, behind one call"),
    (Only("evcore-httpd"), "mime_guess", "the media types of the extensions of files"),
    (Only("evcore-httpd"), "lexopt", "the command line, in the order in which it was typed"),
    (Only("evcore-httpd"), "rustix", "pipes without waiting, file sizes, limits of descriptors"),
    (Only("evcore-httpd"), "serde", "the fields of the pages in JSON, in their order"),
    (Only("evcore-httpd"), "serde_json", "the pages and log lines in JSON, escaped"),
    (Only("evcore-httpd"), "tracing", "the log of what the event loop does, behind a feature"),
    (Only("evcore-httpd"), "signal-hook", "a write beyond a file's limit fails instead of ending the process"),
    (Only("xtask"), "cargo_metadata", "what cargo knows of the workspace, typed"),
    (Only("xtask"), "regex-lite", "patterns of tidy, small to build"),
    (Only("xtask"), "xflags", "the command line, without syn in the build"),
    (Every, "thiserror", "one error enum in each crate that meets the world"),
    (Every, "loom", "models of what is shared, only under cfg(evcore_loom)"),
    (Tests, "proptest", "random input against a naive oracle"),
    (Tests, "httpdate", "an oracle for the clock's HTTP date"),
    (Tests, "jiff", "an oracle for the clock's calendar"),
    (Tests, "lexopt", "the example cron's options"),
    (Tests, "croner", "the example cron's patterns"),
    (Tests, "mio", "the loop of evcore-accept's example"),
    (Tests, "signal-hook", "signals that the examples of evcore handle as steps"),
    (Tests, "rustls", "the example tls"),
    (Tests, "rustix", "sockets and processes for tests and examples"),
    (Tests, "libc", "fork and signals for tests, which rustix leaves out"),
];

/// Whether `by` may use `name` in what it ships, or, if `dev`, in its tests.
///
/// The tests and the benchmarks of the whole may use anything.
pub(super) fn allows(by: &str, name: &str, dev: bool) -> bool {
    matches!(by, "evcore-tests" | "evcore-bench")
        || ALLOWED
            .iter()
            .filter(|(_, allowed, _)| *allowed == name)
            .any(|(users, _, _)| match users {
                Only(one) => *one == by,
                Every => true,
                Tests => dev,
            })
}

/// Whether `name` is a crate of this workspace.
pub(super) fn is_ours(name: &str) -> bool {
    name == OURS
        || name == "xtask"
        || name
            .strip_prefix(OURS)
            .is_some_and(|rest| rest.starts_with('-'))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ours_are_known_by_name() {
        assert!(is_ours("evcore") && is_ours("evcore-sim") && is_ours("xtask"));
        assert!(!is_ours("rustix") && !is_ours("evcoreish"));
    }

    #[test]
    fn what_tests_may_use_is_not_allowed_to_ship() {
        assert!(allows("evcore-token", "proptest", true));
        assert!(!allows("evcore-token", "proptest", false));
        assert!(!allows("evcore-token", "rustix", false));
        assert!(allows("evcore-clock", "rustix", false));
    }

    #[test]
    fn every_leaf_has_a_layer_with_nothing_of_ours() {
        for leaf in LEAVES {
            let layer = layer(leaf).unwrap();
            assert!(!layer.normal.holds("evcore-token") && !layer.dev.holds("evcore-token"));
        }
    }
}
