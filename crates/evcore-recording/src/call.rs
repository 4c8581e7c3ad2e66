//! A recorded call: one call of the program, such as a receive from a socket or a read of the
//! clock, with its result.

use std::{fmt, io};

/// A call of the program to the world outside of its event loop, and the result.
#[derive(Clone, PartialEq, Eq)]
pub struct Call {
    /// The call.
    pub what: What,
    /// The number of the stream, listener, connector or pool that was called. Streams have numbers
    /// from 0 in the order in which they began, and so have listeners, connectors and pools. For a
    /// [`Wait`](What::Wait), bits: 1 if a waker ended the wait, 2 if the program has borrowed the
    /// waker's descriptor, 4 if another thread used the loop's own handle. For a
    /// [`Value`](What::Value), 1 if it is from [`Outside::news`](crate::Outside::news). For a
    /// [`Group`](What::Group), 1 if the program calls `Recorder::member` (or `Replay::member`), and
    /// 0 if the member reads its worker group. For a [`Request`](What::Request), its kind. For a
    /// call without any of these, 0.
    pub of: u32,
    /// The result: a number that depends on the call, or an error's negated number.
    pub result: i64,
    /// The bytes that came back. For a [`Send`](What::Send) or a [`Check`](What::Check), a digest
    /// of the bytes that the program passed. For a [`SendFile`](What::SendFile) or a
    /// [`Connect`](What::Connect), the arguments that the program passed. For a
    /// [`Value`](What::Value), its name and the value as JSON.
    pub bytes: Vec<u8>,
}

/// The kind of a call. Its number is part of the format, so new kinds come at the end.
///
/// The text after a colon describes the result of the call, and its bytes if there are any.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
#[non_exhaustive]
pub enum What {
    /// The monotonic clock: nanoseconds.
    Monotonic,
    /// The wall clock: seconds, and the nanoseconds as bytes.
    Wall,
    /// The offset of local time from UTC, in seconds.
    Offset,
    /// A wait of the poller: the number of its events, and their keys and readiness as bytes.
    Wait,
    /// A registration, or a change of one, that the kernel has refused: the error.
    Refused,
    /// An accept of a listener: the number of the stream, and the address of the peer.
    Accept,
    /// A receive from a stream: the number of bytes, and the bytes.
    Recv,
    /// A send to a stream: the number of bytes that were taken.
    Send,
    /// The end of a stream's sending side.
    ShutdownWrite,
    /// A query whether a stream's peer has received all bytes: 1 if it has.
    IsDelivered,
    /// The address of a stream's peer.
    PeerAddr,
    /// The pending error of a stream: 1 if there is one, and the error.
    TakeError,
    /// A stream is dropped.
    Close,
    /// A part of a file that a stream sends: the number of bytes that were taken, and the part's
    /// offset and length.
    SendFile,
    /// A call of a connector: the number of the stream, and the server's address.
    Connect,
    /// A request of another thread to the loop, at the end of a wait. [`of`](Call::of) is its kind:
    /// 0 wakes the loop. 1 shuts the loop down, and the result is the timeout in milliseconds. 2
    /// posts a token, which is the result; the readiness is in the bytes.
    Request,
    /// The number of queries with the answer "nothing" since the previous recorded call. Such a
    /// query has no entry of its own. This entry precedes the first query with another answer.
    Quiet,
    /// A try of a member of the group to take the accept lock: 1 if it got the lock.
    Lock,
    /// Another worker has notified the member of the group.
    Notified,
    /// The state of the worker group, as a member read it.
    Group,
    /// The spread of the connections over the group.
    Spread,
    /// A query of a pool: the number of the job whose result was taken, and the result.
    Job,
    /// A value that the program got from outside by itself.
    Value,
    /// A value of the program. A replay compares its own value with it.
    Check,
    /// The time since the last packet of a stream's peer: nanoseconds.
    SinceLastPacket,
}

impl What {
    /// All kinds, at their numbers.
    const ALL: [Self; 25] = [
        Self::Monotonic,
        Self::Wall,
        Self::Offset,
        Self::Wait,
        Self::Refused,
        Self::Accept,
        Self::Recv,
        Self::Send,
        Self::ShutdownWrite,
        Self::IsDelivered,
        Self::PeerAddr,
        Self::TakeError,
        Self::Close,
        Self::SendFile,
        Self::Connect,
        Self::Request,
        Self::Quiet,
        Self::Lock,
        Self::Notified,
        Self::Group,
        Self::Spread,
        Self::Job,
        Self::Value,
        Self::Check,
        Self::SinceLastPacket,
    ];

    /// Returns whether the bytes come from the program, so that a replay compares them.
    pub(crate) fn compares_bytes(self) -> bool {
        matches!(
            self,
            Self::Send | Self::SendFile | Self::Connect | Self::Check
        )
    }

    pub(crate) fn from_number(number: u8) -> Option<Self> {
        Self::ALL.get(usize::from(number)).copied()
    }
}

impl Call {
    pub(crate) fn new(what: What, of: u32, result: i64) -> Self {
        Self {
            what,
            of,
            result,
            bytes: Vec::new(),
        }
    }

    pub(crate) fn with_bytes(self, bytes: &[u8]) -> Self {
        Self {
            bytes: bytes.to_vec(),
            ..self
        }
    }

    pub(crate) fn error(&self) -> Option<io::Error> {
        let number = i32::try_from(self.result.checked_neg()?)
            .ok()
            .filter(|number| *number > 0)?;
        Some(io::Error::from_raw_os_error(number))
    }

    /// The result of a call that returns a number of bytes.
    pub(crate) fn count(&self) -> io::Result<usize> {
        match self.error() {
            Some(error) => Err(error),
            None => Ok(usize::try_from(self.result).unwrap_or_default()),
        }
    }
}

/// The result of a failed call: the negated number of the error.
pub(crate) fn number_of(error: &io::Error) -> i64 {
    let number = error
        .raw_os_error()
        .unwrap_or_else(|| number_of_kind(error.kind()));
    -i64::from(number.max(1))
}

/// The number of an error that has only a kind. A simulator returns such errors.
fn number_of_kind(kind: io::ErrorKind) -> i32 {
    use rustix::io::Errno;
    let errno = match kind {
        io::ErrorKind::WouldBlock => Errno::AGAIN,
        io::ErrorKind::Interrupted => Errno::INTR,
        io::ErrorKind::BrokenPipe => Errno::PIPE,
        io::ErrorKind::ConnectionReset => Errno::CONNRESET,
        io::ErrorKind::ConnectionAborted => Errno::CONNABORTED,
        io::ErrorKind::ConnectionRefused => Errno::CONNREFUSED,
        io::ErrorKind::HostUnreachable => Errno::HOSTUNREACH,
        io::ErrorKind::NetworkUnreachable => Errno::NETUNREACH,
        io::ErrorKind::NotConnected => Errno::NOTCONN,
        io::ErrorKind::TimedOut => Errno::TIMEDOUT,
        io::ErrorKind::AddrInUse => Errno::ADDRINUSE,
        io::ErrorKind::AddrNotAvailable => Errno::ADDRNOTAVAIL,
        io::ErrorKind::NotFound => Errno::NOENT,
        io::ErrorKind::PermissionDenied => Errno::ACCESS,
        io::ErrorKind::InvalidInput => Errno::INVAL,
        io::ErrorKind::OutOfMemory => Errno::NOMEM,
        io::ErrorKind::Unsupported => Errno::NOSYS,
        _ => Errno::IO,
    };
    errno.raw_os_error()
}

/// Number of bytes that a recording keeps of each send, from the send's beginning.
pub(crate) const HEAD: usize = 32;

/// The offset of the kept bytes in a digest, after the length and the checksum.
pub(crate) const HEAD_AT: usize = 12;

/// A digest of bytes that the program passes: their length, their checksum and the first of them.
pub(crate) struct Digest {
    bytes: [u8; HEAD_AT + HEAD],
    length: usize,
}

impl Digest {
    pub(crate) fn of(bytes: &[u8]) -> Self {
        Self::of_all([bytes])
    }

    /// The digest of several pieces as if they were one.
    pub(crate) fn of_all<'a>(pieces: impl IntoIterator<Item = &'a [u8]>) -> Self {
        let mut digest = [0; HEAD_AT + HEAD];
        let (mut hasher, mut length, mut head) = (crc32fast::Hasher::new(), 0, HEAD_AT);
        for bytes in pieces {
            hasher.update(bytes);
            length += bytes.len() as u64;
            let kept = bytes.len().min(digest.len() - head);
            digest[head..head + kept].copy_from_slice(&bytes[..kept]);
            head += kept;
        }
        digest[..8].copy_from_slice(&length.to_le_bytes());
        digest[8..12].copy_from_slice(&hasher.finalize().to_le_bytes());
        Self {
            bytes: digest,
            length: head,
        }
    }

    pub(crate) fn as_bytes(&self) -> &[u8] {
        &self.bytes[..self.length]
    }
}

/// Shows the bytes as text, with escapes.
impl fmt::Debug for Call {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            what,
            of,
            result,
            bytes,
        } = self;
        write!(f, "{what:?} of {of}: {result}")?;
        match what {
            What::Send | What::Check if bytes.len() >= 12 => {
                let (length, rest) = bytes.split_at(8);
                let (checksum, head) = rest.split_at(4);
                let length = u64::from_le_bytes(length.try_into().unwrap_or_default());
                let checksum = u32::from_le_bytes(checksum.try_into().unwrap_or_default());
                let head = head.escape_ascii();
                write!(
                    f,
                    " of {length} bytes (checksum {checksum:08x}): \"{head}\""
                )
            }
            _ if bytes.is_empty() => Ok(()),
            _ => write!(f, " \"{}\"", bytes.escape_ascii()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_kind_is_found_by_its_number() {
        for (number, what) in What::ALL.into_iter().enumerate() {
            assert_eq!(what as usize, number);
            assert_eq!(What::from_number(what as u8), Some(what));
        }
        assert_eq!(What::from_number(25), None);
    }

    #[test]
    fn an_error_comes_back_as_the_same_error() {
        for kind in [
            io::ErrorKind::WouldBlock,
            io::ErrorKind::Interrupted,
            io::ErrorKind::BrokenPipe,
            io::ErrorKind::ConnectionReset,
            io::ErrorKind::ConnectionAborted,
            io::ErrorKind::ConnectionRefused,
            io::ErrorKind::HostUnreachable,
            io::ErrorKind::NetworkUnreachable,
            io::ErrorKind::NotConnected,
            io::ErrorKind::TimedOut,
            io::ErrorKind::AddrInUse,
            io::ErrorKind::AddrNotAvailable,
            io::ErrorKind::NotFound,
            io::ErrorKind::PermissionDenied,
            io::ErrorKind::InvalidInput,
            io::ErrorKind::OutOfMemory,
            io::ErrorKind::Unsupported,
        ] {
            let call = Call::new(What::Recv, 0, number_of(&kind.into()));
            assert_eq!(call.count().unwrap_err().kind(), kind);
        }
        let number = number_of(&io::Error::from_raw_os_error(24));
        let call = Call::new(What::Accept, 0, number);
        assert_eq!(call.error().unwrap().raw_os_error(), Some(24));
        assert_eq!(Call::new(What::Recv, 0, 7).count().unwrap(), 7);
    }

    #[test]
    fn a_digest_differs_if_a_byte_behind_its_head_does() {
        let (one, mut two) = (vec![b'a'; 100], vec![b'a'; 100]);
        two[99] = b'b';
        assert_ne!(Digest::of(&one).as_bytes(), Digest::of(&two).as_bytes());
        let call = Call::new(What::Send, 3, 100).with_bytes(Digest::of(b"hello\n").as_bytes());
        let text = "Send of 3: 100 of 6 bytes (checksum 363a3020): \"hello\\n\"";
        assert_eq!(format!("{call:?}"), text);
    }
}
