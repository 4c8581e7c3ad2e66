//! The time since the last packet of a peer.

use std::io;
use std::time::Duration;

use crate::socket;
use crate::stream::Stream;

impl Stream {
    /// Returns the time since the last packet of a TCP peer (of `TCP_INFO`, the smaller one of
    /// `tcpi_last_data_recv` and `tcpi_last_ack_recv`). Linux only.
    ///
    /// Right after an accept, it is the time for which the client has waited in the backlog. It
    /// counts from the handshake, or from the request if one has arrived. The time is a multiple of
    /// the kernel's tick (1 to 10 ms). Costs one system call.
    ///
    /// # Errors
    ///
    /// [`Unsupported`](io::ErrorKind::Unsupported) for a Unix socket, and on other systems.
    ///
    /// # Examples
    ///
    /// ```
    /// # #[cfg(target_os = "linux")] {
    /// use evcore_net::{Accept, Listener, Stream};
    /// use std::time::Duration;
    ///
    /// let listener = Listener::bind("127.0.0.1:0")?;
    /// let _client = Stream::connect(listener.local_addr())?;
    /// if let Accept::Connection(stream, _) = listener.accept()? {
    ///     assert!(stream.since_last_packet()? < Duration::from_secs(60));
    /// }
    /// # }
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[doc(alias = "TCP_INFO")]
    pub fn since_last_packet(&self) -> io::Result<Duration> {
        socket::since_last_packet(self)
    }
}

#[cfg(test)]
mod tests {
    use std::io::ErrorKind;
    use std::os::fd::OwnedFd;

    use super::*;

    #[cfg(target_os = "linux")]
    #[test]
    fn each_packet_restarts_the_time_since_the_last_packet() {
        use std::io::Write;

        use crate::loopback::{connected_pair, wait_readable};

        const SOME: Duration = Duration::from_millis(50);
        let (stream, mut client) = connected_pair();
        while stream.since_last_packet().unwrap() < SOME {
            std::thread::yield_now();
        }
        // The thread may be suspended between the packet and the call.
        let is_short = (0..100).any(|_| {
            client.write_all(b"x").unwrap();
            wait_readable(&stream);
            stream.recv(&mut [0]).unwrap();
            stream.since_last_packet().unwrap() < SOME
        });
        assert!(is_short);
    }

    #[test]
    fn a_unix_socket_has_no_time_of_its_last_packet() {
        let (near, _far) = std::os::unix::net::UnixStream::pair().unwrap();
        let refused = Stream::from(OwnedFd::from(near)).since_last_packet();
        assert_eq!(refused.unwrap_err().kind(), ErrorKind::Unsupported);
    }
}
