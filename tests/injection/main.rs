//! Each system call of the server fails in turn. The server reports the failure and does not start,
//! or it keeps serving and loses no more than `calls.md` allows.
//!
//! `cargo xtask injection` makes all runs. A part of a run's name chooses some of them:
//!
//!     EVCORE_INJECTION='accept4 EMFILE' cargo xtask injection

#![cfg(target_os = "linux")]

mod idle;
mod run;
mod script;
mod stage;
mod table;
mod trace;
mod wait;

use std::{
    collections::{BTreeMap, BTreeSet},
    env,
    panic::{self, AssertUnwindSafe},
    sync::{Mutex, OnceLock},
    thread,
    time::Instant,
};

use evcore_tests::{not_run, strace_works};
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

use self::{
    run::{Cost, OCCURRENCES, Run},
    stage::{Recorded, Stage},
    table::{PHASES, rows},
};

/// Limit on descriptors that is enough for this process, and too low for a server.
const DESCRIPTORS: u64 = 128;

/// The environment variable that chooses runs by a part of their names.
const CHOICE: &str = "EVCORE_INJECTION";

#[test]
fn each_call_of_the_server_is_in_the_table() {
    if !can_trace() {
        return;
    }
    let is_known =
        |recorded: &Recorded, call| rows().iter().any(|row| call_is_of(recorded, call, row));
    let unknown: BTreeMap<_, _> = recorded()
        .iter()
        .flat_map(|run| run.trace.all().filter(|call| !is_known(run, call)))
        .map(|call| (&call.name, call.to_string()))
        .collect();
    assert!(
        unknown.is_empty(),
        "calls.md lacks these calls: {unknown:#?}"
    );
}

#[test]
fn a_failed_call_costs_what_the_table_allows() {
    if can_trace() {
        make_all(&runs(|nth_error, nth_occurrence| {
            nth_error == 0 && nth_occurrence == 0
        }));
    }
}

#[test]
#[ignore = "it takes minutes: `cargo xtask injection`"]
fn each_failed_call_costs_what_the_table_allows() {
    if can_trace() {
        make_all(&runs(|_, _| true));
    }
}

/// Returns whether calls can be traced, and prepares this process for it.
fn can_trace() -> bool {
    if !strace_works() {
        not_run("strace is not installed, or may not trace");
        return false;
    }
    // The servers inherit the limit, and raise it.
    let limit = getrlimit(Resource::Nofile);
    let lower = Rlimit {
        current: Some(DESCRIPTORS),
        ..limit
    };
    setrlimit(Resource::Nofile, lower).expect("a process may lower its limit");
    true
}

fn call_is_of(recorded: &Recorded, call: &trace::Call, row: &table::Row) -> bool {
    call.is_of(row, &recorded.files)
}

fn recorded() -> &'static [Recorded; 3] {
    static RECORDED: OnceLock<[Recorded; 3]> = OnceLock::new();
    RECORDED.get_or_init(|| PHASES.map(|phase| Stage::new().record(phase)))
}

/// Returns the runs of all rows for which `is_chosen` returns true. `is_chosen` gets the positions
/// of the error and of the occurrence in their lists. A run is left out if the server does not make
/// its call often enough.
fn runs(is_chosen: impl Fn(usize, usize) -> bool) -> Vec<Run> {
    let choice = env::var(CHOICE).unwrap_or_default();
    let mut runs = Vec::new();
    for (row, phase) in rows()
        .iter()
        .flat_map(|row| PHASES.map(|phase| (row, phase)))
    {
        if row.allowed(phase).is_none() {
            continue;
        }
        let Recorded {
            trace,
            files,
            before,
        } = &recorded()[phase as usize];
        let before = row.after + before.iter().filter(|call| call.is_of(row, files)).count();
        let most = trace.most(row, files).saturating_sub(row.after);
        for (nth_error, error) in row.errors.iter().enumerate() {
            for (nth, occurrence) in OCCURRENCES.into_iter().enumerate() {
                let run = Run {
                    row,
                    error,
                    phase,
                    occurrence,
                    before,
                };
                if occurrence.first <= most
                    && is_chosen(nth_error, nth)
                    && run.to_string().contains(&choice)
                {
                    runs.push(run);
                }
            }
        }
    }
    assert!(!runs.is_empty(), "no run has `{choice}` in its name");
    runs
}

/// Makes the runs, some at a time, because they mostly wait. A call must fail in at least one run
/// of each row.
fn make_all(runs: &[Run]) {
    let threads = 2 * thread::available_parallelism().map_or(1, usize::from);
    let queue = Mutex::new(runs.iter());
    let rows = runs.iter().map(|run| run.row.to_string());
    let not_hit: Mutex<BTreeSet<_>> = Mutex::new(rows.collect());
    let failures = Mutex::new(Vec::new());
    let work = || {
        loop {
            let Some(run) = queue.lock().expect("no run panics here").next() else {
                return;
            };
            let begun = Instant::now();
            let made = panic::catch_unwind(AssertUnwindSafe(|| {
                // Calls are counted per worker. On a busy machine, all clients of a run may be at
                // the worker that has made fewer calls, so the run is repeated.
                let misses = |cost: &Cost| cost.failures == 0 && run.must_fail();
                let mut cost = run.make();
                for _ in 0..2 {
                    if misses(&cost) {
                        cost = run.make();
                    }
                }
                assert!(!misses(&cost), "no call failed");
                cost
            }));
            let seconds = begun.elapsed().as_secs_f64();
            match made {
                Ok(cost) => {
                    println!("{run}: {cost}, {seconds:.1} s");
                    if cost.failures > 0 {
                        let mut not_hit = not_hit.lock().expect("no run panics here");
                        not_hit.remove(&run.row.to_string());
                    }
                }
                Err(payload) => {
                    let text = payload.downcast_ref::<&str>().map(ToString::to_string);
                    let message = text.or_else(|| payload.downcast_ref::<String>().cloned());
                    let failure = format!("{run}: {}", message.unwrap_or_default());
                    println!("FAILED {failure}");
                    failures.lock().expect("no run panics here").push(failure);
                }
            }
        }
    };
    thread::scope(|scope| {
        for _ in 0..threads {
            scope.spawn(work);
        }
    });
    let failures = failures.into_inner().expect("no run panics here");
    println!("{} runs, {} failed", runs.len(), failures.len());
    assert!(failures.is_empty(), "{}", failures.join("\n"));
    let not_hit = not_hit.into_inner().expect("no run panics here");
    assert!(
        not_hit.is_empty(),
        "calls.md has rows that no run meets: {not_hit:?}"
    );
}
