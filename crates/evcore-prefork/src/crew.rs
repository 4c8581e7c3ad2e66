//! The workers that live, as processes: heard, signalled, reaped, and not left behind.

use std::{
    collections::BTreeMap,
    num::NonZeroU32,
    os::{
        fd::{AsFd, BorrowedFd},
        unix::process::ExitStatusExt,
    },
    process::ExitStatus,
    time::Instant,
};

use rustix::{
    io::Errno,
    process::{Pid, Signal, WaitOptions, kill_process, waitpid},
};

use crate::{
    DO_NOT_RESTART, Stop, WorkerExit,
    leash::{Held, News},
    roster::{Roster, Seat},
    signals,
};

/// The roster, and the processes that it speaks of.
///
/// Only this reaps them, so a process id here cannot have passed to another process.
/// If the master leaves early, by an error or by a panic in a hook, its workers are killed.
#[derive(Debug)]
pub(crate) struct Crew {
    pub(crate) roster: Roster,
    /// Workers of a set.
    workers: usize,
    hands: BTreeMap<Seat, Hand>,
}

/// A worker.
#[derive(Debug)]
struct Hand {
    pid: Pid,
    /// None where the worker has closed its end: nothing more is to be heard.
    leash: Option<Held>,
    is_ready: bool,
}

impl Crew {
    pub(crate) fn new(roster: Roster, workers: usize) -> Self {
        let hands = BTreeMap::new();
        Self {
            roster,
            workers,
            hands,
        }
    }

    /// Takes a worker on.
    pub(crate) fn join(&mut self, seat: Seat, pid: Pid, leash: Held, now: Instant) {
        let hand = Hand {
            pid,
            leash: Some(leash),
            is_ready: false,
        };
        self.hands.insert(seat, hand);
        self.roster.started(seat, now);
    }

    /// Sends a signal to every worker of a bank that is not yet reaped.
    pub(crate) fn signal(&self, bank: usize, signal: Signal) {
        for (_, hand) in self.hands.iter().filter(|(seat, _)| seat.bank == bank) {
            hand.signal(signal);
        }
    }

    pub(crate) fn signal_all(&self, signal: Signal) {
        self.hands.values().for_each(|hand| hand.signal(signal));
    }

    /// What to watch for workers that say that they serve.
    pub(crate) fn leashes(&self) -> impl Iterator<Item = BorrowedFd<'_>> {
        let awaited = self.hands.values().filter(|hand| !hand.is_ready);
        awaited.filter_map(|hand| Some(hand.leash.as_ref()?.as_fd()))
    }

    /// Hears who serves, and reports the index and process id of each worker that newly does.
    pub(crate) fn hear(&mut self, mut report: impl FnMut(usize, NonZeroU32)) {
        for (&seat, hand) in self.hands.iter_mut().filter(|(_, hand)| !hand.is_ready) {
            match hand.leash.as_mut().map(Held::news) {
                Some(News::Ready) => {
                    hand.is_ready = true;
                    self.roster.ready(seat);
                    report(seat.index, hand.pid.as_raw_nonzero().unsigned_abs());
                }
                Some(News::Ended) => hand.leash = None,
                Some(News::Nothing) | None => {}
            }
        }
    }

    /// Takes one dead worker off the roster. None: no other is dead.
    ///
    /// Asks for each worker by its id, one `waitpid` each, and so leaves the application's other
    /// children alone.
    pub(crate) fn reap(&mut self, now: Instant) -> Option<WorkerExit> {
        let dead =
            |(&seat, hand): (&Seat, &Hand)| Some((seat, death(hand.pid, WaitOptions::NOHANG)?));
        let (seat, status) = self.hands.iter().find_map(dead)?;
        let hand = self.hands.remove(&seat)?;
        let refused = status.and_then(|status| status.code()) == Some(DO_NOT_RESTART);
        // Ctrl-C comes to the worker and to this process, and may not be on the roster yet.
        let here = Stop::of(signals::here().severity());
        let stop = self.roster.asked(seat.bank).max(here);
        self.roster.ended(seat, refused, now);
        Some(WorkerExit {
            index: seat.index,
            seat: seat.number(self.workers),
            pid: hand.pid.as_raw_nonzero().unsigned_abs(),
            status,
            stop,
        })
    }

    /// In a worker: forgets the siblings, who are not its own to end, and lets go of their leashes.
    pub(crate) fn forget(mut self) {
        self.hands.clear();
    }
}

impl Drop for Crew {
    fn drop(&mut self) {
        self.signal_all(Signal::KILL);
        for hand in self.hands.values() {
            death(hand.pid, WaitOptions::empty());
        }
    }
}

impl Hand {
    fn signal(&self, signal: Signal) {
        // A worker that has died and waits to be reaped is signalled without effect.
        let _ = kill_process(self.pid, signal);
    }
}

/// How the worker ended, if it has: the inner None where somebody else has waited for it.
fn death(pid: Pid, options: WaitOptions) -> Option<Option<ExitStatus>> {
    loop {
        match waitpid(Some(pid), options) {
            Ok(None) => return None,
            Ok(Some((_, status))) => return Some(Some(ExitStatus::from_raw(status.as_raw()))),
            Err(Errno::INTR) => {}
            Err(_) => return Some(None),
        }
    }
}
