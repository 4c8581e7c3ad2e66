//! A worker kills itself at every point at which it meets the others, under each policy, and the
//! remaining worker serves.
//!
//! A point is before or after a call to the lock, to the group or to the listener, and between the
//! phases of a turn; with `--cfg evcore_failpoints` also inside of those calls, before each
//! operation on what the workers share (see `points`). In run `k` the first worker to come to its `k`-th point
//! dies there, by SIGKILL, and is not replaced; so it goes on for `k` = 0, 1, 2 and so on. Then,
//! for each kind of point, the first worker to come to one of its kind dies there: none is left to
//! chance. All that for a worker that serves, from its start on, and for one that was told to come
//! to its end, or to stop, up to the last that is seen of it.
//!
//! This program is both sides: without arguments it is the tests, which start it again as the
//! server of one run, in a process of its own with a single thread.

mod dying;
mod kinds;
mod points;
mod run;
mod server;
mod setting;

use std::{env, panic, process::ExitCode, thread};

use evcore_tests::eventually;

use points::Fatal;
use run::Run;
use setting::{Setting, Stage};

/// At so many points a worker dies that serves, of which there is no last: enough for its start,
/// its first clients, and what it does when it is full.
const POINTS: u32 = if cfg!(evcore_failpoints) { 240 } else { 120 };

/// So many runs at a time: nearly all of a run is waiting.
const AT_ONCE: u32 = 4;

fn main() -> ExitCode {
    let arguments: Vec<String> = env::args().skip(1).collect();
    if let [flag, setting, stage, fatal] = arguments.as_slice() {
        if flag == server::FLAG {
            let fatal = Fatal::named(fatal.clone().leak());
            return server::serve(Setting::named(setting), Stage::named(stage), fatal);
        }
    }
    // As with the usual harness: a word selects the tests that have it in their names.
    let word = arguments.iter().find(|argument| !argument.starts_with('-'));
    run_tests(word.map_or("", String::as_str))
}

fn run_tests(word: &str) -> ExitCode {
    let mut all = true;
    for (setting, stage) in tests() {
        let name = ["whoever_is_left_serves", setting.name(), stage.name()].join("::");
        let deaths = || die_at_each(setting, stage) + die_at_each_kind(setting, stage);
        all &= !name.contains(word) || passes(&name, || format!("{} deaths", deaths()));
    }
    ExitCode::from(u8::from(!all))
}

/// Whether a test does not panic; it says what it has seen.
fn passes(name: &str, test: impl FnOnce() -> String + panic::UnwindSafe) -> bool {
    let passed = panic::catch_unwind(test);
    match &passed {
        Ok(seen) => println!("test {name} ({seen}) ... ok"),
        Err(_) => println!("test {name} ... FAILED"),
    }
    passed.is_ok()
}

fn tests() -> impl Iterator<Item = (Setting, Stage)> {
    let all = |setting| Stage::ALL.map(|stage| (setting, stage));
    Setting::ALL.into_iter().flat_map(all)
}

/// One death at each point, in the order in which they come; how many.
fn die_at_each(setting: Setting, stage: Stage) -> usize {
    let deaths_from = |first: u32| {
        let each = (first..).step_by(AT_ONCE as usize);
        let each = each.take_while(|number| stage.is_last() || *number < POINTS);
        each.take_while(|number| run::run(Run::new(setting, stage, Fatal::Number(*number))))
            .count()
    };
    thread::scope(|scope| {
        let threads: Vec<_> = (0..AT_ONCE)
            .map(|first| scope.spawn(move || deaths_from(first)))
            .collect();
        let deaths = threads.into_iter().map(|thread| thread.join());
        deaths.map(|deaths| deaths.expect("all are served")).sum()
    })
}

/// One death at a point of each kind; how many.
///
/// A worker that stops need not be the leader, and so may not come to a point of every kind: others
/// stop, each in a run of its own, until one does.
fn die_at_each_kind(setting: Setting, stage: Stage) -> usize {
    let kinds = setting.kinds(stage);
    for kind in &kinds {
        eventually(&format!("{setting:?}: somebody comes to {kind:?}"), || {
            run::run(Run::new(setting, stage, Fatal::Kind(kind)))
        });
    }
    kinds.len()
}
