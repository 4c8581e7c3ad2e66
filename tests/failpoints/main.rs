//! A worker kills itself at every point at which it meets the others, under each policy: whoever is
//! left serves.
//!
//! A point is before or after a call to the lock, to the seat or to the listener, and between the
//! phases of a turn. In run `k` the first worker to come to its `k`-th point dies there, by SIGKILL,
//! and is not replaced; so it goes on for `k` = 0, 1, 2 and so on, until a run ends without a death.
//! Then, for each kind of point, the first worker to come to one of its kind dies there: none is left
//! to chance.
//!
//! This program is both sides: without arguments it is the tests, which start it again as the server
//! of one run, in a process of its own with a single thread.

mod dying;
mod points;
mod run;
mod server;
mod setting;

use std::{env, panic, process::ExitCode, thread};

use points::Fatal;
use setting::Setting;

/// So many runs at a time: nearly all of a run is waiting.
const AT_ONCE: u32 = 4;

fn main() -> ExitCode {
    let arguments: Vec<String> = env::args().skip(1).collect();
    if let [flag, setting, fatal] = arguments.as_slice() {
        if flag == server::FLAG {
            let fatal = Fatal::named(fatal.clone().leak());
            return server::serve(Setting::named(setting), fatal);
        }
    }
    // As with the usual harness: a word selects the tests that have it in their names.
    let word = arguments.iter().find(|argument| !argument.starts_with('-'));
    run_tests(word.map_or("", String::as_str))
}

fn run_tests(word: &str) -> ExitCode {
    let mut failed = false;
    for setting in Setting::ALL {
        let name = format!("whoever_is_left_serves::{}", setting.name());
        if !name.contains(word) {
            continue;
        }
        let passed = panic::catch_unwind(|| die_at_each(setting) + die_at_each_kind(setting));
        match passed {
            Ok(runs) => println!("test {name} ({runs} deaths) ... ok"),
            Err(_) => println!("test {name} ... FAILED"),
        }
        failed |= passed.is_err();
    }
    ExitCode::from(u8::from(failed))
}

/// One death at each point, in the order in which they come; how many.
fn die_at_each(setting: Setting) -> usize {
    let deaths_from = |first: u32| {
        let each = (first..).step_by(AT_ONCE as usize);
        each.take_while(|number| run::run(setting, Fatal::Number(*number)))
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
fn die_at_each_kind(setting: Setting) -> usize {
    let kinds = setting.kinds();
    for kind in &kinds {
        let died = run::run(setting, Fatal::Kind(kind));
        assert!(died, "{setting:?}: nobody came to {kind:?}");
    }
    kinds.len()
}
