//! Running a test with many seeds, and saying how to run it again with the one that failed.

use std::{
    env,
    ops::Range,
    panic::{AssertUnwindSafe, catch_unwind, resume_unwind},
};

use crate::World;

/// The environment variable that names the only seed to run with.
pub const SEED_VARIABLE: &str = "EVCORE_SIM_SEED";

/// The environment variable that says how many seeds each test runs, in place of its own number.
pub const SEEDS_VARIABLE: &str = "EVCORE_SIM_SEEDS";

/// How many of the last lines of the record are shown with a failure.
const LINES: usize = 200;

/// Runs a test in a fresh [`World`] for each seed.
///
/// Where it panics, the seed and the command that runs it again go to standard error, and the panic
/// goes on. With that command, which sets `EVCORE_SIM_SEED`, only that seed is run, and what
/// happened in the world is shown too, the last 200 lines of it.
///
/// `EVCORE_SIM_SEEDS=100000` runs that many seeds, from the first of the range, in place of as many
/// as the range has: more for a long run, fewer for a quick one.
///
/// `test` is the name of the test, for the command.
///
/// ```
/// use evcore_sim::{Faults, check};
///
/// # fn test() { // #[test]
/// # /*
/// #[test]
/// fn whatever_goes_wrong_nobody_is_left_waiting() {
/// # */
/// check("whatever_goes_wrong_nobody_is_left_waiting", 0..100, |world| {
///     world.set_faults(Faults::all());
///     // ... a server, its clients, and what must hold
/// });
/// # }
/// # test();
/// ```
///
/// # Panics
///
/// Where the test does, or where one of the variables is not a number.
pub fn check(test: &str, seeds: Range<u64>, mut run: impl FnMut(&World)) {
    let chosen = number(SEED_VARIABLE);
    let end = number(SEEDS_VARIABLE).map_or(seeds.end, |count| seeds.start.saturating_add(count));
    let seeds = chosen.map_or(seeds.start..end, |seed| seed..seed + 1);
    for seed in seeds {
        let world = World::new(seed);
        if chosen.is_some() {
            world.record();
        }
        let Err(panic) = catch_unwind(AssertUnwindSafe(|| run(&world))) else {
            continue;
        };
        eprint!("{}", report(test, &world));
        resume_unwind(panic);
    }
}

/// The value of an environment variable, if it is set.
fn number(variable: &str) -> Option<u64> {
    let value = env::var(variable).ok()?;
    let number = value.parse();
    Some(number.unwrap_or_else(|_| panic!("{variable}={value:?}: it must be a whole number")))
}

/// What is told of a failure.
fn report(test: &str, world: &World) -> String {
    let (seed, hash, now) = (world.seed(), world.trace_hash(), world.now());
    let lines = world.lines();
    let shown = &lines[lines.len().saturating_sub(LINES)..];
    let shown: String = shown.iter().map(|line| format!("{line}\n")).collect();
    // Cargo says in which package a test runs.
    let package = env::var("CARGO_PKG_NAME").map_or(String::new(), |name| format!(" -p {name}"));
    format!(
        "{shown}{test} failed with seed {seed}, {now:?} into the world (trace {hash:016x}); \
         run it again:\n    {SEED_VARIABLE}={seed} cargo test{package} {test}\n"
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::{panic, time::Duration};

    #[test]
    fn every_seed_is_run_once() {
        let mut seeds = Vec::new();
        check("every_seed_is_run_once", 3..6, |world| {
            seeds.push(world.seed());
        });
        assert_eq!(seeds, [3, 4, 5]);
    }

    #[test]
    fn the_first_that_fails_is_the_last_and_its_panic_goes_on() {
        let mut seeds = Vec::new();
        let failed = panic::catch_unwind(AssertUnwindSafe(|| {
            check("meant_to_fail", 0..10, |world| {
                seeds.push(world.seed());
                assert_ne!(world.seed(), 2, "planted");
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
    fn a_failure_is_told_with_the_command_that_repeats_it() {
        let world = World::new(77);
        world.record();
        world.note("half-time");
        world.run_for(Duration::from_secs(2));
        let report = report("some_test", &world);
        assert!(report.contains("half-time\n"), "{report}");
        assert!(
            report.contains("with seed 77, 2s into the world"),
            "{report}"
        );
        let command = "\n    EVCORE_SIM_SEED=77 cargo test -p evcore-sim some_test\n";
        assert!(report.ends_with(command), "{report}");
    }
}
