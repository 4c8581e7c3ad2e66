//! Accepting in a process that has no descriptor left.
//!
//! The limit applies to the whole process, so this test has a process of its own.

#![cfg(target_os = "linux")] // other systems may check the limit at another moment of accept

use std::net::TcpStream;
use std::time::Duration;

use evcore_net::{Accept, Listener, Resource};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::retry_on_intr;
use rustix::process::{self, Rlimit, getrlimit, setrlimit};

#[test]
fn a_client_waits_until_a_descriptor_is_free() {
    let listener = Listener::bind("127.0.0.1:0").unwrap();
    let client = TcpStream::connect(listener.local_addr()).unwrap();
    let mut fds = [PollFd::new(&listener, PollFlags::IN)];
    let deadline = Timespec::try_from(Duration::from_secs(10)).unwrap();
    assert_eq!(
        retry_on_intr(|| poll(&mut fds, Some(&deadline))).unwrap(),
        1
    );

    let before = getrlimit(process::Resource::Nofile);
    setrlimit(
        process::Resource::Nofile,
        Rlimit {
            current: Some(0),
            ..before
        },
    )
    .unwrap();
    let exhausted = listener.accept();
    setrlimit(process::Resource::Nofile, before).unwrap();
    let outcome = exhausted.unwrap();
    assert!(
        matches!(outcome, Accept::Exhausted(Resource::Process)),
        "{outcome:?}"
    );

    match listener.accept().unwrap() {
        Accept::Connection(_, peer) => assert_eq!(peer, client.local_addr().unwrap()),
        outcome => panic!("the client still waits, but accept returned {outcome:?}"),
    }
}
