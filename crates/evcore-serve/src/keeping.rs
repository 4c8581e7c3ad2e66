//! Hands the connections of a worker that has died to its successor. This runs in the worker's
//! descriptor store, a process that has kept the connections open.

use std::mem;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::time::{Duration, Instant};

use evcore_prefork::Kept;
use rustix::event::{PollFd, PollFlags, Timespec, poll};

use crate::handing_on::HandingOn;

/// Hands the connections to the worker's successor, each with this state. Returns the number of
/// connections that the successor has taken. The others are closed.
pub(crate) fn hand_on(mut kept: Kept, version: u32, state: &[u8]) -> usize {
    let descriptors = mem::take(&mut kept.descriptors);
    hand_on_to(|| kept.to_successor(), descriptors, version, state)
}

/// `successor` returns the successor's mailbox. It is called in each turn, because another worker
/// may serve by then.
fn hand_on_to<'a>(
    successor: impl Fn() -> BorrowedFd<'a>,
    descriptors: Vec<OwnedFd>,
    version: u32,
    state: &[u8],
) -> usize {
    let mut handing_on = HandingOn::new(descriptors, version, state, Instant::now());
    while let Some(due) = handing_on.turn(successor(), Instant::now()) {
        let limit = due.saturating_duration_since(Instant::now());
        wait(handing_on.descriptor(), limit);
    }
    handing_on.end().0
}

/// Waits until the channel is readable, if there is one. An error ends the wait early.
fn wait(channel: Option<impl AsFd>, limit: Duration) {
    let mut entries: Vec<_> = channel
        .iter()
        .map(|channel| PollFd::new(channel, PollFlags::IN))
        .collect();
    let limit = Timespec::try_from(limit).expect("it is a matter of seconds");
    let _ = poll(&mut entries, Some(&limit));
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;
    use std::collections::BTreeSet;
    use std::io::{Read, Write};
    use std::os::unix::net::UnixStream;
    use std::thread;

    use evcore_handover::Mailbox;
    use proptest::prelude::*;

    use super::*;

    const LONG: Duration = Duration::from_secs(60);

    /// The life of a successor: the number of batches that it takes, and its end.
    #[derive(Clone, Debug)]
    enum Successor {
        Dies { taken: usize },
        Refuses { taken: usize },
    }

    fn successors() -> impl Strategy<Value = Vec<Successor>> {
        let one = prop_oneof![
            (0..3_usize).prop_map(|taken| Successor::Dies { taken }),
            (0..3_usize).prop_map(|taken| Successor::Refuses { taken }),
        ];
        prop::collection::vec(one, 0..4)
    }

    /// Takes connections as these successors do, and then takes all others. Returns the connections
    /// when the store has ended.
    fn take(mut mailbox: Mailbox, lives: Vec<Successor>) -> Vec<OwnedFd> {
        let mut all = Vec::new();
        let lives = lives.into_iter().map(Some).chain(std::iter::repeat(None));
        for life in lives {
            wait(Some(&mailbox), LONG);
            let Ok(Some(mut receiver)) = mailbox.next_receiver() else {
                // The mailbox has ended, because the store has ended.
                return all;
            };
            let (most, refuses) = match life {
                Some(Successor::Dies { taken }) => (taken, false),
                Some(Successor::Refuses { taken }) => (taken, true),
                None => (usize::MAX, false),
            };
            let (mut taken, mut has_refused) = (0, false);
            while taken < most || refuses {
                let waits = match receiver.receive() {
                    Ok(Some(batch)) if taken == most && !has_refused => {
                        has_refused = true;
                        batch.refuse();
                        false
                    }
                    Ok(Some(batch)) => {
                        taken += 1;
                        let connections = batch.accept().unwrap_or_default().into_iter();
                        all.extend(connections.map(|connection| connection.descriptor));
                        false
                    }
                    Ok(None) => true,
                    Err(_) => break,
                };
                if waits {
                    wait(Some(&receiver), LONG);
                }
            }
        }
        unreachable!("the last life has no end");
    }

    /// A master that stops closes the mailbox of its own generation before the store reads that
    /// another binary serves.
    #[test]
    fn a_closed_mailbox_loses_nothing_if_there_is_another_successor_later() {
        let (closed, reader) = Mailbox::pair(1).unwrap();
        drop(reader);
        let (address, mailbox) = Mailbox::pair(1).unwrap();
        let successor = thread::spawn(move || take(mailbox, Vec::new()));
        let (_clients, servers): (Vec<_>, Vec<_>) =
            (0..10).map(|_| UnixStream::pair().unwrap()).unzip();
        let kept = servers.into_iter().map(OwnedFd::from).collect();
        let tries = Cell::new(0);
        let address_now = || match tries.replace(tries.get() + 1) {
            0 => closed.as_fd(),
            _ => address.as_fd(),
        };
        assert_eq!(hand_on_to(address_now, kept, 1, b""), 10);
        drop(address);
        assert_eq!(successor.join().unwrap().len(), 10);
    }

    proptest! {
        #![proptest_config(ProptestConfig { cases: 40, ..ProptestConfig::default() })]

        #[test]
        fn each_kept_connection_arrives_once_or_is_closed(
            count in 0..290_usize,
            lives in successors(),
        ) {
            let pairs = (0..count).map(|_| UnixStream::pair().unwrap());
            let (mut clients, servers): (Vec<_>, Vec<_>) = pairs.unzip();
            for (number, client) in clients.iter_mut().enumerate() {
                client.write_all(&u32::try_from(number).unwrap().to_le_bytes()).unwrap();
            }
            let (address, mailbox) = Mailbox::pair(1).unwrap();
            let successors = thread::spawn(move || take(mailbox, lives));
            let kept = servers.into_iter().map(OwnedFd::from).collect();
            let taken = hand_on_to(|| address.as_fd(), kept, 1, b"");
            drop(address);
            let arrived = successors.join().unwrap();
            prop_assert_eq!(arrived.len(), taken);
            // If a connection had arrived twice, its second descriptor would read the end of the
            // stream.
            drop(clients);
            let number = |descriptor| {
                let mut bytes = [0; 4];
                let read = UnixStream::from(descriptor).read_exact(&mut bytes);
                read.is_ok().then(|| u32::from_le_bytes(bytes))
            };
            let numbers: BTreeSet<_> = arrived.into_iter().filter_map(number).collect();
            prop_assert_eq!(numbers.len(), taken, "a connection has arrived twice");
        }
    }
}
