//! Tests of the lifecycle with random sequences of events. An observer keeps its own records of the
//! workers, and checks the actions of the lifecycle against these records.

use std::collections::{BTreeMap, BTreeSet};

use proptest::prelude::*;

use super::{
    super::generation::{STABLE_AFTER, UNSERVED_MAX},
    *,
};

const WORKERS: usize = 2;

#[derive(Clone, Copy, Debug)]
enum Event {
    /// The n-th running worker ends.
    Ends(usize),
    Refuses(usize),
    Ready(usize),
    /// The next start fails.
    StartFails,
    Passes(Duration),
    Reload,
    Drain,
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
        1 => Just(Event::Drain),
    ]
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Sent {
    Stop(Stop),
    Kill,
    Stuck,
}

struct Observer {
    lifecycle: Lifecycle,
    config: Config,
    now: Instant,
    running: BTreeMap<Slot, Known>,
    /// The last request to each row that has a worker.
    sent: BTreeMap<usize, Sent>,
    /// The slots of present generations whose workers were ready (true) or have refused (false).
    settled: BTreeMap<Slot, bool>,
    serving: BTreeSet<usize>,
    /// The last start of each slot's worker, or attempt at one. The flag is true if that worker
    /// crashed early or could not be started.
    last_start: BTreeMap<Slot, (Instant, bool)>,
    next_start_fails: bool,
    wants_no_worker: bool,
    stop: bool,
    done: Option<Outcome>,
}

#[derive(Clone, Copy)]
struct Known {
    since: Instant,
    ready: bool,
}

impl Observer {
    fn new(slots_serve_alone: bool, can_kill: bool) -> Self {
        let now = Instant::now();
        let config = Config {
            slots_serve_alone,
            can_kill,
            ..config(WORKERS)
        };
        Self {
            lifecycle: Lifecycle::new(config, now),
            config,
            now,
            running: BTreeMap::new(),
            sent: BTreeMap::new(),
            settled: BTreeMap::new(),
            serving: BTreeSet::from([0]),
            last_start: BTreeMap::new(),
            next_start_fails: false,
            wants_no_worker: false,
            stop: false,
            done: None,
        }
    }

    fn happens(&mut self, event: Event) {
        match event {
            Event::Ends(n) => self.ends(n, false),
            Event::Refuses(n) => self.ends(n, true),
            Event::Ready(n) => {
                if let Some(slot) = self.nth(n) {
                    self.running.get_mut(&slot).unwrap().ready = true;
                    self.settled.insert(slot, true);
                    self.lifecycle.ready(slot);
                }
            }
            Event::StartFails => self.next_start_fails = true,
            Event::Passes(time) => self.now += time,
            Event::Reload => {
                self.wants_no_worker = false;
                self.lifecycle.reload();
            }
            Event::Drain => {
                self.wants_no_worker = true;
                self.serving.clear();
                self.lifecycle.drain(self.now);
            }
            Event::Stop(stop) => {
                self.wants_no_worker = true;
                self.stop = true;
                self.lifecycle.stop(stop, self.now);
            }
        }
        self.perform_actions();
    }

    fn ends(&mut self, n: usize, refused: bool) {
        if let Some(slot) = self.nth(n) {
            self.ends_at(slot, refused);
        }
    }

    fn ends_at(&mut self, slot: Slot, refused: bool) {
        let known = self.running.remove(&slot).unwrap();
        let is_early = self.now.duration_since(known.since) < STABLE_AFTER;
        self.last_start.insert(slot, (known.since, is_early));
        if refused {
            self.settled.insert(slot, false);
        }
        self.lifecycle.ended(slot, refused, self.now);
        if !self.has_workers(slot.row) && self.sent.remove(&slot.row).is_some() {
            self.settled.retain(|other, _| other.row != slot.row);
        }
    }

    fn nth(&self, n: usize) -> Option<Slot> {
        self.running.keys().nth(n).copied()
    }

    fn has_workers(&self, row: usize) -> bool {
        self.running.keys().any(|slot| slot.row == row)
    }

    fn perform_actions(&mut self) {
        for _ in 0..200 {
            match self.lifecycle.next(self.now) {
                Action::Start(slot) => self.start(slot),
                Action::Stop(row, stop) => self.send(row, Sent::Stop(stop)),
                Action::Kill(row) => self.send(row, Sent::Kill),
                Action::ReportStuck(row) => self.send(row, Sent::Stuck),
                Action::Abandon(row) => self.abandon(row),
                Action::Report(Reload::Started) => self.new_generation(),
                Action::Report(Reload::Done) => {
                    let newest = self.lifecycle.generations.last().unwrap().row;
                    self.serving = BTreeSet::from([newest]);
                }
                Action::Report(Reload::Stuck) => self.check_stuck(),
                Action::Report(_) => {}
                Action::Wait(until) => {
                    assert!(
                        until > Some(self.now) || until.is_none(),
                        "the master would spin"
                    );
                    self.check_wait(until);
                    return;
                }
                Action::Done(outcome) => {
                    assert!(self.running.is_empty(), "a worker is left");
                    self.done = Some(outcome);
                    return;
                }
            }
        }
        panic!("the lifecycle never waits");
    }

    /// Checks that each row serves, or has stuck workers.
    fn check_stuck(&mut self) {
        for row in 0..GENERATIONS_MAX {
            let is_stuck = self.sent.get(&row) == Some(&Sent::Stuck);
            assert!(
                is_stuck || self.serving.contains(&row),
                "row {row} is not stuck"
            );
        }
        assert!(self.serving.len() < 2);
        self.wants_no_worker = self.serving.is_empty();
    }

    /// Checks that a slot whose clients no worker serves waits at most half a second after the last
    /// start.
    fn check_wait(&self, until: Option<Instant>) {
        if self.wants_no_worker {
            return;
        }
        for &row in &self.serving {
            for index in 0..WORKERS {
                let slot = Slot { row, index };
                let is_covered = self.running.keys().any(|other| self.covers(*other, slot));
                if self.settled.get(&slot) == Some(&false) || is_covered {
                    continue;
                }
                let starts = self.last_start.iter();
                let starts = starts.filter(|(other, _)| self.covers(**other, slot));
                let last = starts.map(|(_, (at, _))| *at).max();
                let latest = last.expect("a new generation starts at once") + UNSERVED_MAX;
                assert!(
                    until.is_some_and(|until| until <= latest),
                    "{slot:?} is not served"
                );
            }
        }
    }

    /// Returns whether `worker` serves the clients of `slot`.
    fn covers(&self, worker: Slot, slot: Slot) -> bool {
        self.serving.contains(&worker.row)
            && (!self.config.slots_serve_alone || worker.index == slot.index)
    }

    /// Records a new generation. Its row may have belonged to an earlier one, whose workers have
    /// ended.
    fn new_generation(&mut self) {
        let row = self.lifecycle.generations.last().unwrap().row;
        assert!(!self.has_workers(row));
        self.settled.retain(|slot, _| slot.row != row);
        self.last_start.retain(|slot, _| slot.row != row);
        self.serving.insert(row);
    }

    fn start(&mut self, slot: Slot) {
        assert!(!self.running.contains_key(&slot), "two workers in one slot");
        assert!(slot.index < WORKERS && slot.row < GENERATIONS_MAX);
        assert!(
            !self.sent.contains_key(&slot.row),
            "a row that is stopping starts a worker"
        );
        assert_ne!(
            self.settled.get(&slot),
            Some(&false),
            "a worker that has refused is replaced"
        );
        assert!(!self.wants_no_worker);
        if let Some((last, true)) = self.last_start.get(&slot) {
            let gap = self.now.duration_since(*last);
            assert!(gap >= Duration::from_millis(100), "the master would spin");
        }
        let since = self.now;
        if std::mem::take(&mut self.next_start_fails) {
            self.last_start.insert(slot, (since, true));
            self.lifecycle.start_failed(slot, since);
        } else {
            let ready = false;
            self.last_start.insert(slot, (since, false));
            self.running.insert(slot, Known { since, ready });
            self.lifecycle.started(slot, since);
        }
    }

    /// Records a request, and checks that it is the step after the last one.
    fn send(&mut self, row: usize, sent: Sent) {
        let last = self.sent.get(&row).copied();
        let last_resort = if self.config.can_kill {
            Sent::Kill
        } else {
            Sent::Stop(Stop::Fast)
        };
        let is_harder = match sent {
            Sent::Stop(Stop::Graceful) => last.is_none(),
            Sent::Stop(Stop::Fast) => matches!(last, None | Some(Sent::Stop(Stop::Graceful))),
            Sent::Kill => self.config.can_kill && last == Some(Sent::Stop(Stop::Fast)),
            Sent::Stuck => last == Some(last_resort),
        };
        assert!(is_harder, "{sent:?} after {last:?}");
        assert!(
            self.wants_no_worker || sent != Sent::Stop(Stop::Graceful) || self.another_serves(row),
            "row {row} is stopped, and no other is ready"
        );
        assert!(
            sent != Sent::Stuck || self.config.can_kill || !self.stop,
            "threads are abandoned when all must end"
        );
        self.sent.insert(row, sent);
        if !self.has_workers(row) {
            self.sent.remove(&row);
            self.settled.retain(|slot, _| slot.row != row);
        }
    }

    /// Abandons the threads of a row, after a stop of the server.
    fn abandon(&mut self, row: usize) {
        assert!(self.stop && !self.config.can_kill);
        let last = self.sent.get(&row);
        assert!(
            matches!(last, Some(Sent::Stop(Stop::Fast) | Sent::Stuck)),
            "abandoned after {last:?}"
        );
        assert!(self.has_workers(row));
        for slot in self
            .running
            .clone()
            .into_keys()
            .filter(|one| one.row == row)
        {
            self.ends_at(slot, false);
        }
    }

    /// Returns whether another row, which was sent nothing, has workers that are all ready or have
    /// refused.
    fn another_serves(&self, leaving: usize) -> bool {
        (0..GENERATIONS_MAX).any(|row| {
            let slots = (0..WORKERS).map(|index| Slot { row, index });
            let mut settled = slots.map(|slot| self.is_settled(slot));
            row != leaving && !self.sent.contains_key(&row) && settled.all(|settled| settled)
        })
    }

    fn is_settled(&self, slot: Slot) -> bool {
        let known = self.running.get(&slot);
        self.settled.contains_key(&slot)
            || known.is_some_and(|known| {
                known.ready || self.now.duration_since(known.since) >= TIMEOUTS.ready
            })
    }
}

proptest! {
    #[test]
    fn every_life_keeps_the_rules_and_ends(
        events in prop::collection::vec(event(), 0..120),
        stop in prop_oneof![Just(Stop::Graceful), Just(Stop::Fast)],
        slots_serve_alone: bool,
        can_kill: bool,
    ) {
        let mut observer = Observer::new(slots_serve_alone, can_kill);
        observer.perform_actions();
        for event in events {
            if observer.done.is_some() {
                break;
            }
            observer.happens(event);
        }
        if observer.done.is_some() {
            prop_assert_eq!(observer.done, Some(Outcome::AllRefused));
            return Ok(());
        }
        observer.happens(Event::Stop(stop));
        while observer.done.is_none() {
            prop_assert!(!observer.running.is_empty(), "the lifecycle waits although no worker is left");
            observer.happens(Event::Ends(0));
        }
        prop_assert!(matches!(observer.done, Some(Outcome::Stopped(_))));
    }

    #[test]
    fn threads_that_never_stop_do_not_delay_the_end(
        events in prop::collection::vec(event(), 0..60),
        stop in prop_oneof![Just(Stop::Graceful), Just(Stop::Fast)],
    ) {
        let mut observer = Observer::new(false, false);
        observer.perform_actions();
        for event in events {
            if observer.done.is_some() {
                return Ok(());
            }
            observer.happens(event);
        }
        observer.happens(Event::Stop(stop));
        observer.happens(Event::Passes(TIMEOUTS.stop));
        observer.happens(Event::Passes(Duration::from_secs(1)));
        prop_assert!(observer.done.is_some());
    }
}
