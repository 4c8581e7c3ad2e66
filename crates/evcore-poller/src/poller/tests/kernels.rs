//! The real backends of this system, with descriptor numbers that are not open, and with a
//! forgotten `rearm`.
//!
//! Safe code cannot register a number that is not open. But a registered descriptor may be closed.

use std::{
    io::{Read, Write},
    os::unix::net::UnixStream,
};

use super::*;

#[test]
fn a_number_without_a_file_is_refused() {
    for kind in &BackendKind::usable() {
        let mut poller = Poller::with(*kind).expect("it is available");
        for number in [-100, RawFd::MAX] {
            let refused = poller.add_number(number, 1, Interest::READ, Mode::Level);
            let expected = match refused {
                // `io_uring` makes its first call for the descriptor in the wait.
                Ok(()) => *kind == BackendKind::IoUring && is_an_error(&mut poller),
                Err(Error::BeyondSets { fd, .. }) => *kind == BackendKind::Select && fd == number,
                Err(Error::NotOpen { fd }) => fd == number,
                _ => false,
            };
            assert!(expected, "{kind}: {refused:?}");
        }
    }
}

/// Returns whether a wait reports key 1 as an error, and the next wait does not. Removes the key.
fn is_an_error(poller: &mut Poller) -> bool {
    let mut events = Events::bounded(4);
    let waits = [(); 2].map(|()| {
        poller
            .wait(&mut events, Some(Duration::ZERO))
            .expect("a wait");
        events
            .iter()
            .map(|event| (event.key, event.ready))
            .collect::<Vec<_>>()
    });
    poller.remove(1).expect("registered");
    waits == [vec![(1, Ready::READABLE | Ready::ERROR)], vec![]]
}

#[test]
fn a_change_for_a_number_without_a_file_is_an_error_event() {
    for kind in &BackendKind::usable() {
        let mut poller = Poller::with(*kind).expect("it is available");
        let mut events = Events::bounded(4);
        for number in [-100, RawFd::MAX] {
            let added = poller.add_number(number, 1, Interest::NONE, Mode::Level);
            added.expect("the interest is empty");
            let count = poller.wait(&mut events, Some(Duration::ZERO));
            assert_eq!(count.expect("a wait"), 0, "{kind}");
            poller.modify(1, Interest::READ).expect("registered");
            poller.wait(&mut events, None).expect("a wait");
            let trace: Vec<_> = events
                .iter()
                .map(|event| (event.key, event.ready))
                .collect();
            assert_eq!(trace, [(1, Ready::READABLE | Ready::ERROR)], "{kind}");
            poller.remove(1).expect("registered");
            let count = poller.wait(&mut events, Some(Duration::ZERO));
            assert_eq!(count.expect("a wait"), 0, "{kind}");
        }
    }
}

/// Runs a program that reads each message in `Mode::Edge`. Returns the number of messages that it
/// has read before it would wait for ever.
fn messages_read(kind: BackendKind, rearms: bool) -> u32 {
    const MESSAGES: u32 = 3;
    let mut poller = Poller::with(kind).expect("it is available");
    let mut events = Events::bounded(4);
    let (mut near, mut far) = UnixStream::pair().expect("a pair");
    far.set_nonblocking(true).expect("non-blocking");
    let added = poller.add(&far, 1, Interest::READ, Mode::Edge);
    added.expect("registered");
    for read in 0..MESSAGES {
        near.write_all(b"message").expect("written");
        let count = poller.wait(&mut events, Some(Duration::ZERO));
        if count.expect("a wait") == 0 {
            return read;
        }
        while far.read(&mut [0; 4]).is_ok() {}
        if rearms {
            poller.rearm(1, Interest::READ).expect("registered");
        }
    }
    MESSAGES
}

#[test]
fn a_forgotten_rearm_stalls_a_masked_edge() {
    for kind in &BackendKind::usable() {
        let has_edge = matches!(
            kind,
            BackendKind::Epoll | BackendKind::Kqueue | BackendKind::IoUring
        );
        assert_eq!(messages_read(*kind, true), 3, "{kind}");
        let without_rearm = if has_edge { 3 } else { 1 };
        assert_eq!(messages_read(*kind, false), without_rearm, "{kind}");
    }
}
