//! A worker kills itself at each failpoint in turn, under each policy, and all clients are served.
//!
//! In run `k` (0, 1, 2 and so on), the first worker that has hit `k` failpoints dies at its next
//! one, by SIGKILL. It is replaced only if each worker has a listener of its own. Further runs
//! cover each kind of failpoint (see [`failpoint`]): the first worker that hits one of that kind
//! dies. All runs are made for a worker that serves, for one that shuts down gracefully, and for
//! one that stops at once.
//!
//! Without arguments this program runs the tests. They start it again as the server of each run, in
//! a process with a single thread.

mod config;
mod failpoint;
mod instrumented;
mod kinds;
mod run;
mod two_workers;

use std::{
    env, panic,
    process::ExitCode,
    sync::atomic::{AtomicBool, Ordering::Relaxed},
    thread,
};

use evcore_tests::eventually;

use config::{Config, Phase};
use failpoint::Fatal;
use run::Run;

/// Number of failpoints at which a serving worker dies. The worker would hit further failpoints
/// without end. The first ones cover the start of a worker, its first clients, and its turns
/// (iterations of its event loop) when it is full.
const SERVING_MAX: u32 = if failpoint::INSIDE { 240 } else { 120 };

/// The number of concurrent runs. A run mostly waits.
const CONCURRENT: u32 = 4;

fn main() -> ExitCode {
    let arguments: Vec<String> = env::args().skip(1).collect();
    if let [flag, config, phase, fatal] = arguments.as_slice() {
        if flag == two_workers::FLAG {
            let fatal = Fatal::named(fatal.clone().leak());
            return two_workers::serve(Config::named(config), Phase::named(phase), fatal);
        }
    }
    // As in the usual harness, a word selects the tests whose names contain it.
    let word = arguments.iter().find(|argument| !argument.starts_with('-'));
    run_tests(word.map_or("", String::as_str))
}

fn run_tests(word: &str) -> ExitCode {
    let (mut passed, mut failed) = (0, 0);
    for (config, phase) in tests() {
        let name = ["the_other_worker_serves", config.name(), phase.name()].join("::");
        let deaths = || die_at_each(config, phase) + die_at_each_kind(config, phase);
        if name.contains(word) {
            match passes(&name, || format!("{} deaths", deaths())) {
                true => passed += 1,
                false => failed += 1,
            }
        }
    }
    let result = if failed == 0 { "ok" } else { "FAILED" };
    println!("\ntest result: {result}. {passed} passed; {failed} failed");
    ExitCode::from(u8::from(failed > 0))
}

fn passes(name: &str, test: impl FnOnce() -> String + panic::UnwindSafe) -> bool {
    let result = panic::catch_unwind(test);
    match &result {
        Ok(summary) => println!("test {name} ({summary}) ... ok"),
        Err(_) => println!("test {name} ... FAILED"),
    }
    result.is_ok()
}

fn tests() -> impl Iterator<Item = (Config, Phase)> {
    let all = |config| Phase::ALL.map(|phase| (config, phase));
    Config::ALL.into_iter().flat_map(all)
}

/// Makes a run for each failpoint, in which a worker dies there. Returns the number of these runs.
fn die_at_each(config: Config, phase: Phase) -> usize {
    let failed = AtomicBool::new(false);
    let deaths_from = |first: u32| {
        let _guard = FailedIfPanicking(&failed);
        (first..)
            .step_by(CONCURRENT as usize)
            .take_while(|number| phase.is_last() || *number < SERVING_MAX)
            .take_while(|_| !failed.load(Relaxed))
            .take_while(|number| run::run(Run::new(config, phase, Fatal::Number(*number))))
            .count()
    };
    thread::scope(|scope| {
        let threads: Vec<_> = (0..CONCURRENT)
            .map(|first| scope.spawn(move || deaths_from(first)))
            .collect();
        let deaths = threads.into_iter().map(|thread| thread.join());
        deaths.map(|deaths| deaths.expect("no run fails")).sum()
    })
}

/// Ends the other threads of a test when one fails.
struct FailedIfPanicking<'a>(&'a AtomicBool);

impl Drop for FailedIfPanicking<'_> {
    fn drop(&mut self) {
        if thread::panicking() {
            self.0.store(true, Relaxed);
        }
    }
}

/// Makes runs until a worker has died at a failpoint of each kind. Returns the number of kinds.
///
/// A run is repeated until a worker has died, because some kinds need a worker that happens to
/// lead.
fn die_at_each_kind(config: Config, phase: Phase) -> usize {
    let kinds = config.kinds(phase);
    for kind in &kinds {
        eventually(&format!("{config:?}: a worker dies {kind}"), || {
            run::run(Run::new(config, phase, Fatal::Kind(kind)))
        });
    }
    kinds.len()
}
