//! Runs random programs (sequences of calls to the poller and of changes of the files), and checks
//! the contract by a few rules about the readiness of each file.

use proptest::prelude::*;

use super::*;

/// The size of a buffer that has room for each filter of each file.
const ROOMY: usize = 16;

const FILES: [RawFd; 3] = [A, B, C];

#[derive(Clone, Copy, Debug)]
enum Step {
    Add(usize, Interest, Mode),
    Modify(usize, Interest),
    Rearm(usize, Interest),
    Remove(usize),
    /// Closes a socket or the writing end of a pipe and opens it again, with a
    /// `remove_before_close` or without.
    Reopen(usize, bool, bool),
    Arrive(usize),
    Drain(usize),
    End(usize),
    MakeRoom(usize),
    Fill(usize),
    HangUp(usize, bool),
    /// Shuts the file's own side for writing.
    Shut(usize),
    Wait(usize),
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let file = 0..FILES.len();
    let interest = prop::sample::select(vec![
        Interest::NONE,
        Interest::READ,
        Interest::WRITE,
        Interest::BOTH,
    ]);
    let mode = prop::sample::select(vec![Mode::Level, Mode::Edge, Mode::Oneshot]);
    let step = prop_oneof![
        3 => (file.clone(), interest.clone(), mode).prop_map(|(i, interest, mode)| Step::Add(i, interest, mode)),
        3 => (file.clone(), interest.clone()).prop_map(|(i, interest)| Step::Modify(i, interest)),
        1 => (file.clone(), interest).prop_map(|(i, interest)| Step::Rearm(i, interest)),
        1 => file.clone().prop_map(Step::Remove),
        2 => (file.clone(), any::<bool>(), any::<bool>()).prop_map(|(i, forget, is_pipe)| Step::Reopen(i, forget, is_pipe)),
        3 => file.clone().prop_map(Step::Arrive),
        2 => file.clone().prop_map(Step::Drain),
        1 => file.clone().prop_map(Step::End),
        3 => file.clone().prop_map(Step::MakeRoom),
        2 => file.clone().prop_map(Step::Fill),
        1 => (file.clone(), any::<bool>()).prop_map(|(i, error)| Step::HangUp(i, error)),
        1 => file.prop_map(Step::Shut),
        6 => prop::sample::select(vec![1, 2, 3, ROOMY]).prop_map(Step::Wait),
    ];
    prop::collection::vec(step, 0..80)
}

#[derive(Clone, Copy, Debug, Default)]
struct Known {
    is_pipe: bool,
    incoming: bool,
    ended: bool,
    room: bool,
    hung_up: bool,
    is_shut: bool,
    watch: Option<Watch>,
}

#[derive(Clone, Copy, Debug)]
struct Watch {
    mode: Mode,
    wanted: Interest,
    /// The interest when the last wait began.
    settled: Interest,
    was_modified: bool,
    /// The sides of an `Edge` that have something new to report. For a `Oneshot`, all sides while
    /// it is armed, otherwise none.
    fresh: Interest,
    /// True if the descriptor was closed without a removal.
    stale: bool,
    /// True if the interest has been empty since the addition, so that the backend has no row.
    is_unknown: bool,
}

impl Known {
    fn is_broken(&self) -> bool {
        self.is_pipe && self.hung_up
    }

    fn holds(&self) -> Interest {
        let mut sides = Interest::NONE;
        if !self.is_pipe && (self.incoming || self.ended) {
            sides |= Interest::READ;
        }
        if self.room || self.hung_up || self.is_shut {
            sides |= Interest::WRITE;
        }
        sides
    }

    /// The sides that the kernel reported, without those that the poller added because of a
    /// hang-up.
    fn reported_by_the_kernel(&self, ready: Ready) -> Interest {
        if !self.hung_up {
            return ready.answered();
        }
        let mut sides = Interest::NONE;
        if ready.is_read_closed() {
            sides |= Interest::READ;
        }
        if ready.is_write_closed() {
            sides |= Interest::WRITE;
        }
        sides
    }

    fn news(&mut self, side: Interest) {
        if let Some(watch) = self.watch.as_mut() {
            if watch.mode == Mode::Edge {
                watch.fresh |= side;
            }
        }
    }

    /// The sides that must be reported.
    fn due(&self) -> Interest {
        let Some(watch) = self.watch.filter(|watch| !watch.stale) else {
            return Interest::NONE;
        };
        let sides = common(watch.wanted, self.holds());
        match watch.mode {
            Mode::Level | Mode::Exclusive => sides,
            Mode::Edge | Mode::ExclusiveEdge | Mode::Oneshot => common(sides, watch.fresh),
        }
    }
}

impl Watch {
    fn settle(&mut self) {
        if self.wanted != self.settled {
            self.settled = self.wanted;
            if self.mode == Mode::Edge {
                self.fresh = Interest::BOTH;
            }
        }
        self.was_modified = false;
    }

    fn report(&mut self, sides: Interest) {
        match self.mode {
            Mode::Level | Mode::Exclusive => {}
            Mode::Edge | Mode::ExclusiveEdge => self.fresh -= sides,
            Mode::Oneshot => self.fresh = Interest::NONE,
        }
    }
}

fn common(one: Interest, other: Interest) -> Interest {
    one - (one - other)
}

struct Run {
    fixture: Fixture,
    files: [Known; FILES.len()],
    /// True if changes of a stale registration or of a pipe may have been refused, which takes
    /// another call.
    was_refused: bool,
    /// True if a registration was removed before a close. If a registration began with an empty
    /// interest, its first non-empty interest then takes another call.
    may_have_strays: bool,
}

impl Run {
    fn step(&mut self, step: Step) {
        match step {
            Step::Add(i, interest, mode) => self.add(i, interest, mode),
            Step::Modify(i, interest) => self.modify(i, interest),
            Step::Rearm(i, interest) => {
                let done = self.fixture.poller.rearm(key(i), interest);
                assert_eq!(done.is_ok(), self.files[i].watch.is_some());
            }
            Step::Remove(i) => {
                let watch = self.files[i].watch.take();
                let removed = self.fixture.poller.remove(key(i));
                let may_fail = watch.is_none_or(|watch| watch.stale);
                assert!(removed.is_ok() || may_fail, "{removed:?}");
            }
            Step::Reopen(i, forget, is_pipe) => self.reopen(i, forget, is_pipe),
            Step::Wait(capacity) => self.wait(capacity),
            _ => self.stir(step),
        }
    }

    fn add(&mut self, i: usize, interest: Interest, mode: Mode) {
        let added = self.fixture.try_add(FILES[i], key(i), interest, mode);
        let file = &mut self.files[i];
        assert_eq!(added.is_ok(), file.watch.is_none(), "{added:?}");
        file.watch.get_or_insert(Watch {
            mode,
            wanted: interest,
            settled: interest,
            was_modified: false,
            fresh: Interest::BOTH,
            stale: false,
            is_unknown: interest.is_empty(),
        });
    }

    fn modify(&mut self, i: usize, interest: Interest) {
        let Some(watch) = self.files[i].watch.as_mut().filter(|watch| !watch.stale) else {
            return; // A stale registration would watch the file that now has its number.
        };
        watch.wanted = interest;
        watch.was_modified = true;
        if watch.mode == Mode::Oneshot {
            watch.fresh = Interest::BOTH;
        }
        self.fixture.modify(key(i), interest);
    }

    fn reopen(&mut self, i: usize, forget: bool, is_pipe: bool) {
        let file = &mut self.files[i];
        let is_changed_again =
            file.is_broken() || file.watch.is_some_and(|watch| watch.was_modified);
        if !forget && is_changed_again {
            return; // As in `modify`, the old registration would watch the new file.
        }
        if forget && file.watch.take().is_some() {
            self.may_have_strays = true;
            self.fixture
                .poller
                .remove_before_close(key(i))
                .expect("registered");
        }
        let watch = file.watch.map(|watch| Watch {
            stale: true,
            ..watch
        });
        self.was_refused |= watch.is_some() || is_pipe;
        *file = Known {
            is_pipe,
            watch,
            ..Known::default()
        };
        let mut kernel = self.fixture.kernel();
        kernel.close(FILES[i]);
        if is_pipe {
            kernel.open_pipe(FILES[i]);
        } else {
            kernel.open(FILES[i]);
        }
    }

    fn stir(&mut self, step: Step) {
        let mut kernel = self.fixture.kernel();
        match step {
            // A pipe has no sides to shut, and a broken one reports nothing new.
            Step::Shut(i) if self.files[i].is_pipe => {}
            Step::MakeRoom(i) | Step::HangUp(i, _) if self.files[i].is_broken() => {}
            Step::Arrive(i) => {
                kernel.lower(FILES[i], IN);
                kernel.raise(FILES[i], IN);
                self.files[i].incoming = true;
                self.files[i].news(Interest::READ);
            }
            Step::Drain(i) => {
                kernel.lower(FILES[i], IN);
                self.files[i].incoming = false;
            }
            Step::End(i) => {
                kernel.raise(FILES[i], libc::POLLRDHUP);
                self.files[i].ended = true;
                self.files[i].news(Interest::READ);
            }
            Step::MakeRoom(i) => {
                kernel.raise(FILES[i], OUT);
                self.files[i].room = true;
                self.files[i].news(Interest::WRITE);
            }
            Step::Fill(i) => {
                kernel.lower(FILES[i], OUT);
                self.files[i].room = false;
            }
            Step::HangUp(i, error) => {
                kernel.hang_up(FILES[i], error);
                (self.files[i].ended, self.files[i].hung_up) = (true, true);
                self.files[i].news(Interest::BOTH);
            }
            Step::Shut(i) => {
                kernel.shut(FILES[i]);
                self.files[i].is_shut = true;
                self.files[i].news(Interest::WRITE);
            }
            other => unreachable!("{other:?} is the poller's"),
        }
    }

    fn wait(&mut self, capacity: usize) {
        let mut calls_for_strays = 0;
        for watch in self.files.iter_mut().filter_map(|file| file.watch.as_mut()) {
            watch.settle();
            if watch.is_unknown && !watch.wanted.is_empty() {
                watch.is_unknown = false;
                calls_for_strays += usize::from(self.may_have_strays);
            }
        }
        let due = self.files.map(|file| file.due());
        self.fixture.calls();
        let found = wait_with(&mut self.fixture, capacity);
        let calls = self.fixture.calls().len();

        let mut reported = [Interest::NONE; FILES.len()];
        for event in &found {
            let i = usize::try_from(event.0 & 0xff).expect("small");
            assert_eq!(event.0, key(i));
            assert!(reported[i].is_empty(), "a key twice in a wait");
            reported[i] = self.files[i].reported_by_the_kernel(event.1);
            self.check(i, due[i], *event);
        }
        if capacity == ROOMY {
            assert_eq!(
                reported.map(|ready| ready.is_empty()),
                due.map(|ready| ready.is_empty())
            );
            let expected = 1 + calls_for_strays;
            assert!(calls == expected || self.was_refused, "{calls} calls");
        }
        let is_due = due.iter().any(|sides| !sides.is_empty());
        assert_eq!(
            is_due,
            !found.is_empty(),
            "a wait reports something exactly if something is due"
        );
        for (file, sides) in self.files.iter_mut().zip(reported) {
            if let Some(watch) = file.watch.as_mut().filter(|_| !sides.is_empty()) {
                let reported = if capacity == ROOMY {
                    Interest::BOTH
                } else {
                    sides
                };
                watch.report(reported);
            }
        }
    }

    fn check(&self, i: usize, due: Interest, event: (u64, Ready)) {
        let (file, ready) = (&self.files[i], event.1);
        let reported = file.reported_by_the_kernel(ready);
        assert!(
            !reported.is_empty() && due.contains(reported),
            "{ready:?}, {due:?}"
        );
        let wanted = file.watch.expect("it reported").wanted;
        if ready.is_exceptional() {
            assert!(file.hung_up);
            assert_eq!(
                ready.answered(),
                wanted,
                "reported to every side of interest"
            );
        } else {
            assert_eq!(ready.answered(), reported);
        }
        assert!(file.ended || !ready.is_read_closed());
    }
}

/// The key has the id in the low half, and other bits in the high half. Events must have both.
fn key(i: usize) -> u64 {
    (9 << 32) | i as u64
}

proptest! {
    #[test]
    fn every_program_sees_what_the_contract_promises(
        steps in steps(),
        collects_behind_receipts in any::<bool>(),
    ) {
        let mut run = Run {
            fixture: fixture(),
            files: [Known::default(); FILES.len()],
            was_refused: false,
            may_have_strays: false,
        };
        run.fixture.kernel().queue.collects_behind_receipts = collects_behind_receipts;
        for step in steps {
            run.step(step);
        }
    }
}
