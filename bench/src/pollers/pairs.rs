//! Pairs of sockets, and as many descriptors as the system lets a process have.

use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

/// Pairs of sockets, none of which blocks: what is written to a far end can be read from the near
/// one of the same index. The near ends are those that are watched.
#[derive(Debug)]
pub(super) struct Pairs {
    pub(super) near: Vec<OwnedFd>,
    pub(super) far: Vec<OwnedFd>,
}

impl Pairs {
    pub(super) fn open(n: usize) -> Pairs {
        let (near, far) = (0..n).map(|_| open_one()).unzip();
        Pairs { near, far }
    }
}

fn open_one() -> (OwnedFd, OwnedFd) {
    let (near, far) = UnixStream::pair().expect("there are descriptors left");
    for end in [&near, &far] {
        end.set_nonblocking(true).expect("a socket can be that");
    }
    (near.into(), far.into())
}

/// Descriptors that are not to be watched: the standard ones, and those of whoever takes part.
const OTHERS: usize = 100;

/// Lets the process have as many descriptors as it may, and returns how many there can be for
/// sockets and the like.
pub(super) fn most_descriptors() -> usize {
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
