//! The connections of a worker that has died: its descriptor store hands them to the successor.

use std::os::fd::AsFd;
use std::time::{Duration, Instant};

use evcore_handover::{Connection, Error, Result};
use evcore_prefork::Kept;
use rustix::event::{PollFd, PollFlags, Timespec, poll};

use crate::departure::{Answers, Departure};

/// The longest time without a message of a successor. A worker that crashes again and again is started
/// after at most ten seconds.
const PATIENCE: Duration = Duration::from_secs(20);

/// The pause after which a full mailbox is tried again.
const PAUSE: Duration = Duration::from_millis(10);

/// Hands the connections to the worker's successor, each with this state. Returns the number of those that
/// it has taken. The others are closed.
pub(crate) fn hand_on(mut kept: Kept, version: u32, state: &[u8]) -> usize {
    let descriptors = std::mem::take(&mut kept.descriptors);
    let count = descriptors.len();
    if count == 0 {
        return 0;
    }
    let Some(mut departure) = open(&kept, version) else {
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
            // The successor has died, or has ended the channel.
            Err(Error::Ended) if reopen(&mut departure, &kept, version) => {}
            Ok(false) | Err(_) => break,
        }
    }
    count - closed - departure.take_back().len()
}

/// Sends, waits for answers and reads them. Returns false if the successor lets it wait for too long.
fn turn(departure: &mut Departure, answers: &mut Answers) -> Result<bool> {
    let now = Instant::now();
    departure.send(now)?;
    if departure.is_overdue(now) {
        return Ok(false);
    }
    let due = departure.due_at().unwrap_or(now);
    wait(&*departure, due.saturating_duration_since(now));
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

fn open(kept: &Kept, version: u32) -> Option<Departure> {
    until_there_is_room(|now| Departure::open(kept.to_successor(), version, PATIENCE, now)).ok()
}

fn reopen(departure: &mut Departure, kept: &Kept, version: u32) -> bool {
    until_there_is_room(|now| departure.reopen(kept.to_successor(), version, now)).is_ok()
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
