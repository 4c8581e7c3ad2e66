//! Tests `SplicePipe` while the kernel refuses splice(2) or a pipe. A seccomp filter refuses the
//! call for one thread.

#![cfg(any(target_os = "linux", target_os = "android"))]

use std::io::{ErrorKind, Read, Write};
use std::os::fd::AsFd;
use std::os::unix::net::UnixStream;
use std::thread;

use evcore_net::SplicePipe;
use evcore_testing::without;
use libc::{EINVAL, EMFILE, ENOSYS, EOPNOTSUPP, EPERM, SYS_pipe2, SYS_splice};
use rustix::event::{PollFd, PollFlags, poll};

/// Errors of a kernel without the call, of a kind of file that the call does not support, and of a
/// sandbox that denies the call.
const REFUSALS: [libc::c_int; 4] = [ENOSYS, EINVAL, EOPNOTSUPP, EPERM];

/// More than a pipe and the buffers of two pairs of sockets hold.
const LENGTH: usize = 2 << 20;

/// A session: a client sends into `from`, and the pipe moves the bytes to `to`, which an upstream
/// reads.
struct Session {
    pipe: SplicePipe,
    from: UnixStream,
    to: UnixStream,
    upstream: UnixStream,
}

impl Session {
    fn new() -> Self {
        let ((mut client, from), (to, upstream)) = (pair(), pair());
        from.set_nonblocking(true).unwrap();
        to.set_nonblocking(true).unwrap();
        thread::spawn(move || client.write_all(&sent()));
        Self {
            pipe: SplicePipe::new(),
            from,
            to,
            upstream,
        }
    }

    /// Moves bytes until the client sends no more, or `to` takes no more.
    fn advance(&mut self) -> Advance {
        loop {
            let moved = match self.pipe.is_empty() {
                true => self.pipe.fill_from(&self.from),
                false => self.pipe.drain_to(&self.to),
            };
            match moved {
                Ok(0) => return Advance::End,
                Ok(_) => {}
                Err(error) if error.kind() != ErrorKind::WouldBlock => panic!("{error}"),
                Err(_) if !self.pipe.is_empty() => return Advance::IsFull,
                Err(_) => wait_for(&self.from, PollFlags::IN),
            }
        }
    }

    /// Moves all bytes that are left, while the upstream reads them.
    fn finish(&mut self) -> Vec<u8> {
        let mut upstream = self.upstream.try_clone().unwrap();
        let reader = thread::spawn(move || {
            let mut received = Vec::new();
            upstream.read_to_end(&mut received).unwrap();
            received
        });
        while self.advance() == Advance::IsFull {
            wait_for(&self.to, PollFlags::OUT);
        }
        self.to.shutdown(std::net::Shutdown::Write).unwrap();
        reader.join().unwrap()
    }

    fn is_in_kernel(&self) -> bool {
        format!("{:?}", self.pipe).contains("in_kernel: true")
    }
}

#[derive(Debug, PartialEq)]
enum Advance {
    End,
    IsFull,
}

fn pair() -> (UnixStream, UnixStream) {
    UnixStream::pair().unwrap()
}

fn sent() -> Vec<u8> {
    (0..LENGTH / 4)
        .flat_map(|n| u32::try_from(n).unwrap().to_ne_bytes())
        .collect()
}

fn wait_for(stream: &UnixStream, events: PollFlags) {
    let fd = stream.as_fd();
    poll(&mut [PollFd::from_borrowed_fd(fd, events)], None).unwrap();
}

fn assert_all_arrived(received: &[u8], errno: libc::c_int) {
    assert_eq!(received.len(), LENGTH, "error {errno}");
    assert!(received == sent(), "error {errno}: other bytes");
}

#[test]
fn no_byte_is_lost_if_the_first_splice_is_refused() {
    for (call, errno) in REFUSALS.map(|errno| (SYS_splice, errno)) {
        let mut session = Session::new();
        let received = without(call, errno, || session.finish());
        assert_all_arrived(&received, errno);
        assert!(!session.is_in_kernel());
    }
}

#[test]
fn no_byte_is_lost_without_a_descriptor_for_a_pipe() {
    let mut session = Session::new();
    let received = without(SYS_pipe2, EMFILE, || session.finish());
    assert_all_arrived(&received, EMFILE);
    assert!(!session.is_in_kernel());
}

#[test]
fn no_byte_is_lost_if_splice_is_refused_with_bytes_in_the_pipe() {
    for errno in REFUSALS {
        let mut session = Session::new();
        assert_eq!(session.advance(), Advance::IsFull, "nobody reads");
        let held = session.pipe.len();
        assert!(session.is_in_kernel() && held > 0);

        without(SYS_splice, errno, || {
            // The socket is still full, so the buffer still holds the bytes of the pipe.
            assert_eq!(session.advance(), Advance::IsFull);
            assert!(!session.is_in_kernel());
            assert_eq!(session.pipe.len(), held, "error {errno}");
            assert_all_arrived(&session.finish(), errno);
        });
    }
}

#[test]
fn no_byte_is_lost_if_splice_is_refused_between_two_calls() {
    for errno in REFUSALS {
        let mut session = Session::new();
        let mut received = Vec::new();
        while !session.is_in_kernel() {
            wait_for(&session.from, PollFlags::IN);
            session.pipe.fill_from(&session.from).unwrap();
            while !session.pipe.is_empty() {
                let sent = session.pipe.drain_to(&session.to).unwrap();
                // The bytes are read at once, so that the socket is never full.
                let mut buffer = vec![0; sent];
                session.upstream.read_exact(&mut buffer).unwrap();
                received.extend(buffer);
            }
        }
        without(SYS_splice, errno, || received.extend(session.finish()));
        assert!(!session.is_in_kernel());
        assert_all_arrived(&received, errno);
    }
}
