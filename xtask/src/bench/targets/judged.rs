//! What the targets judge: httpd with its policies, as the records name them; no peer.

pub(super) const LEAST_LOADED: &str = "httpd least-loaded";
pub(super) const EXCLUSIVE: &str = "httpd exclusive";
pub(super) const MUTEX: &str = "httpd mutex";

/// The policies by which workers share one listener. With a listener each, no other worker can
/// accept the clients of one that is stopped or blocked.
pub(super) const SHARING: [&str; 4] = ["httpd off", MUTEX, EXCLUSIVE, LEAST_LOADED];

/// All: with a listener each, too.
pub(super) const ALL: [&str; 5] = [
    "httpd off",
    MUTEX,
    EXCLUSIVE,
    "httpd reuseport",
    LEAST_LOADED,
];

/// With how many workers.
pub(super) const WORKERS: [u64; 3] = [2, 4, 8];
