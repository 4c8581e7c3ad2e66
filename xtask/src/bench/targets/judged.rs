//! Who is judged: the example server with its policies, as the records call them; no peer.

pub(super) const LEAST_LOADED: &str = "httpd least-loaded";
pub(super) const EXCLUSIVE: &str = "httpd exclusive";
pub(super) const MUTEX: &str = "httpd mutex";

/// The policies by which workers share one listener. With a listener each, who is stopped or
/// blocked has clients of its own, whom nobody else can take.
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
