//! Runs a test with many seeds, and reports the seed that failed.

use std::{env, fmt, fs, ops::Range, panic::resume_unwind};

use crate::{
    command::{SEED, command, page_file},
    faults::Fault,
    panics::{Place, caught, place_of_panic},
    report::describe,
    restriction::Restriction,
    rng::whole_ns,
    shrink::{Candidate, Failure, shrink},
    sim::Sim,
    timeline::Timeline,
    trace::seconds,
};

/// The environment variable with the number of seeds that each test runs.
const SEEDS_VARIABLE: &str = "EVCORE_SIM_SEEDS";

/// The environment variable that turns off the search for a smaller run if its value is 0.
const SHRINK_VARIABLE: &str = "EVCORE_SIM_SHRINK";

/// Number of lines at the end of the trace that the report of a repeated seed shows.
const LINES: usize = 200;

const NOT_REPEATABLE: &str = "A second run of the seed has another trace, so nothing is known about the \
    failure. Does the test use an `Instant`, a thread, or the order of a hash table?\n";

/// Runs a test in a new [`Sim`] for each seed, and returns how many seeds ran.
///
/// `test` is the test's name, for the command in the failure report.
///
/// If the test panics, [`check`] looks for a smaller run that panics at the same place in the code:
/// a run with fewer [clients](Sim::clients), fewer kinds of faults, or faults for a shorter time.
/// It prints a [report](FailureReport) of that run to standard error, and writes its
/// [page](FailureReport::page) into a folder `evcore-sim` next to the built programs, such as
/// `target/debug/evcore-sim`. Then it resumes the panic.
///
/// The commands in the report set environment variables. `EVCORE_SIM_SEED` is the only seed to run.
/// `EVCORE_SIM_CLIENTS` is the maximum number of clients, `EVCORE_SIM_FAULTS` the list of faults
/// that may occur (or `none`), and `EVCORE_SIM_FAULTS_UNTIL` the time, in seconds, after which no
/// fault occurs. With one of these variables, [`check`] does not look for a smaller run, and the
/// report begins with the last 200 lines of the trace. `EVCORE_SIM_SHRINK=0` has the same effect.
/// The search takes some 120 runs at most.
///
/// `EVCORE_SIM_SEEDS=100000` replaces the length of the range. So a test that counts over all seeds
/// should compare its counts with the returned number.
///
/// ```
/// use evcore_sim::{Faults, check};
///
/// # fn test() { // #[test]
/// # /*
/// #[test]
/// fn every_client_is_answered() {
/// # */
/// check("every_client_is_answered", 0..100, |sim| {
///     sim.set_faults(Faults::lossless());
///     // ... a server, its clients, and what must hold
/// });
/// # }
/// # test();
/// ```
///
/// # Panics
///
/// If the test panics, or if one of the variables has an invalid value.
pub fn check(test: &str, seeds: Range<u64>, mut run: impl FnMut(&Sim)) -> u64 {
    let only = number(SEED);
    let restriction = Restriction::from_environment();
    let end = number(SEEDS_VARIABLE).map_or(seeds.end, |count| seeds.start.saturating_add(count));
    let seeds = only.map_or(seeds.start..end, |seed| seed..seed + 1);
    for seed in seeds.clone() {
        let candidate = Candidate { seed, restriction };
        let sim = Sim::restricted(seed, restriction);
        let Err(panic) = caught(|| run(&sim)) else {
            continue;
        };
        let shrinks = only.is_none()
            && restriction == Restriction::NONE
            && number(SHRINK_VARIABLE) != Some(0);
        let mut investigation = Investigation {
            test,
            run: &mut run,
        };
        let report = investigation.report(candidate, &sim, shrinks);
        eprint!("{report}{}", save(test, seed, &report.page()));
        resume_unwind(panic);
    }
    seeds.end.saturating_sub(seeds.start)
}

/// Runs a test with one seed. If the test panics, looks for a smaller run that panics at the same
/// place, and returns a report of that run. Returns `None` if the test does not panic.
///
/// ```
/// use evcore_sim::explain;
///
/// let report = explain("has_few_clients", 7, |sim| {
///     let clients = sim.clients(10..=40).count();
///     assert!(clients < 3, "planted");
/// });
/// let report = report.expect("it fails");
/// assert!(report.to_string().contains("EVCORE_SIM_CLIENTS=3"));
/// assert!(report.page().starts_with("<!DOCTYPE html>"));
/// ```
pub fn explain(test: &str, seed: u64, mut run: impl FnMut(&Sim)) -> Option<FailureReport> {
    let restriction = Restriction::NONE;
    let failed = Sim::new(seed);
    place_of_panic(|| run(&failed))?;
    let mut investigation = Investigation {
        test,
        run: &mut run,
    };
    Some(investigation.report(Candidate { seed, restriction }, &failed, true))
}

/// A failure of a test with a seed. [`explain`] returns it, and [`check`] prints it.
///
/// The text describes the smallest failing run that was found: its open connections (or those that
/// ended last), the last turns of the workers that hold them, and the command that repeats the run.
/// If a second run of the seed has another trace, the text has only this fact, and the page is
/// empty.
#[derive(Clone, Debug)]
pub struct FailureReport {
    text: String,
    timeline: Timeline,
}

impl FailureReport {
    /// The page that draws the run, as [`Timeline::to_html`] returns it.
    #[must_use]
    pub fn page(&self) -> String {
        self.timeline.to_html()
    }
}

impl fmt::Display for FailureReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

fn number(variable: &str) -> Option<u64> {
    let value = env::var(variable).ok()?;
    let number = value.parse();
    Some(number.unwrap_or_else(|_| panic!("{variable}={value:?}: it must be a whole number")))
}

/// Writes the page of a failure into a file. Returns a text with the path, or with the error.
fn save(test: &str, seed: u64, page: &str) -> String {
    let file = page_file(test, seed);
    let folder = file.parent().unwrap_or(&file);
    match fs::create_dir_all(folder).and_then(|()| fs::write(&file, page)) {
        Ok(()) => format!("The picture of this run:\n    {}\n", file.display()),
        Err(error) => format!(
            "The picture cannot be written to {}: {error}\n",
            file.display()
        ),
    }
}

struct Investigation<'a, F> {
    test: &'a str,
    run: &'a mut F,
}

impl<F: FnMut(&Sim)> Investigation<'_, F> {
    /// The report of a failed run, or of a smaller run that fails at the same place.
    fn report(&mut self, first: Candidate, failed: &Sim, shrinks: bool) -> FailureReport {
        let (sim, place) = self.record(first);
        let headline = self.headline(failed);
        let not_repeatable = FailureReport {
            text: headline.clone() + NOT_REPEATABLE,
            timeline: Timeline::default(),
        };
        let Some(place) = place.filter(|_| sim.trace_hash() == failed.trace_hash()) else {
            return not_repeatable;
        };
        if !shrinks {
            let lines = sim.trace_lines();
            let shown = lines.iter().skip(lines.len().saturating_sub(LINES));
            let shown: String = shown.map(|line| format!("{line}\n")).collect();
            let text = format!("{shown}{headline}{}", self.findings(first, &sim));
            return self.with_timeline(text, &sim);
        }
        let fails = |candidate: &Candidate| self.fails(candidate, &place);
        let (smallest, runs) = shrink(first, failure_of(&sim), fails);
        let (sim, again) = self.record(smallest);
        if again.as_ref() != Some(&place) {
            return not_repeatable;
        }
        let (scope, findings) = (scope(&smallest, &sim), self.findings(smallest, &sim));
        let command = command(self.test, &first);
        let text = format!(
            "{headline}Of {runs} other runs, the smallest that fails at the same place has {scope}\
             {findings}The seed that failed first:\n    {command}\n"
        );
        self.with_timeline(text, &sim)
    }

    fn with_timeline(&self, text: String, sim: &Sim) -> FailureReport {
        let title = format!("{} with seed {}", self.test, sim.seed());
        let timeline = sim.timeline(&title).with_summary(&text);
        FailureReport { text, timeline }
    }

    fn headline(&self, failed: &Sim) -> String {
        let (test, seed, now) = (self.test, failed.seed(), failed.now());
        let hash = failed.trace_hash();
        format!(
            "{test} failed with seed {seed} after {now:?} of simulated time (trace {hash:016x}).\n"
        )
    }

    /// Runs a candidate and records its trace. Returns the place of its panic.
    fn record(&mut self, candidate: Candidate) -> (Sim, Option<Place>) {
        let sim = Sim::restricted(candidate.seed, candidate.restriction);
        sim.record_trace();
        let place = place_of_panic(|| (self.run)(&sim));
        (sim, place)
    }

    fn fails(&mut self, candidate: &Candidate, place: &Place) -> Option<Failure> {
        let sim = Sim::restricted(candidate.seed, candidate.restriction);
        let fails = place_of_panic(|| (self.run)(&sim)).as_ref() == Some(place);
        fails.then(|| failure_of(&sim))
    }

    fn findings(&self, candidate: Candidate, sim: &Sim) -> String {
        let state = sim.state();
        let recording = state.trace.recording().expect("it is recorded");
        let command = command(self.test, &candidate);
        format!("{}Repeat it with:\n    {command}\n", describe(recording))
    }
}

fn failure_of(sim: &Sim) -> Failure {
    let occurred = |fault: &Fault| sim.fault_count(*fault) > 0;
    let clients = sim.state().clients_wanted;
    Failure {
        clients,
        faults: Fault::ALL.into_iter().filter(occurred).collect(),
        end_ns: whole_ns(sim.now()),
    }
}

/// The clients and the faults of a smaller run, in words.
fn scope(candidate: &Candidate, sim: &Sim) -> String {
    let restriction = candidate.restriction;
    let wanted = sim.state().clients_wanted;
    let clients = restriction.clients.map_or_else(String::new, |clients| {
        format!(", {clients} in place of {wanted} clients")
    });
    let faults = match restriction.fault_names(", ") {
        names if names == "none" => "no fault".to_owned(),
        names if names.contains(',') => format!("the faults {names}"),
        name => format!("the fault {name}"),
    };
    let until = restriction
        .faults_until_ns
        .map_or_else(String::new, |until_ns| {
            format!(" until {} s", seconds(until_ns))
        });
    format!(
        "seed {}{clients}, and {faults}{until}; it took {:?}.\n",
        candidate.seed,
        sim.now()
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    #[test]
    fn every_seed_runs_once() {
        let mut seeds = Vec::new();
        let ran = check("every_seed_runs_once", 3..6, |sim| seeds.push(sim.seed()));
        let count = number(SEEDS_VARIABLE).unwrap_or(3);
        assert_eq!(seeds, (3..3 + count).collect::<Vec<_>>());
        assert_eq!(ran, count);
    }

    #[test]
    fn the_first_failing_seed_ends_the_run_and_its_panic_resumes() {
        let mut seeds = Vec::new();
        let failed = caught(|| {
            check("meant_to_fail", 0..10, |sim| {
                seeds.push(sim.seed());
                assert_ne!(sim.seed(), 2, "planted");
            });
        });
        let panic = failed.expect_err("it panics");
        assert!(
            panic
                .downcast_ref::<String>()
                .is_some_and(|text| text.contains("planted"))
        );
        assert_eq!(seeds[..3], [0, 1, 2]);
        // The failing seed runs again for the report, before any other candidate.
        assert_eq!(seeds[3], 2);
    }

    fn report(seed: u64, shrinks: bool, mut run: impl FnMut(&Sim)) -> String {
        let candidate = Candidate {
            seed,
            restriction: Restriction::NONE,
        };
        let failed = Sim::new(seed);
        assert!(place_of_panic(|| run(&failed)).is_some());
        let mut investigation = Investigation {
            test: "some_test",
            run: &mut run,
        };
        investigation
            .report(candidate, &failed, shrinks)
            .to_string()
    }

    fn half_time(sim: &Sim) {
        sim.note("half-time");
        sim.run_for(Duration::from_secs(2));
        panic!("planted");
    }

    #[test]
    fn a_repeated_seed_shows_its_trace_and_its_command() {
        let report = report(77, false, half_time);
        assert!(report.contains("the test notes: half-time\n"), "{report}");
        let headline = "some_test failed with seed 77 after 2s of simulated time";
        assert!(report.contains(headline), "{report}");
        let command = "\n    EVCORE_SIM_SEED=77 cargo test -p evcore-sim --lib some_test\n";
        assert!(report.ends_with(command), "{report}");
    }

    #[test]
    fn a_failure_is_reported_with_the_fewest_clients() {
        let report = report(77, true, |sim| {
            let clients = sim.clients(10..=10).count();
            assert!(clients < 3, "planted");
        });
        assert!(
            report.contains("seed 77, 3 in place of 10 clients, and no fault"),
            "{report}"
        );
        let command = "EVCORE_SIM_SEED=77 EVCORE_SIM_CLIENTS=3 EVCORE_SIM_FAULTS=none cargo test";
        assert!(report.contains(command), "{report}");
    }

    #[test]
    fn a_test_that_cannot_be_repeated_is_reported_as_such() {
        let mut runs = 0;
        let report = report(77, true, |sim| {
            runs += 1;
            sim.note(&format!("run {runs}"));
            panic!("planted");
        });
        assert!(
            report.contains("A second run of the seed has another trace"),
            "{report}"
        );
    }
}
