//! Random programs over the model of a port, against the meaning of the modes; `Edge` is masked.

use std::collections::BTreeMap;

use proptest::prelude::*;

use super::*;

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
    Set(RawFd, c_int),
    Wait(usize),
}

/// A registration in the model.
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
    /// False for a `Oneshot` that has reported.
    armed: bool,
    /// True if the file was closed without a removal.
    lost: bool,
    /// All flags that were set since the last report. An event may report any of them.
    seen: c_int,
}

impl Row {
    fn flags(&self) -> c_int {
        let open = self.interest - self.masked;
        if open.is_empty() && self.is_over {
            return 0;
        }
        super::super::asking(open) | ERR | HUP
    }

    /// Begins a wait.
    fn settle(&mut self) {
        if self.interest != self.settled {
            self.settled = self.interest;
            (self.masked, self.is_over) = (Interest::NONE, false);
        }
    }

    fn rearm(&mut self, interest: Interest) {
        let answered = interest - (interest - self.interest);
        if self.mode == Mode::Edge {
            // A side outside of the present interest is unmasked too.
            self.masked = self.masked - interest;
        }
        if self.mode == Mode::Edge && !answered.is_empty() {
            self.is_over = false;
            // A refused registration is made again.
            self.armed = true;
        }
    }

    fn mask(&mut self, ready: Ready) {
        if self.mode == Mode::Edge {
            self.masked |= ready.answered();
            self.is_over |= ready.is_exceptional();
        }
    }

    fn may_report(&self) -> bool {
        self.armed && !self.interest.is_empty() && (self.lost || self.seen & self.flags() != 0)
    }
}

#[derive(Debug, Default)]
struct Oracle {
    /// The readiness of each open file.
    files: BTreeMap<RawFd, c_int>,
    rows: BTreeMap<u64, Row>,
    next_key: u64,
}

impl Oracle {
    /// The keys that a wait from now on has to report, sooner or later, if nothing changes.
    fn owed(&mut self) -> Vec<u64> {
        self.rows.values_mut().for_each(Row::settle);
        let owed = self.rows.iter().filter(|(_, row)| {
            let ready = self.files.get(&row.fd).copied().unwrap_or(0);
            row.armed && !row.lost && !row.interest.is_empty() && ready & row.flags() != 0
        });
        owed.map(|(key, _)| *key).collect()
    }

    fn key_at(&self, place: u64) -> Option<u64> {
        let count = self.rows.len() as u64;
        let place = usize::try_from(place.checked_rem(count)?).expect("small");
        self.rows.keys().nth(place).copied()
    }

    fn is_watched(&self, fd: RawFd) -> bool {
        self.rows.values().any(|row| row.fd == fd)
    }

    fn reported(&mut self, key: u64, ready: Ready) {
        let files = &self.files;
        let row = self.rows.get_mut(&key).expect("it is registered");
        assert!(row.may_report(), "{key}: {ready:?}, {row:?}");
        row.armed = row.mode != Mode::Oneshot;
        row.mask(ready);
        row.seen = files.get(&row.fd).copied().unwrap_or(0);
        // A lost registration is reported once, and need not be reported again.
        row.armed &= !row.lost;
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
    prop_oneof![
        3 => (file(), interest(), mode).prop_map(|(fd, interest, mode)| Step::Add(fd, interest, mode)),
        3 => (any::<u64>(), interest()).prop_map(|(place, interest)| Step::Modify(place, interest)),
        3 => (any::<u64>(), interest()).prop_map(|(place, interest)| Step::Rearm(place, interest)),
        1 => any::<u64>().prop_map(Step::Remove),
        1 => any::<u64>().prop_map(Step::Close),
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
    fn new() -> Self {
        let fixture = Fixture::new();
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
            Step::Modify(place, interest) => self.modify(place, interest),
            Step::Rearm(place, interest) => {
                let Some(key) = self.oracle.key_at(place) else {
                    return;
                };
                self.fixture
                    .poller
                    .rearm(key, interest)
                    .expect("registered");
                let row = self.oracle.rows.get_mut(&key).expect("it is there");
                row.rearm(interest);
            }
            Step::Remove(place) => {
                let Some(key) = self.oracle.key_at(place) else {
                    return;
                };
                let row = self.oracle.rows.remove(&key).expect("it is there");
                let removed = self.fixture.poller.remove(key);
                assert!(removed.is_ok() || row.lost, "{removed:?}");
            }
            Step::Close(place) => {
                let Some(key) = self.oracle.key_at(place) else {
                    return;
                };
                let row = self.oracle.rows.remove(&key).expect("it is there");
                self.fixture
                    .poller
                    .remove_before_close(key)
                    .expect("registered");
                if !row.lost {
                    self.renew(row.fd);
                }
            }
            Step::Lose(fd) => {
                // Only watched descriptors are closed. Other tests reuse a number meanwhile.
                let mut rows = self.oracle.rows.values_mut();
                if let Some(row) = rows.find(|row| row.fd == fd && !row.lost) {
                    row.lost = true;
                    self.fixture.close(fd);
                    self.oracle.files.remove(&fd);
                }
            }
            Step::Set(fd, flags) => self.set(fd, flags),
            Step::Wait(room) => {
                self.wait(room);
            }
        }
    }

    fn add(&mut self, fd: RawFd, interest: Interest, mode: Mode) {
        if self.oracle.is_watched(fd) {
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
            settled: interest,
            masked: Interest::NONE,
            is_over: false,
            mode,
            armed: true,
            lost: false,
            seen: self.oracle.files[&fd],
        };
        self.oracle.rows.insert(key, row);
    }

    fn modify(&mut self, place: u64, interest: Interest) {
        let Some(key) = self.oracle.key_at(place) else {
            return;
        };
        self.fixture.modify(key, interest);
        let row = self.oracle.rows.get_mut(&key).expect("it is there");
        row.interest = interest;
        row.armed = true;
    }

    fn set(&mut self, fd: RawFd, flags: c_int) {
        let Some(ready) = self.oracle.files.get_mut(&fd) else {
            return;
        };
        *ready = flags;
        self.fixture.set(fd, flags);
        if let Some(row) = self.oracle.rows.values_mut().find(|row| row.fd == fd) {
            row.seen |= flags;
        }
    }

    /// Opens another file under the same number.
    fn renew(&mut self, fd: RawFd) {
        self.fixture.close(fd);
        self.fixture.open(fd);
        self.oracle.files.insert(fd, 0);
    }

    fn wait(&mut self, room: usize) -> Vec<u64> {
        let owed = self.oracle.owed();
        self.fixture.events = Events::bounded(room);
        let reported = self.fixture.wait();
        assert!(
            reported.len() >= owed.len().min(room),
            "{owed:?}, {reported:?}"
        );
        for (place, (key, ready)) in reported.iter().enumerate() {
            assert!(reported[place + 1..].iter().all(|later| later.0 != *key));
            self.oracle.reported(*key, *ready);
        }
        reported.into_iter().map(|event| event.0).collect()
    }

    /// Checks that no registration starves, however small the buffer.
    fn settle(&mut self, room: usize) {
        let mut owed = self.oracle.owed();
        // Lost registrations, and reports that do not hold any more, may come first.
        for _ in 0..2 * FILES {
            let reported = self.wait(room);
            owed.retain(|key| !reported.contains(key));
        }
        assert_eq!(owed, [], "never reported");
    }
}

proptest! {
    #[test]
    fn every_owed_event_is_reported_and_no_other(
        steps in prop::collection::vec(step(), 0..80),
        room in 1usize..4,
    ) {
        let mut run = Run::new();
        for step in &steps {
            run.step(step);
        }
        run.settle(room);
    }
}
