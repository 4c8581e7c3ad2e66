//! As many descriptors as the system lets a process have.

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

/// Descriptors that are not watched: the standard ones, and those of the peers.
const OTHERS: usize = 100;

/// Lets the process have as many descriptors as it may, and returns how many there can be for
/// sockets and the like.
pub(crate) fn most() -> usize {
    let limit = getrlimit(Resource::Nofile);
    let raised = Rlimit {
        current: limit.maximum,
        maximum: limit.maximum,
    };
    // Where it is refused, there are as many as before.
    let most = match setrlimit(Resource::Nofile, raised) {
        Ok(()) => limit.maximum,
        Err(_) => limit.current,
    };
    let most = most.and_then(|most| usize::try_from(most).ok());
    most.map_or(usize::MAX, |most| most.saturating_sub(OTHERS))
}
