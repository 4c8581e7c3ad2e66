//! The process at the other end of a Unix socket.

use std::io;

use crate::socket_option;
use crate::stream::Stream;

/// The process, user and group at the other end of a Unix socket. [`Stream::peer_credentials`]
/// returns them.
///
/// The kernel stores them when the peer connects or begins to listen, and does not update them.
///
/// # Examples
///
/// ```
/// # #[cfg(target_os = "linux")] {
/// use evcore_net::Stream;
/// use std::os::{fd::OwnedFd, unix::net::UnixStream};
///
/// let (near, _far) = UnixStream::pair()?;
/// let stream = Stream::from(OwnedFd::from(near));
/// let peer = stream.peer_credentials()?;
/// assert_eq!(peer.process, Some(std::process::id()));
/// # }
/// # Ok::<(), std::io::Error>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub struct PeerCredentials {
    /// The process id; `None` if the peer belongs to a PID namespace that this process does not
    /// see.
    pub process: Option<u32>,
    /// The effective user id.
    pub user: u32,
    /// The effective group id.
    pub group: u32,
}

impl Stream {
    /// Returns the process, user and group at the other end of a Unix socket (`SO_PEERCRED`). Linux
    /// only.
    ///
    /// # Errors
    ///
    /// [`Unsupported`](io::ErrorKind::Unsupported) for TCP, for a stream that is not connected, and
    /// on other systems.
    pub fn peer_credentials(&self) -> io::Result<PeerCredentials> {
        let [process, user, group] = socket_option::peer_credentials(self)?;
        if user == u32::MAX {
            return Err(io::Error::new(
                io::ErrorKind::Unsupported,
                "only the peer of a connected Unix socket has credentials",
            ));
        }
        Ok(PeerCredentials {
            process: (process > 0).then_some(process),
            user,
            group,
        })
    }
}

#[cfg(all(test, target_os = "linux"))]
mod tests {
    use super::*;

    use std::env;

    use crate::loopback::{LOCALHOST, accept_one, connected_pair};
    use crate::{Address, Listener};

    #[test]
    fn both_ends_of_a_unix_socket_see_this_process() {
        let name = format!("evcore-net-{}-credentials", std::process::id());
        let listener = Listener::bind(Address::Unix(env::temp_dir().join(name))).unwrap();
        let client = Stream::connect(listener.local_addr()).unwrap();
        let (server, _) = accept_one(&listener);
        listener.file().unwrap().remove().unwrap();
        let this = PeerCredentials {
            process: Some(std::process::id()),
            user: rustix::process::geteuid().as_raw(),
            group: rustix::process::getegid().as_raw(),
        };
        assert_eq!(client.peer_credentials().unwrap(), this);
        assert_eq!(server.peer_credentials().unwrap(), this);
    }

    #[test]
    fn a_tcp_peer_has_no_credentials() {
        let (server, _client) = connected_pair();
        let error = server.peer_credentials().unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::Unsupported);
        let client = Stream::connect(Listener::bind(LOCALHOST).unwrap().local_addr()).unwrap();
        assert!(client.peer_credentials().is_err());
    }
}
