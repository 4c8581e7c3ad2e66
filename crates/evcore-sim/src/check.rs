//! Runs a test with many seeds, and prints how to repeat the seed that failed.

use std::{
    env,
    ops::Range,
    panic::{AssertUnwindSafe, catch_unwind, resume_unwind},
};

use crate::sim::Sim;

/// The environment variable with the only seed to run.
const SEED_VARIABLE: &str = "EVCORE_SIM_SEED";

/// The environment variable with the number of seeds that each test runs.
const SEEDS_VARIABLE: &str = "EVCORE_SIM_SEEDS";

/// Number of the last lines of the trace that a failure report shows.
const LINES: usize = 200;

/// Runs a test in a new [`Sim`] for each seed, and returns how many seeds ran.
///
/// `test` is the test's name, for the command in the failure report.
///
/// If the test panics, the seed and the command that repeats it are printed to standard error, and
/// the panic is resumed. The command sets `EVCORE_SIM_SEED`: then only that seed runs, and a
/// failure report includes the last 200 lines of the trace.
///
/// `EVCORE_SIM_SEEDS=100000` replaces the length of the range, for a longer or a shorter run. So a
/// test that counts over all seeds should compare its counts with the returned number.
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
/// If the test does, or if one of the variables is not a number.
pub fn check(test: &str, seeds: Range<u64>, mut run: impl FnMut(&Sim)) -> u64 {
    let only = number(SEED_VARIABLE);
    let end = number(SEEDS_VARIABLE).map_or(seeds.end, |count| seeds.start.saturating_add(count));
    let seeds = only.map_or(seeds.start..end, |seed| seed..seed + 1);
    for seed in seeds.clone() {
        let sim = Sim::new(seed);
        if only.is_some() {
            sim.record_trace();
        }
        let Err(panic) = catch_unwind(AssertUnwindSafe(|| run(&sim))) else {
            continue;
        };
        eprint!("{}", report(test, &sim));
        resume_unwind(panic);
    }
    seeds.end.saturating_sub(seeds.start)
}

/// The value of an environment variable, if it is set.
fn number(variable: &str) -> Option<u64> {
    let value = env::var(variable).ok()?;
    let number = value.parse();
    Some(number.unwrap_or_else(|_| panic!("{variable}={value:?}: it must be a whole number")))
}

fn report(test: &str, sim: &Sim) -> String {
    let (seed, hash, now) = (sim.seed(), sim.trace_hash(), sim.now());
    let lines = sim.trace_lines();
    let shown = &lines[lines.len().saturating_sub(LINES)..];
    let shown: String = shown.iter().map(|line| format!("{line}\n")).collect();
    // Cargo sets the variable to the package that is tested.
    let package = env::var("CARGO_PKG_NAME").map_or(String::new(), |name| format!(" -p {name}"));
    format!(
        "{shown}{test} failed with seed {seed} after {now:?} of simulated time \
         (trace {hash:016x}); repeat it with:\n    \
         {SEED_VARIABLE}={seed} cargo test{package} {test}\n"
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::{panic, time::Duration};

    #[test]
    fn every_seed_runs_once() {
        let mut seeds = Vec::new();
        let ran = check("every_seed_runs_once", 3..6, |sim| seeds.push(sim.seed()));
        assert_eq!(seeds, [3, 4, 5]);
        assert_eq!(ran, 3);
    }

    #[test]
    fn the_first_failing_seed_ends_the_run_and_its_panic_resumes() {
        let mut seeds = Vec::new();
        let failed = panic::catch_unwind(AssertUnwindSafe(|| {
            check("meant_to_fail", 0..10, |sim| {
                seeds.push(sim.seed());
                assert_ne!(sim.seed(), 2, "planted");
            });
        }));
        let panic = failed.expect_err("it panics");
        assert!(
            panic
                .downcast_ref::<String>()
                .is_some_and(|text| text.contains("planted"))
        );
        assert_eq!(seeds, [0, 1, 2]);
    }

    #[test]
    fn a_failure_report_has_the_command_that_repeats_it() {
        let sim = Sim::new(77);
        sim.record_trace();
        sim.note("half-time");
        sim.run_for(Duration::from_secs(2));
        let report = report("some_test", &sim);
        assert!(report.contains("half-time\n"), "{report}");
        assert!(
            report.contains("with seed 77 after 2s of simulated time"),
            "{report}"
        );
        let command = "\n    EVCORE_SIM_SEED=77 cargo test -p evcore-sim some_test\n";
        assert!(report.ends_with(command), "{report}");
    }
}
