//! Runs random programs over the models of kernels without `Edge`, and compares the reports with
//! those of an oracle.

use std::collections::BTreeMap;

use proptest::prelude::*;

use super::{super::flags::readiness, *};

const FILES: RawFd = 5;

#[derive(Clone, Debug)]
enum Step {
    Add(RawFd, Interest, Mode),
    Modify(u64, Interest),
    Rearm(u64, Interest),
    Remove(u64),
    /// Removes the registration before the close.
    Close(u64),
    /// Closes the descriptor without a removal.
    Lose(RawFd),
    Set(RawFd, c_short),
    Wait(usize),
}

#[derive(Debug)]
struct Row {
    fd: RawFd,
    interest: Interest,
    mode: Mode,
    /// The interest when the last wait began.
    settled: Interest,
    /// The sides of an `Edge` that have reported and were not rearmed.
    masked: Interest,
    /// True if a hang-up or an error of an `Edge` was reported, and no side was rearmed since.
    is_over: bool,
    /// False for a `Oneshot` that has reported, and for a registration that has reported the loss
    /// of its file.
    armed: bool,
    /// True if the file was closed without a removal.
    lost: bool,
    /// All flags that were set since the last report. The event of a port may report any of them.
    seen: c_short,
}

impl Row {
    /// Returns the report for a file whose readiness is `ready`.
    fn report(&self, ready: c_short) -> Option<Ready> {
        let open = self.interest - self.masked;
        let is_silent = self.interest.is_empty() || (open.is_empty() && self.is_over);
        if self.lost || !self.armed || is_silent {
            return None;
        }
        let found = ready & (requested_flags(open) | ERR | HUP);
        let mut reported = readiness(found);
        if reported.is_exceptional() {
            reported |= Ready::answering(self.interest);
        }
        (found != 0).then_some(reported)
    }

    fn settle(&mut self) {
        if self.interest != self.settled {
            self.settled = self.interest;
            (self.masked, self.is_over) = (Interest::NONE, false);
        }
    }

    fn rearm(&mut self, interest: Interest) {
        if self.mode != Mode::Edge {
            return;
        }
        let answered = interest - (interest - self.interest);
        // A side outside of the present interest is unmasked too.
        self.masked -= interest;
        self.is_over &= answered.is_empty();
        // A lost registration is watched again, and found lost again.
        self.armed |= !answered.is_empty();
    }

    fn mask(&mut self, ready: Ready) {
        self.armed &= !self.lost;
        match self.mode {
            Mode::Level | Mode::Exclusive => {}
            Mode::Oneshot => self.armed = false,
            Mode::Edge | Mode::ExclusiveEdge => {
                self.masked |= ready.answered();
                self.is_over |= ready.is_exceptional();
            }
        }
    }
}

#[derive(Debug, Default)]
struct Oracle {
    /// The readiness of each open file.
    files: BTreeMap<RawFd, c_short>,
    rows: BTreeMap<u64, Row>,
    next_key: u64,
}

impl Oracle {
    /// Returns the events of a wait with enough room, except for lost registrations.
    fn expected(&mut self) -> BTreeMap<u64, Ready> {
        self.rows.values_mut().for_each(Row::settle);
        let rows = self.rows.iter();
        let expected = rows.filter_map(|(key, row)| {
            let ready = self.files.get(&row.fd).copied().unwrap_or(0);
            Some((*key, row.report(ready)?))
        });
        expected.collect()
    }

    fn key_at(&self, place: u64) -> Option<u64> {
        let count = self.rows.len() as u64;
        let place = usize::try_from(place.checked_rem(count)?).expect("small");
        self.rows.keys().nth(place).copied()
    }
}

fn interest() -> impl Strategy<Value = Interest> {
    prop::sample::select(vec![
        Interest::NONE,
        Interest::READ,
        Interest::WRITE,
        Interest::BOTH,
    ])
}

fn step() -> impl Strategy<Value = Step> {
    let file = || (0..FILES).prop_map(|file| FIRST + file);
    let mode = prop::sample::select(vec![Mode::Level, Mode::Edge, Mode::Oneshot]);
    let flags = prop::sample::select(vec![0, 0, IN, OUT, IN | OUT, IN | HUP, HUP, ERR]);
    let place = any::<u64>;
    prop_oneof![
        3 => (file(), interest(), mode).prop_map(|(fd, interest, mode)| Step::Add(fd, interest, mode)),
        3 => (place(), interest()).prop_map(|(place, interest)| Step::Modify(place, interest)),
        3 => (place(), interest()).prop_map(|(place, interest)| Step::Rearm(place, interest)),
        1 => place().prop_map(Step::Remove),
        1 => place().prop_map(Step::Close),
        1 => file().prop_map(Step::Lose),
        5 => (file(), flags).prop_map(|(fd, flags)| Step::Set(fd, flags)),
        5 => (1usize..7).prop_map(Step::Wait),
    ]
}

struct Run {
    fixture: Fixture,
    oracle: Oracle,
}

impl Run {
    fn new(kind: Kind, closes_silently: bool) -> Self {
        let fixture = Fixture::new(kind);
        fixture.kernel().device.closes_silently = closes_silently;
        (2..FILES).for_each(|file| fixture.open(FIRST + file));
        let oracle = Oracle {
            files: (0..FILES).map(|file| (FIRST + file, 0)).collect(),
            ..Oracle::default()
        };
        Self { fixture, oracle }
    }

    fn step(&mut self, step: &Step) {
        match *step {
            Step::Add(fd, interest, mode) => self.add(fd, interest, mode),
            Step::Lose(fd) => self.lose(fd),
            Step::Set(fd, ready) => {
                let Some(before) = self.oracle.files.get_mut(&fd) else {
                    return;
                };
                *before = ready;
                self.fixture.set(fd, ready);
                let mut rows = self.oracle.rows.values_mut();
                if let Some(row) = rows.find(|row| row.fd == fd) {
                    row.seen |= ready;
                }
            }
            Step::Wait(room) => {
                self.wait(room);
            }
            Step::Modify(place, _) | Step::Rearm(place, _) => self.change(place, step),
            Step::Remove(place) | Step::Close(place) => self.change(place, step),
        }
    }

    fn change(&mut self, place: u64, step: &Step) {
        let Some(key) = self.oracle.key_at(place) else {
            return;
        };
        let row = self.oracle.rows.get_mut(&key).expect("it is there");
        match *step {
            Step::Modify(_, interest) => {
                self.fixture.modify(key, interest);
                (row.interest, row.armed) = (interest, true);
            }
            Step::Rearm(_, interest) => {
                self.fixture.rearm(key, interest);
                row.rearm(interest);
            }
            Step::Remove(_) => self.remove(key),
            _ => {
                let (fd, lost) = (row.fd, row.lost);
                self.fixture.remove_before_close(key);
                self.oracle.rows.remove(&key);
                if !lost {
                    // Another file gets the number at once.
                    self.fixture.close(fd);
                    self.fixture.open(fd);
                    self.oracle.files.insert(fd, 0);
                }
            }
        }
    }

    /// Removes a registration. A port refuses to end the watch of a number that is not open.
    fn remove(&mut self, key: u64) {
        let removed = self.fixture.poller.remove(key);
        let row = self.oracle.rows.remove(&key).expect("it is there");
        let may_fail = row.lost && self.fixture.kind == Kind::Port;
        assert!(removed.is_ok() || may_fail, "{removed:?}");
    }

    fn add(&mut self, fd: RawFd, interest: Interest, mode: Mode) {
        if self.oracle.rows.values().any(|row| row.fd == fd) {
            return;
        }
        if !self.oracle.files.contains_key(&fd) {
            self.fixture.open(fd);
            self.oracle.files.insert(fd, 0);
        }
        let key = self.oracle.next_key;
        self.oracle.next_key += 1;
        self.fixture.add(fd, key, interest, mode);
        let row = Row {
            fd,
            interest,
            mode,
            settled: interest,
            masked: Interest::NONE,
            is_over: false,
            armed: true,
            lost: false,
            seen: self.oracle.files[&fd],
        };
        self.oracle.rows.insert(key, row);
    }

    fn lose(&mut self, fd: RawFd) {
        let mut rows = self.oracle.rows.values_mut();
        if let Some(row) = rows.find(|row| row.fd == fd && !row.lost) {
            row.lost = true;
            self.fixture.close(fd);
            self.oracle.files.remove(&fd);
        }
    }

    fn wait(&mut self, room: usize) -> Vec<u64> {
        let expected = self.oracle.expected();
        self.fixture.events = Events::bounded(room);
        let reported = self.fixture.wait();
        let trace = || format!("expected {expected:?}, reported {reported:?}");
        assert!(reported.len() >= expected.len().min(room), "{}", trace());
        for (place, (key, ready)) in reported.iter().enumerate() {
            let row = self.oracle.rows.get_mut(key).expect("it is registered");
            let may_report = match self.fixture.kind {
                _ if row.lost => row.armed && !row.interest.is_empty() && ready.is_error(),
                Kind::Port => (row.report(row.seen)).is_some_and(|most| most | *ready == most),
                _ => expected.get(key) == Some(ready),
            };
            assert!(may_report, "{key}: {}", trace());
            row.mask(*ready);
            row.seen = self.oracle.files.get(&row.fd).copied().unwrap_or(0);
            let mut later = reported[place + 1..].iter();
            assert!(later.all(|other| other.0 != *key), "{}", trace());
        }
        reported.into_iter().map(|event| event.0).collect()
    }

    /// Checks that no registration starves with room for `room` events, and that no entry stays in
    /// the kernel after its registration.
    fn settle(&mut self, room: usize) {
        let mut expected: Vec<_> = self.oracle.expected().into_keys().collect();
        // Lost registrations, and reports that do not hold any more, may come first.
        for _ in 0..2 * FILES {
            let reported = self.wait(room);
            expected.retain(|key| !reported.contains(key));
        }
        assert_eq!(expected, [], "never reported");
        while let Some(key) = self.oracle.key_at(0) {
            self.remove(key);
        }
        let every_flag = IN | OUT | PRI | HUP | ERR;
        for fd in self.oracle.files.keys() {
            self.fixture.set(*fd, every_flag);
        }
        assert_eq!(self.fixture.wait(), []);
        self.fixture.costs();
        assert_eq!(self.fixture.try_wait(Some(SECOND)).expect("a wait"), []);
        assert_eq!(self.fixture.costs(), (0, vec![Some(SECOND)]));
    }
}

proptest! {
    #[test]
    fn every_expected_event_is_reported_and_no_other(
        steps in prop::collection::vec(step(), 0..80),
        room in 1usize..4,
        closes_silently in any::<bool>(),
    ) {
        for kind in MASKING {
            let mut run = Run::new(kind, closes_silently);
            for step in &steps {
                run.step(step);
            }
            run.settle(room);
        }
    }
}
