//! The limit on the descriptors of a test's process.

use std::sync::OnceLock;

use rustix::process::{Resource, getrlimit, setrlimit};

/// A number of descriptors that is enough for all tests of a test program, which run in parallel.
const MANY: u64 = 20_000;

/// Sets this process's limit on open descriptors to 20,000, or to the hard limit if that is lower.
/// Returns the limit. The default limit is often 1,024, too low for a test with thousands of
/// sockets.
///
/// # Panics
///
/// If the limit cannot be set.
pub fn allow_many_descriptors() -> u64 {
    static LIMIT: OnceLock<u64> = OnceLock::new();
    *LIMIT.get_or_init(|| {
        let mut limit = getrlimit(Resource::Nofile);
        let allowed = limit.maximum.map_or(MANY, |most| most.min(MANY));
        limit.current = Some(allowed);
        setrlimit(Resource::Nofile, limit)
            .expect("a process may raise its limit to the hard limit");
        allowed
    })
}
