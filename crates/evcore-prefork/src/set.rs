//! One set of workers: a slot for each index, all started for the same reason and sent away
//! together.

use std::time::{Duration, Instant};

use crate::stopping::Stopping;

/// A worker that lived this long was well: its replacement is started at once.
pub(crate) const SETTLED_AFTER: Duration = Duration::from_secs(1);

/// The first pause before a worker that died young is replaced; each further one doubles it.
const PAUSE_MIN: Duration = Duration::from_millis(100);

/// The longest pause, while another worker serves the slot's clients.
const PAUSE_MAX: Duration = Duration::from_secs(10);

/// The longest time from one start to the next while no worker serves the slot's clients: nginx's
/// `accept_mutex_delay`, by its default.
pub(crate) const UNSERVED_MAX: Duration = Duration::from_millis(500);

/// Slots, and how far the set's leaving has come.
#[derive(Debug)]
pub(crate) struct Set {
    /// Which of the supervisor's banks of seats it fills.
    pub(crate) bank: usize,
    slots: Vec<Slot>,
    /// None while it is to serve.
    pub(crate) leaving: Option<Stopping>,
}

/// Whether a set can take over from an older one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Relief {
    /// Each of its workers serves, or has served, or wants to be none; and not all want that.
    Ready,
    /// No news, and this is so.
    ReadyAt(Instant),
    /// Not before something happens.
    NotYet,
}

impl Set {
    /// `workers` slots, all due at `now`.
    pub(crate) fn new(bank: usize, workers: usize, now: Instant) -> Self {
        let slot = Slot {
            state: State::Due(now),
            failures: 0,
            last_start: None,
            has_served: false,
        };
        Self {
            bank,
            slots: vec![slot; workers],
            leaving: None,
        }
    }

    pub(crate) fn started(&mut self, index: usize, now: Instant) {
        let slot = &mut self.slots[index];
        slot.state = State::Runs { since: now };
        slot.last_start = Some(now);
    }

    /// The slot has no worker: it counts as one that died young.
    pub(crate) fn start_failed(&mut self, index: usize, now: Instant) {
        let slot = &mut self.slots[index];
        slot.last_start = Some(now);
        slot.fail(now);
    }

    pub(crate) fn ready(&mut self, index: usize) {
        self.slots[index].has_served = true;
    }

    /// The slot's worker is gone, and has `refused` to be replaced or not.
    pub(crate) fn ended(&mut self, index: usize, refused: bool, now: Instant) {
        let slot = &mut self.slots[index];
        let State::Runs { since } = slot.state else {
            debug_assert!(false, "slot {index} had no worker that could end");
            return;
        };
        if refused {
            slot.state = State::Closed;
        } else if now.saturating_duration_since(since) < SETTLED_AFTER {
            slot.fail(now);
        } else {
            slot.failures = 0;
            slot.state = State::Due(now);
        }
    }

    pub(crate) fn leave(&mut self, stopping: Stopping) {
        debug_assert!(self.leaving.is_none(), "a set is sent away once");
        self.leaving = Some(stopping);
    }

    pub(crate) fn serves(&self) -> bool {
        self.leaving.is_none()
    }

    /// Nobody runs.
    pub(crate) fn is_empty(&self) -> bool {
        !self.slots.iter().any(|slot| slot.runs_since().is_some())
    }

    /// All its workers have asked not to be replaced.
    pub(crate) fn is_closed(&self) -> bool {
        self.slots.iter().all(|slot| slot.state == State::Closed)
    }

    /// The slots that wait for a worker.
    pub(crate) fn due(&self) -> impl Iterator<Item = Due> {
        let due = |(index, slot): (usize, &Slot)| match slot.state {
            State::Due(at) => Some(Due {
                at,
                index,
                failures: slot.failures,
            }),
            State::Runs { .. } | State::Closed => None,
        };
        self.slots.iter().enumerate().filter_map(due)
    }

    /// What a slot that waits for a worker has of its neighbours in this set.
    pub(crate) fn cover(&self) -> Cover {
        self.slots.iter().map(Slot::cover).collect()
    }

    /// The same of one slot alone.
    pub(crate) fn cover_at(&self, index: usize) -> Cover {
        self.slots[index].cover()
    }

    /// Whether it can take over. A worker that says nothing is taken to serve after
    /// `ready_timeout`.
    pub(crate) fn relief(&self, ready_timeout: Duration, now: Instant) -> Relief {
        if self.is_closed() {
            return Relief::NotYet;
        }
        let mut last = now;
        for slot in &self.slots {
            match slot.serves_at(ready_timeout, now) {
                Some(at) => last = last.max(at),
                None => return Relief::NotYet,
            }
        }
        if last <= now {
            Relief::Ready
        } else {
            Relief::ReadyAt(last)
        }
    }
}

/// A slot that waits for a worker.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Due {
    /// When its pause ends.
    pub(crate) at: Instant,
    pub(crate) index: usize,
    failures: u32,
}

impl Due {
    /// When to start its worker. While no other serves its clients, the pause is shorter, and
    /// counted from the last start: so a worker that lived for a moment is replaced at once, and
    /// workers that die at once are not started in a busy loop.
    pub(crate) fn start_at(self, cover: Cover) -> Instant {
        match cover.last_start {
            Some(last) if !cover.lives => {
                self.at.min(last + pause(self.failures).min(UNSERVED_MAX))
            }
            _ => self.at,
        }
    }
}

/// What is known of the slots that serve the same clients.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Cover {
    /// Whether a worker of theirs lives.
    lives: bool,
    /// When one was last started, or could not be.
    last_start: Option<Instant>,
}

impl FromIterator<Cover> for Cover {
    fn from_iter<I: IntoIterator<Item = Cover>>(covers: I) -> Self {
        let add = |one: Self, other: Self| Self {
            lives: one.lives || other.lives,
            last_start: one.last_start.max(other.last_start),
        };
        covers.into_iter().fold(Self::default(), add)
    }
}

#[derive(Clone, Debug)]
struct Slot {
    state: State,
    /// Young deaths and failed starts in a row.
    failures: u32,
    /// When a worker was last started, or could not be.
    last_start: Option<Instant>,
    /// Whether a worker of this slot, dead or alive, has said that it serves.
    has_served: bool,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum State {
    Due(Instant),
    Runs {
        since: Instant,
    },
    /// Its worker asked not to be replaced.
    Closed,
}

impl Slot {
    fn fail(&mut self, now: Instant) {
        self.failures = self.failures.saturating_add(1);
        self.state = State::Due(now + pause(self.failures));
    }

    fn cover(&self) -> Cover {
        Cover {
            lives: self.runs_since().is_some(),
            last_start: self.last_start,
        }
    }

    fn runs_since(&self) -> Option<Instant> {
        match self.state {
            State::Runs { since } => Some(since),
            State::Due(_) | State::Closed => None,
        }
    }

    /// When it is as good as it will get, if nothing happens. None: never.
    fn serves_at(&self, ready_timeout: Duration, now: Instant) -> Option<Instant> {
        match self.state {
            _ if self.has_served => Some(now),
            State::Closed => Some(now),
            // A timeout past the clock's end never comes.
            State::Runs { since } => since.checked_add(ready_timeout),
            State::Due(_) => None,
        }
    }
}

/// The pause after so many failures in a row.
fn pause(failures: u32) -> Duration {
    // 2^16 times the least pause is past the greatest, and far from overflow.
    let doublings = failures.saturating_sub(1).min(16);
    (PAUSE_MIN * (1 << doublings)).min(PAUSE_MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    const READY_TIMEOUT: Duration = Duration::from_secs(5);

    fn first_due(set: &Set) -> Option<(Instant, usize)> {
        set.due().min().map(|due| (due.at, due.index))
    }

    /// A set whose workers all run since `now`.
    fn running(workers: usize, now: Instant) -> Set {
        let mut set = Set::new(0, workers, now);
        for index in 0..workers {
            assert_eq!(first_due(&set), Some((now, index)));
            set.started(index, now);
        }
        assert_eq!(first_due(&set), None);
        set
    }

    #[test]
    fn pauses_double_from_a_tenth_of_a_second_to_ten() {
        let pauses: Vec<_> = (1..=9).map(|n| pause(n).as_millis()).collect();
        assert_eq!(
            pauses,
            [100, 200, 400, 800, 1600, 3200, 6400, 10_000, 10_000]
        );
        assert_eq!(pause(u32::MAX), PAUSE_MAX);
    }

    #[test]
    fn a_settled_worker_is_due_at_once() {
        let start = Instant::now();
        let mut set = running(2, start);
        let end = start + SETTLED_AFTER;
        set.ended(1, false, end);
        assert_eq!(first_due(&set), Some((end, 1)));
    }

    #[test]
    fn a_worker_that_dies_young_is_due_after_growing_pauses() {
        let mut now = Instant::now();
        let mut set = running(1, now);
        for failures in 1..=10 {
            now += SETTLED_AFTER - Duration::from_nanos(1);
            set.ended(0, false, now);
            now += pause(failures);
            assert_eq!(first_due(&set), Some((now, 0)));
            set.started(0, now);
        }
    }

    #[test]
    fn one_long_life_forgives_the_young_deaths_before_it() {
        let mut now = Instant::now();
        let mut set = running(1, now);
        for _ in 0..3 {
            set.ended(0, false, now);
            now += PAUSE_MAX;
            set.started(0, now);
        }
        now += SETTLED_AFTER;
        set.ended(0, false, now);
        assert_eq!(first_due(&set), Some((now, 0)));
        set.started(0, now);
        set.ended(0, false, now);
        assert_eq!(first_due(&set), Some((now + PAUSE_MIN, 0)));
    }

    #[test]
    fn a_failed_start_is_due_again_after_growing_pauses() {
        let mut now = Instant::now();
        let mut set = Set::new(0, 1, now);
        for failures in 1..=3 {
            set.start_failed(0, now);
            now += pause(failures);
            assert_eq!(first_due(&set), Some((now, 0)));
        }
    }

    #[test]
    fn a_worker_that_refuses_is_not_due_again() {
        let now = Instant::now();
        let mut set = running(2, now);
        set.ended(0, true, now);
        assert_eq!(first_due(&set), None);
        assert!(!set.is_closed());
        set.ended(1, true, now);
        assert!(set.is_closed());
        assert!(set.is_empty());
    }

    #[test]
    fn a_set_is_relief_when_the_last_of_its_workers_serves() {
        let now = Instant::now();
        let mut set = running(2, now);
        set.ready(1);
        assert_eq!(
            set.relief(READY_TIMEOUT, now),
            Relief::ReadyAt(now + READY_TIMEOUT)
        );
        set.ready(0);
        assert_eq!(set.relief(READY_TIMEOUT, now), Relief::Ready);
    }

    #[test]
    fn silent_workers_are_taken_to_serve_when_the_timeout_ends() {
        let now = Instant::now();
        let set = running(2, now);
        let later = now + READY_TIMEOUT;
        assert_eq!(set.relief(READY_TIMEOUT, later), Relief::Ready);
        assert_eq!(set.relief(Duration::MAX, later), Relief::NotYet);
    }

    #[test]
    fn a_worker_that_died_before_it_served_holds_the_relief_up() {
        let now = Instant::now();
        let mut set = running(2, now);
        set.ready(0);
        set.ended(1, false, now);
        assert_eq!(set.relief(READY_TIMEOUT, now), Relief::NotYet);
        // One that had served does not.
        set.ended(0, false, now);
        set.started(1, now);
        set.ready(1);
        assert_eq!(set.relief(READY_TIMEOUT, now), Relief::Ready);
    }

    #[test]
    fn a_set_that_refused_altogether_relieves_nobody() {
        let now = Instant::now();
        let mut set = running(2, now);
        set.ended(0, true, now);
        set.ready(1);
        assert_eq!(set.relief(READY_TIMEOUT, now), Relief::Ready);
        set.ended(1, true, now);
        assert_eq!(set.relief(READY_TIMEOUT, now), Relief::NotYet);
    }
}
