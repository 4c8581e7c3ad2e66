//! The connections of a worker that has died: its descriptor store hands them to the successor.

use std::mem;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::time::{Duration, Instant};

use evcore_handover::{Connection, Error, Result};
use evcore_prefork::Kept;
use rustix::event::{PollFd, PollFlags, Timespec, poll};

use crate::departure::{Answers, Departure};

/// The longest life of a store after its worker has ended. A worker that crashes again and again is
/// started after at most ten seconds.
const PATIENCE: Duration = Duration::from_secs(20);

/// The time without a message after which another channel is opened. If a successor dies after it has
/// taken the channel out of the mailbox and before it greets, nothing reports that.
const SILENCE: Duration = Duration::from_secs(2);

/// The pause after which a full mailbox is tried again.
const PAUSE: Duration = Duration::from_millis(10);

/// Hands the connections to the worker's successor, each with this state. Returns the number of
/// connections that the successor has taken. The others are closed.
pub(crate) fn hand_on(mut kept: Kept, version: u32, state: &[u8]) -> usize {
    let descriptors = mem::take(&mut kept.descriptors);
    hand_on_to(kept.to_successor(), descriptors, version, state)
}

fn hand_on_to(
    successor: BorrowedFd<'_>,
    descriptors: Vec<OwnedFd>,
    version: u32,
    state: &[u8],
) -> usize {
    let count = descriptors.len();
    if count == 0 {
        return 0;
    }
    let until = Instant::now() + PATIENCE;
    let open = |now| Departure::open(successor, version, SILENCE, now);
    let Ok(mut departure) = until_there_is_room(open) else {
        return 0;
    };
    for descriptor in descriptors {
        departure.push(Connection::new(descriptor, state));
    }
    let mut closed = 0;
    while departure.under_way() > 0 {
        let mut answers = Answers::default();
        let result = turn(&mut departure, &mut answers);
        for connection in fewer(answers.refused, &mut closed) {
            departure.push(connection);
        }
        match result {
            Ok(true) => {}
            // The successor has died, has ended the channel, or has not answered for too long.
            Ok(false) | Err(Error::Ended) if Instant::now() < until => {
                let reopen = |now| departure.reopen(successor, version, now);
                if until_there_is_room(reopen).is_err() {
                    break;
                }
            }
            Ok(false) | Err(_) => break,
        }
    }
    count - closed - departure.take_back().len()
}

/// Sends, waits for answers and reads them. Returns false if the successor does not answer for too long.
fn turn(departure: &mut Departure, answers: &mut Answers) -> Result<bool> {
    let now = Instant::now();
    departure.send(now)?;
    if departure.is_overdue(now) {
        return Ok(false);
    }
    let due = departure.due_at().unwrap_or(now);
    wait(departure.descriptor(), due.saturating_duration_since(now));
    departure.read(Instant::now(), answers)?;
    Ok(true)
}

/// Closes an eighth of the connections that a successor has refused, because it lacks room or descriptors for
/// all of them.
fn fewer(mut refused: Vec<Connection>, closed: &mut usize) -> Vec<Connection> {
    let fewer = refused.len().div_ceil(8);
    *closed += fewer;
    refused.truncate(refused.len() - fewer);
    refused
}

/// Waits until the channel is readable. A lack of memory ends the wait early.
fn wait(channel: impl AsFd, limit: Duration) {
    wait_for(&mut [PollFd::new(&channel, PollFlags::IN)], limit);
}

fn wait_for(entries: &mut [PollFd<'_>], limit: Duration) {
    let limit = Timespec::try_from(limit).expect("it is a matter of seconds");
    let _ = poll(entries, Some(&limit));
}

/// Tries again while the mailbox is full, or the kernel has no room.
fn until_there_is_room<T>(mut act: impl FnMut(Instant) -> Result<T>) -> Result<T> {
    let until = Instant::now() + PATIENCE;
    loop {
        match act(Instant::now()) {
            Err(Error::MailboxFull | Error::KernelFull) if Instant::now() < until => {
                wait_for(&mut [], PAUSE);
            }
            result => return result,
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;
    use std::io::{Read, Write};
    use std::os::unix::net::UnixStream;
    use std::thread;

    use evcore_handover::Mailbox;
    use proptest::prelude::*;

    use super::*;

    /// The life of a successor: the batches that it takes, and its end.
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

    /// Takes connections as these successors do, and then takes all others. Returns them when the store
    /// has ended.
    fn take(mut mailbox: Mailbox, lives: Vec<Successor>) -> Vec<OwnedFd> {
        let mut all = Vec::new();
        let lives = lives.into_iter().map(Some).chain(std::iter::repeat(None));
        for life in lives {
            wait(&mailbox, PATIENCE);
            let Ok(Some(mut receiver)) = mailbox.next_receiver() else {
                // The mailbox has ended, because the store has.
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
                    wait(&receiver, PATIENCE);
                }
            }
        }
        unreachable!("the last life has no end");
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
            let taken = hand_on_to(address.as_fd(), kept, 1, b"");
            drop(address);
            let arrived = successors.join().unwrap();
            prop_assert_eq!(arrived.len(), taken);
            let number = |descriptor| {
                let mut bytes = [0; 4];
                UnixStream::from(descriptor).read_exact(&mut bytes).unwrap();
                u32::from_le_bytes(bytes)
            };
            let numbers: BTreeSet<u32> = arrived.into_iter().map(number).collect();
            prop_assert_eq!(numbers.len(), taken, "a connection has arrived twice");
        }
    }
}
