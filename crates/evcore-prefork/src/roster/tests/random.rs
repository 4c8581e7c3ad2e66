//! Random lives of a server, watched by one who keeps the simplest possible account of them.

use std::collections::{BTreeMap, BTreeSet};

use proptest::prelude::*;

use super::*;
use crate::set::{SETTLED_AFTER, UNSERVED_MAX};

const WORKERS: usize = 2;

#[derive(Clone, Copy, Debug)]
enum Event {
    /// The n-th of those who run ends.
    Ends(usize),
    Refuses(usize),
    Ready(usize),
    /// The next start fails.
    StartFails,
    Passes(Duration),
    Reload,
    Rest,
    Stop(Stop),
}

fn event() -> impl Strategy<Value = Event> {
    prop_oneof![
        6 => (0..8usize).prop_map(Event::Ends),
        1 => (0..8usize).prop_map(Event::Refuses),
        8 => (0..8usize).prop_map(Event::Ready),
        1 => Just(Event::StartFails),
        5 => (0..8000u64).prop_map(|ms| Event::Passes(Duration::from_millis(ms))),
        3 => Just(Event::Reload),
        1 => Just(Event::Rest),
    ]
}

/// What one who watches from outside can know.
struct Watcher {
    roster: Roster,
    now: Instant,
    runs: BTreeMap<Seat, Known>,
    /// The last signal that a bank was sent. Forgotten when nobody of it is left.
    told: BTreeMap<usize, Signal>,
    /// Seats whose workers have served or refused, of the set that is in the bank now.
    settled: BTreeMap<Seat, bool>,
    /// Banks whose set is to serve.
    serving: BTreeSet<usize>,
    /// When a worker was last started for a seat, or could not be, and whether it died young or
    /// could not be started.
    last_start: BTreeMap<Seat, (Instant, bool)>,
    slots_serve_alone: bool,
    next_start_fails: bool,
    wants_nobody: bool,
    done: Option<Outcome>,
}

#[derive(Clone, Copy)]
struct Known {
    since: Instant,
    ready: bool,
}

impl Watcher {
    fn new(slots_serve_alone: bool) -> Self {
        let now = Instant::now();
        Self {
            roster: Roster::new(WORKERS, PATIENCE, now).slots_serve_alone(slots_serve_alone),
            now,
            runs: BTreeMap::new(),
            told: BTreeMap::new(),
            settled: BTreeMap::new(),
            serving: BTreeSet::from([0]),
            last_start: BTreeMap::new(),
            slots_serve_alone,
            next_start_fails: false,
            wants_nobody: false,
            done: None,
        }
    }

    fn happens(&mut self, event: Event) {
        match event {
            Event::Ends(n) => self.ends(n, false),
            Event::Refuses(n) => self.ends(n, true),
            Event::Ready(n) => {
                if let Some(seat) = self.nth(n) {
                    self.runs.get_mut(&seat).unwrap().ready = true;
                    self.settled.insert(seat, true);
                    self.roster.ready(seat);
                }
            }
            Event::StartFails => self.next_start_fails = true,
            Event::Passes(time) => self.now += time,
            Event::Reload => {
                self.wants_nobody = false;
                self.roster.reload();
            }
            Event::Rest => {
                self.wants_nobody = true;
                self.serving.clear();
                self.roster.rest(self.now);
            }
            Event::Stop(stop) => {
                self.wants_nobody = true;
                self.roster.stop(stop, self.now);
            }
        }
        self.settle();
    }

    fn ends(&mut self, n: usize, refused: bool) {
        let Some(seat) = self.nth(n) else { return };
        let known = self.runs.remove(&seat).unwrap();
        let is_young = self.now.duration_since(known.since) < SETTLED_AFTER;
        self.last_start.insert(seat, (known.since, is_young));
        if refused {
            self.settled.insert(seat, false);
        }
        self.roster.ended(seat, refused, self.now);
        if !self.runs.keys().any(|other| other.bank == seat.bank)
            && self.told.remove(&seat.bank).is_some()
        {
            self.settled.retain(|other, _| other.bank != seat.bank);
        }
    }

    fn nth(&self, n: usize) -> Option<Seat> {
        self.runs.keys().nth(n).copied()
    }

    /// Does what the roster says until that is to wait.
    fn settle(&mut self) {
        for _ in 0..200 {
            match self.roster.next(self.now) {
                Action::Start(seat) => self.start(seat),
                Action::Signal(bank, signal) => self.signal(bank, signal),
                Action::Tell(Reload::Begins) => self.new_set(),
                Action::Tell(Reload::Done) => {
                    let newest = self.roster.sets.last().unwrap().bank;
                    self.serving = BTreeSet::from([newest]);
                }
                Action::Tell(Reload::Stuck) => self.check_stuck(),
                Action::Tell(_) => {}
                Action::Wait(until) => {
                    assert!(until > Some(self.now) || until.is_none(), "it would spin");
                    self.check_wait(until);
                    return;
                }
                Action::Done(outcome) => {
                    assert!(self.runs.is_empty(), "somebody is left behind");
                    self.done = Some(outcome);
                    return;
                }
            }
        }
        panic!("it does not come to rest");
    }

    /// No bank is free, and all that are to leave were told so in vain.
    fn check_stuck(&mut self) {
        for bank in 0..SETS_MAX {
            let is_killed = self.told.get(&bank) == Some(&Signal::KILL);
            assert!(
                is_killed || self.serving.contains(&bank),
                "bank {bank} is not stuck"
            );
        }
        assert!(self.serving.len() < 2);
        self.wants_nobody = self.serving.is_empty();
    }

    /// No slot whose clients are served by no worker waits for longer than half a second after the
    /// last start.
    fn check_wait(&self, until: Option<Instant>) {
        if self.wants_nobody {
            return;
        }
        for &bank in &self.serving {
            for index in 0..WORKERS {
                let seat = Seat { bank, index };
                let is_covered = self.runs.keys().any(|other| self.covers(*other, seat));
                if self.settled.get(&seat) == Some(&false) || is_covered {
                    continue;
                }
                let starts = self.last_start.iter();
                let starts = starts.filter(|(other, _)| self.covers(**other, seat));
                let last = starts.map(|(_, (at, _))| *at).max();
                let latest = last.expect("a new set starts at once") + UNSERVED_MAX;
                assert!(
                    until.is_some_and(|until| until <= latest),
                    "{seat:?} is not served"
                );
            }
        }
    }

    /// Whether `worker` serves the clients of `seat`.
    fn covers(&self, worker: Seat, seat: Seat) -> bool {
        self.serving.contains(&worker.bank)
            && (!self.slots_serve_alone || worker.index == seat.index)
    }

    /// Its bank may have seen another set, of which nobody was left to be told anything.
    fn new_set(&mut self) {
        let bank = self.roster.sets.last().unwrap().bank;
        assert!(!self.runs.keys().any(|seat| seat.bank == bank));
        self.settled.retain(|seat, _| seat.bank != bank);
        self.last_start.retain(|seat, _| seat.bank != bank);
        self.serving.insert(bank);
    }

    fn start(&mut self, seat: Seat) {
        assert!(!self.runs.contains_key(&seat), "two in one seat");
        assert!(seat.index < WORKERS && seat.bank < SETS_MAX);
        assert!(!self.told.contains_key(&seat.bank), "they are to go");
        assert_ne!(self.settled.get(&seat), Some(&false), "it has refused");
        assert!(!self.wants_nobody);
        if let Some((last, true)) = self.last_start.get(&seat) {
            let gap = self.now.duration_since(*last);
            assert!(gap >= Duration::from_millis(100), "it would spin");
        }
        if std::mem::take(&mut self.next_start_fails) {
            self.last_start.insert(seat, (self.now, true));
            self.roster.start_failed(seat, self.now);
        } else {
            let since = self.now;
            self.last_start.insert(seat, (since, false));
            self.runs.insert(
                seat,
                Known {
                    since,
                    ready: false,
                },
            );
            self.roster.started(seat, self.now);
        }
    }

    fn signal(&mut self, bank: usize, signal: Signal) {
        let harder = match (self.told.get(&bank), signal) {
            (None, Signal::QUIT | Signal::TERM) => true,
            (Some(&last), Signal::TERM) => last == Signal::QUIT,
            (Some(&last), Signal::KILL) => last == Signal::TERM,
            _ => false,
        };
        assert!(harder, "{signal:?} after {:?}", self.told.get(&bank));
        assert!(
            self.wants_nobody || signal != Signal::QUIT || self.another_serves(bank),
            "bank {bank} is sent away, and nobody is there for it"
        );
        self.told.insert(bank, signal);
        if !self.runs.keys().any(|seat| seat.bank == bank) {
            self.told.remove(&bank);
            self.settled.retain(|seat, _| seat.bank != bank);
        }
    }

    /// Whether there is a bank beside this one, not told to go, whose workers all serve.
    fn another_serves(&self, leaving: usize) -> bool {
        (0..SETS_MAX).any(|bank| {
            let seats = (0..WORKERS).map(|index| Seat { bank, index });
            let mut settled = seats.map(|seat| self.is_settled(seat));
            bank != leaving && !self.told.contains_key(&bank) && settled.all(|settled| settled)
        })
    }

    fn is_settled(&self, seat: Seat) -> bool {
        let known = self.runs.get(&seat);
        self.settled.contains_key(&seat)
            || known.is_some_and(|known| {
                known.ready || self.now.duration_since(known.since) >= PATIENCE.ready
            })
    }
}

proptest! {
    #[test]
    fn every_life_keeps_to_the_rules_and_ends(
        events in prop::collection::vec(event(), 0..120),
        stop in prop_oneof![Just(Stop::Graceful), Just(Stop::Fast)],
        slots_serve_alone: bool,
    ) {
        let mut watcher = Watcher::new(slots_serve_alone);
        watcher.settle();
        for event in events {
            if watcher.done.is_some() {
                break;
            }
            watcher.happens(event);
        }
        if watcher.done.is_some() {
            prop_assert_eq!(watcher.done, Some(Outcome::Refused));
            return Ok(());
        }
        watcher.happens(Event::Stop(stop));
        while watcher.done.is_none() {
            prop_assert!(!watcher.runs.is_empty(), "it waits for nobody");
            watcher.happens(Event::Ends(0));
        }
        prop_assert!(matches!(watcher.done, Some(Outcome::Stopped(_))));
    }
}
