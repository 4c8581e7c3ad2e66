//! Looks for a smaller run that fails in the same way.
//!
//! A candidate is a seed and a restriction of its run. A function runs the candidates for the
//! search, and returns their failures.

use crate::{faults::Fault, restriction::Restriction};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Candidate {
    pub(crate) seed: u64,
    pub(crate) restriction: Restriction,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Failure {
    /// Number of clients that the test wanted to start, including those that the restriction left
    /// out.
    pub(crate) clients: usize,
    pub(crate) faults: Vec<Fault>,
    pub(crate) end_ns: u64,
}

/// Maximum number of runs in a search, without the last run, which permits only the faults that
/// occurred.
const RUNS_MAX: u32 = 120;

/// Number of seeds with which each number of clients is tried.
const SEEDS: u64 = 8;

/// Number of halvings of the time with faults.
const HALVINGS: u32 = 16;

/// Returns the smallest candidate that was found, and the number of runs.
pub(crate) fn shrink(
    first: Candidate,
    failure: Failure,
    fails: impl FnMut(&Candidate) -> Option<Failure>,
) -> (Candidate, u32) {
    let mut search = Search {
        best: first,
        failure,
        fails,
        runs: 0,
    };
    search.fewer_clients();
    search.fewer_faults();
    search.shorter_faults();
    search.fewer_faults();
    search.only_what_occurred();
    (search.best, search.runs)
}

struct Search<F> {
    best: Candidate,
    failure: Failure,
    fails: F,
    runs: u32,
}

impl<F: FnMut(&Candidate) -> Option<Failure>> Search<F> {
    /// Tries a candidate, and keeps it if it fails. Returns whether it was kept.
    fn try_candidate(&mut self, candidate: Candidate) -> bool {
        self.runs < RUNS_MAX && self.run(candidate)
    }

    /// Runs a candidate, and keeps it if it fails. Returns whether it was kept.
    fn run(&mut self, candidate: Candidate) -> bool {
        self.runs += 1;
        let Some(failure) = (self.fails)(&candidate) else {
            return false;
        };
        (self.best, self.failure) = (candidate, failure);
        true
    }

    /// Looks for a small number of clients with which one of several seeds fails. With fewer
    /// clients a run has other random numbers, so one seed alone would seldom fail again.
    fn fewer_clients(&mut self) {
        let most = self.best.restriction.clients.unwrap_or(usize::MAX);
        let most = most.min(self.failure.clients);
        let first = self.best;
        let counts = std::iter::successors(Some((1, 2)), |(a, b)| Some((*b, a + b)));
        for (count, _) in counts.take_while(|(count, _)| *count < most) {
            for offset in 0..SEEDS {
                let candidate = Candidate {
                    seed: first.seed.wrapping_add(offset),
                    restriction: Restriction {
                        clients: Some(count),
                        ..first.restriction
                    },
                };
                if self.try_candidate(candidate) {
                    return;
                }
            }
        }
    }

    /// Leaves out all faults. If the run does not fail without them, tries to leave out each fault.
    fn fewer_faults(&mut self) {
        if self.failure.faults.is_empty()
            || self.try_candidate(self.without(&self.failure.faults.clone()))
        {
            return;
        }
        for fault in self.failure.faults.clone() {
            let candidate = self.without(&[fault]);
            self.try_candidate(candidate);
        }
    }

    /// Looks for the earliest time after which no fault is needed.
    fn shorter_faults(&mut self) {
        if self.failure.faults.is_empty() {
            return;
        }
        let (mut passes_ns, mut fails_ns) = (0, self.failure.end_ns);
        for _ in 0..HALVINGS {
            let middle_ns = passes_ns + (fails_ns - passes_ns) / 2;
            let candidate = Candidate {
                restriction: Restriction {
                    faults_until_ns: Some(middle_ns),
                    ..self.best.restriction
                },
                ..self.best
            };
            if self.try_candidate(candidate) {
                fails_ns = middle_ns;
            } else {
                passes_ns = middle_ns;
            }
        }
    }

    /// Restricts the run to the faults that occurred, so that the command lists only these. The run
    /// should be the same.
    fn only_what_occurred(&mut self) {
        let occurred = &self.failure.faults;
        let restriction = self.best.restriction.only(occurred);
        let until_ns = restriction.faults_until_ns;
        let candidate = Candidate {
            restriction: Restriction {
                faults_until_ns: until_ns.filter(|_| !occurred.is_empty()),
                ..restriction
            },
            ..self.best
        };
        if candidate != self.best {
            self.run(candidate);
        }
    }

    fn without(&self, faults: &[Fault]) -> Candidate {
        let restriction = self.best.restriction;
        let without = |restriction: Restriction, fault: &Fault| restriction.without(*fault);
        Candidate {
            restriction: faults.iter().fold(restriction, without),
            ..self.best
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const FIRST: Candidate = Candidate {
        seed: 40,
        restriction: Restriction::NONE,
    };

    /// The failure of a run in which three faults occur at `at_ns`, as far as the candidate permits
    /// them.
    fn run(candidate: &Candidate, at_ns: u64) -> Failure {
        let faults = [Fault::Pause, Fault::ShortWrite, Fault::Kill];
        let occurs = |fault: &Fault| candidate.restriction.permits(*fault, at_ns);
        Failure {
            clients: 30,
            faults: faults.into_iter().filter(occurs).collect(),
            end_ns: 1 << 20,
        }
    }

    #[test]
    fn parts_that_the_failure_does_not_need_are_left_out() {
        // The test fails if a short write occurs at 1,000 ns, and if either all 30 clients run, or
        // at least three clients run with an odd seed.
        let fails = |candidate: &Candidate| {
            let failure = run(candidate, 1_000);
            let clients = candidate.restriction.clients.unwrap_or(30);
            let has_all = clients >= 3 && failure.faults.contains(&Fault::ShortWrite);
            (has_all && (clients == 30 || candidate.seed % 2 == 1)).then_some(failure)
        };
        let (best, runs) = shrink(FIRST, run(&FIRST, 1_000), fails);
        assert_eq!((best.seed, best.restriction.clients), (41, Some(3)));
        assert_eq!(best.restriction.fault_names(","), "ShortWrite");
        let until_ns = best.restriction.faults_until_ns.expect("it is shortened");
        assert!((1_000..=1_016).contains(&until_ns), "{until_ns}");
        assert!(runs < 60, "{runs}");
    }

    #[test]
    fn a_failure_without_faults_needs_none() {
        let fails = |candidate: &Candidate| Some(run(candidate, 0));
        let (best, _) = shrink(FIRST, run(&FIRST, 0), fails);
        let expected = Restriction {
            clients: Some(1),
            ..Restriction::NONE.only(&[])
        };
        assert_eq!((best.seed, best.restriction), (40, expected));
    }

    #[test]
    fn a_run_that_cannot_be_smaller_stays_as_it_is() {
        let (best, runs) = shrink(FIRST, run(&FIRST, 0), |_| None);
        assert_eq!(best, FIRST);
        assert!(runs <= RUNS_MAX, "{runs}");
    }
}
