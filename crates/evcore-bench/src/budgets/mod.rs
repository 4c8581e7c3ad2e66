//! What a budget costs and gains: the work of one phase at several budgets, and how long its turns
//! keep the other phases waiting.

mod phase;

use evcore::Budgets;

use self::phase::Phase;
use crate::record;
use crate::watch::{ROUNDS, ns_each};

/// What is tried of each.
const BUDGETS: [usize; 6] = [16, 64, 256, 512, 1024, 4096];

/// Measures all phases, and prints the records.
pub(crate) fn measure() {
    let phases = phase::all();
    for phase in &phases {
        eprintln!("budgets: {}", phase.name());
        let mut times = BUDGETS.map(|_| Vec::new());
        let mut turns = BUDGETS.map(|_| u32::MAX);
        for _ in 0..ROUNDS {
            for ((budget, times), turn) in BUDGETS.iter().zip(&mut times).zip(&mut turns) {
                let (ns, turn_ns) = round(phase.as_ref(), *budget);
                times.push(ns);
                // What was long only once was the machine's doing.
                *turn = turn_ns.min(*turn);
            }
        }
        let workload = format!("budgets/{}", phase.name());
        for ((budget, times), turn) in BUDGETS.iter().zip(&times).zip(turns) {
            let peer = budget.to_string();
            record::times(&workload, phase.items(), &peer, times);
            record::longest(&workload, phase.items(), &peer, turn);
        }
    }
}

/// Nanoseconds an item, and the middle turn. What is set up is not in it.
///
/// All turns but the last are full, so the middle one is; the longest may have been interrupted.
fn round(phase: &dyn Phase, budget: usize) -> (f64, u32) {
    let mut budgets = Budgets::default();
    phase.set(&mut budgets, budget);
    let mut ev = phase.ready(budgets);
    let mut left = phase.items();
    let ns = ns_each(left, || {
        while left > 0 {
            ev.wait().expect("nothing fails here");
            while let Some(step) = ev.next_step() {
                left -= usize::from(phase.serves(step));
            }
        }
        ev.prepare().expect("nothing fails here"); // the last turn is over
    });
    let histograms = ev.histograms().expect("they were asked for");
    let turn_ns = histograms.turn_ns().quantile(0.5);
    (ns, u32::try_from(turn_ns).unwrap_or(u32::MAX))
}
