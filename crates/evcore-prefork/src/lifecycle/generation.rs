//! A generation: the workers of one start or reload, one for each index. They are stopped together.

use std::time::{Duration, Instant};

use super::escalation::Escalation;

/// The age from which a worker is stable, so that its replacement is started at once.
pub(crate) const STABLE_AFTER: Duration = Duration::from_secs(1);

/// The first pause in a crash loop. Each further crash doubles it, up to `BACKOFF_MAX`.
const BACKOFF_MIN: Duration = Duration::from_millis(100);

/// The longest pause while another worker serves the same clients.
const BACKOFF_MAX: Duration = Duration::from_secs(10);

/// The longest time from one start to the next while no worker serves the same clients: the default
/// of nginx's `accept_mutex_delay`.
pub(crate) const UNSERVED_MAX: Duration = Duration::from_millis(500);

#[derive(Debug)]
pub(crate) struct Generation {
    pub(crate) row: usize,
    places: Vec<Place>,
    /// The stop; `None` while the generation serves.
    pub(crate) escalation: Option<Escalation>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Takeover {
    /// Each worker of the generation counts as ready, was ready before it died, or has refused. Not
    /// all have refused.
    Now,
    /// The generation can take over at this time, unless an event comes earlier.
    At(Instant),
    /// It cannot take over before an event comes.
    NotYet,
}

impl Generation {
    pub(crate) fn new(row: usize, workers: usize, now: Instant) -> Self {
        let place = Place {
            state: State::Vacant { due: now },
            failures: 0,
            last_start: None,
            was_ready: false,
        };
        Self {
            row,
            places: vec![place; workers],
            escalation: None,
        }
    }

    pub(crate) fn started(&mut self, index: usize, now: Instant) {
        let place = &mut self.places[index];
        place.state = State::Running { since: now };
        place.last_start = Some(now);
    }

    pub(crate) fn start_failed(&mut self, index: usize, now: Instant) {
        let place = &mut self.places[index];
        place.last_start = Some(now);
        place.fail(now);
    }

    pub(crate) fn ready(&mut self, index: usize) {
        self.places[index].was_ready = true;
    }

    /// Records that a worker has ended. If it has `refused`, it is not replaced.
    pub(crate) fn ended(&mut self, index: usize, refused: bool, now: Instant) {
        let place = &mut self.places[index];
        let State::Running { since } = place.state else {
            debug_assert!(false, "place {index} had no worker that could end");
            return;
        };
        if refused {
            place.state = State::Refused;
        } else if now.saturating_duration_since(since) < STABLE_AFTER {
            place.fail(now);
        } else {
            place.failures = 0;
            place.state = State::Vacant { due: now };
        }
    }

    /// Records that a worker could not start. It is not replaced before
    /// [`retry_starts`](Self::retry_starts).
    pub(crate) fn cannot_start(&mut self, index: usize) {
        self.places[index].state = State::CannotStart;
    }

    /// Replaces the workers that could not start, each after its pause.
    pub(crate) fn retry_starts(&mut self) {
        let places = self.places.iter_mut();
        for place in places.filter(|one| one.state == State::CannotStart) {
            place.fail(
                place
                    .last_start
                    .expect("a worker that could not start was forked or spawned"),
            );
        }
    }

    /// Begins the stop of this generation. Its workers are no longer replaced.
    pub(crate) fn retire(&mut self, escalation: Escalation) {
        debug_assert!(self.is_serving(), "a generation is retired once");
        self.escalation = Some(escalation);
    }

    pub(crate) fn is_serving(&self) -> bool {
        self.escalation.is_none()
    }

    pub(crate) fn is_empty(&self) -> bool {
        !self.places.iter().any(Place::is_running)
    }

    /// Returns whether all workers have refused or could not start.
    pub(crate) fn all_refused(&self) -> bool {
        self.places.iter().all(Place::has_refused)
    }

    pub(crate) fn vacancies(&self) -> impl Iterator<Item = Vacancy> {
        let vacancy = |(index, place): (usize, &Place)| match place.state {
            State::Vacant { due } => Some(Vacancy {
                at: due,
                index,
                failures: place.failures,
            }),
            State::Running { .. } | State::Refused | State::CannotStart => None,
        };
        self.places.iter().enumerate().filter_map(vacancy)
    }

    /// Returns whether any place has a worker, and the last start in any place. The places must
    /// serve the same clients.
    pub(crate) fn coverage(&self) -> Coverage {
        self.places.iter().map(Place::coverage).collect()
    }

    pub(crate) fn coverage_at(&self, index: usize) -> Coverage {
        self.places[index].coverage()
    }

    /// Returns whether the generation can take over. A worker that does not report counts as ready
    /// after `ready_timeout`.
    pub(crate) fn takeover(&self, ready_timeout: Duration, now: Instant) -> Takeover {
        if self.all_refused() {
            return Takeover::NotYet;
        }
        let mut last = now;
        for place in &self.places {
            match place.ready_at(ready_timeout, now) {
                Some(at) => last = last.max(at),
                None => return Takeover::NotYet,
            }
        }
        if last <= now {
            Takeover::Now
        } else {
            Takeover::At(last)
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Vacancy {
    pub(crate) at: Instant,
    pub(crate) index: usize,
    failures: u32,
}

impl Vacancy {
    /// Returns the time of the start. If no other worker serves the same clients, the pause is
    /// shorter, and begins at the last start. So a worker that has lived longer than the pause is
    /// replaced at once, and workers that crash immediately are not started in a busy loop.
    pub(crate) fn start_at(self, coverage: Coverage) -> Instant {
        match coverage.last_start {
            Some(last) if !coverage.is_served => {
                let pause = backoff(self.failures).min(UNSERVED_MAX);
                self.at.min(last + pause)
            }
            _ => self.at,
        }
    }
}

/// A summary of one or more places whose workers serve the same clients.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Coverage {
    is_served: bool,
    /// The time of the last start, or attempt at one.
    last_start: Option<Instant>,
}

impl FromIterator<Coverage> for Coverage {
    fn from_iter<I: IntoIterator<Item = Coverage>>(coverages: I) -> Self {
        let add = |one: Self, other: Self| Self {
            is_served: one.is_served || other.is_served,
            last_start: one.last_start.max(other.last_start),
        };
        coverages.into_iter().fold(Self::default(), add)
    }
}

/// The place of one worker, and then of its replacements, in a generation.
#[derive(Clone, Debug)]
struct Place {
    state: State,
    /// Early crashes and failed starts in a row.
    failures: u32,
    /// The time of the last start, or attempt at one.
    last_start: Option<Instant>,
    /// True if a worker of this place, dead or alive, has reported that it serves.
    was_ready: bool,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum State {
    Vacant {
        due: Instant,
    },
    Running {
        since: Instant,
    },
    /// The worker has refused to be replaced.
    Refused,
    /// The worker could not start, and no worker has served yet.
    CannotStart,
}

impl Place {
    fn fail(&mut self, now: Instant) {
        self.failures = self.failures.saturating_add(1);
        self.state = State::Vacant {
            due: now + backoff(self.failures),
        };
    }

    fn has_refused(&self) -> bool {
        matches!(self.state, State::Refused | State::CannotStart)
    }

    fn is_running(&self) -> bool {
        matches!(self.state, State::Running { .. })
    }

    fn coverage(&self) -> Coverage {
        Coverage {
            is_served: self.is_running(),
            last_start: self.last_start,
        }
    }

    /// The time from which this place no longer delays a takeover; `None` if an event must come
    /// first.
    fn ready_at(&self, ready_timeout: Duration, now: Instant) -> Option<Instant> {
        match self.state {
            _ if self.was_ready => Some(now),
            State::Refused | State::CannotStart => Some(now),
            // A far timeout exceeds the clock's range, and never passes.
            State::Running { since } => since.checked_add(ready_timeout),
            State::Vacant { .. } => None,
        }
    }
}

fn backoff(failures: u32) -> Duration {
    // 2^16 times the first pause exceeds the longest one, and does not overflow.
    let doublings = failures.saturating_sub(1).min(16);
    (BACKOFF_MIN * (1 << doublings)).min(BACKOFF_MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    const READY_TIMEOUT: Duration = Duration::from_secs(5);

    fn first_vacancy(generation: &Generation) -> Option<(Instant, usize)> {
        generation
            .vacancies()
            .min()
            .map(|vacancy| (vacancy.at, vacancy.index))
    }

    fn running(workers: usize, now: Instant) -> Generation {
        let mut generation = Generation::new(0, workers, now);
        for index in 0..workers {
            assert_eq!(first_vacancy(&generation), Some((now, index)));
            generation.started(index, now);
        }
        assert_eq!(first_vacancy(&generation), None);
        generation
    }

    #[test]
    fn the_backoff_doubles_from_100_ms_to_10_s() {
        let backoffs: Vec<_> = (1..=9).map(|n| backoff(n).as_millis()).collect();
        assert_eq!(
            backoffs,
            [100, 200, 400, 800, 1600, 3200, 6400, 10_000, 10_000]
        );
        assert_eq!(backoff(u32::MAX), BACKOFF_MAX);
    }

    #[test]
    fn a_stable_worker_is_replaced_at_once() {
        let start = Instant::now();
        let mut generation = running(2, start);
        let end = start + STABLE_AFTER;
        generation.ended(1, false, end);
        assert_eq!(first_vacancy(&generation), Some((end, 1)));
    }

    #[test]
    fn a_worker_that_crashes_early_is_replaced_after_a_backoff() {
        let mut now = Instant::now();
        let mut generation = running(1, now);
        for failures in 1..=10 {
            now += STABLE_AFTER - Duration::from_nanos(1);
            generation.ended(0, false, now);
            now += backoff(failures);
            assert_eq!(first_vacancy(&generation), Some((now, 0)));
            generation.started(0, now);
        }
    }

    #[test]
    fn one_stable_worker_resets_the_backoff() {
        let mut now = Instant::now();
        let mut generation = running(1, now);
        for _ in 0..3 {
            generation.ended(0, false, now);
            now += BACKOFF_MAX;
            generation.started(0, now);
        }
        now += STABLE_AFTER;
        generation.ended(0, false, now);
        assert_eq!(first_vacancy(&generation), Some((now, 0)));
        generation.started(0, now);
        generation.ended(0, false, now);
        assert_eq!(first_vacancy(&generation), Some((now + BACKOFF_MIN, 0)));
    }

    #[test]
    fn a_failed_start_is_retried_after_a_backoff() {
        let mut now = Instant::now();
        let mut generation = Generation::new(0, 1, now);
        for failures in 1..=3 {
            generation.start_failed(0, now);
            now += backoff(failures);
            assert_eq!(first_vacancy(&generation), Some((now, 0)));
        }
    }

    #[test]
    fn a_worker_that_refuses_is_not_replaced() {
        let now = Instant::now();
        let mut generation = running(2, now);
        generation.ended(0, true, now);
        assert_eq!(first_vacancy(&generation), None);
        assert!(!generation.all_refused());
        generation.ended(1, true, now);
        assert!(generation.all_refused());
        assert!(generation.is_empty());
    }

    #[test]
    fn a_generation_takes_over_when_its_last_worker_is_ready() {
        let now = Instant::now();
        let mut generation = running(2, now);
        generation.ready(1);
        assert_eq!(
            generation.takeover(READY_TIMEOUT, now),
            Takeover::At(now + READY_TIMEOUT)
        );
        generation.ready(0);
        assert_eq!(generation.takeover(READY_TIMEOUT, now), Takeover::Now);
    }

    #[test]
    fn silent_workers_count_as_ready_after_the_timeout() {
        let now = Instant::now();
        let generation = running(2, now);
        let later = now + READY_TIMEOUT;
        assert_eq!(generation.takeover(READY_TIMEOUT, later), Takeover::Now);
        assert_eq!(generation.takeover(Duration::MAX, later), Takeover::NotYet);
    }

    #[test]
    fn a_worker_that_dies_before_it_is_ready_delays_the_takeover() {
        let now = Instant::now();
        let mut generation = running(2, now);
        generation.ready(0);
        generation.ended(1, false, now);
        assert_eq!(generation.takeover(READY_TIMEOUT, now), Takeover::NotYet);
        generation.ended(0, false, now);
        generation.started(1, now);
        generation.ready(1);
        assert_eq!(generation.takeover(READY_TIMEOUT, now), Takeover::Now);
    }

    #[test]
    fn a_generation_that_refused_does_not_take_over() {
        let now = Instant::now();
        let mut generation = running(2, now);
        generation.ended(0, true, now);
        generation.ready(1);
        assert_eq!(generation.takeover(READY_TIMEOUT, now), Takeover::Now);
        generation.ended(1, true, now);
        assert_eq!(generation.takeover(READY_TIMEOUT, now), Takeover::NotYet);
    }
}
