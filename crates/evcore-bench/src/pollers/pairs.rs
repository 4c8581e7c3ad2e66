//! Pairs of sockets.

use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;

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
