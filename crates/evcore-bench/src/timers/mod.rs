//! Timer queues: the cost of re-arming, replacing and expiring timers, and of a minute of *serving*
//! (a simulated server re-arms timers while the time advances).
//!
//! Time is virtual, in milliseconds from 0, and the same for all queues; no queue reads a clock.

mod peers;
mod queue;
mod rust;
mod script;

#[cfg(test)]
mod tests;

use self::peers::Peer;
use self::script::{END_MS, SERVED_PER_MS, Script};
use crate::foreign;
use crate::report::Report;
use crate::run::{Run, each, ns_each};
use crate::tools::Tool;

pub(crate) use self::queue::PeerQueue;
pub(crate) use self::script::{Step, TIMEOUT_MS};

pub(crate) fn measure(run: &Run, report: &mut Report) {
    let peers = peers::peers();
    foreign::record_absent(report);
    // Number of armed timers, as a power of 10.
    for size in if run.quick { 3..=4 } else { 4..=6 } {
        let script = Script::new(10_usize.pow(size), run.scaled(script::STEPS));
        let column = format!("10^{size}");
        let what = format!("timers: {column} armed");
        run.rounds(&what, || round(&peers, &script, &column, report));
    }
    count_instructions(run, report);
    count_few(run, report);
}

/// Arms timers, and arms random ones again, for a tool to count.
///
/// The arguments are a peer, its number of timers, and the number of re-arms in all. Returns false
/// if they are wrong.
pub(crate) fn count(words: &[&str]) -> bool {
    let [name, ids, steps] = words[..] else {
        return false;
    };
    let peers = peers::peers();
    let peer = peers.iter().find(|peer| peer.name == name);
    let (Some(peer), Ok(ids), Ok(steps)) = (peer, ids.parse(), steps.parse()) else {
        return false;
    };
    let script = Script::new(ids, steps);
    armed(peer, &script, false).arm(&script.rearm);
    true
}

/// Serves events, each in its own turn (iteration of a server's loop), for a tool to count.
///
/// The arguments are `kept` or `closed`, a peer, its number of timers, and the number of turns.
/// Returns false if they are wrong, or if the peer cannot serve turns.
pub(crate) fn count_turns(words: &[&str]) -> bool {
    let ["kept" | "closed", name, ids, turns] = words[..] else {
        return false;
    };
    let closes = words[0] == "closed";
    let peers = peers::peers();
    let peer = peers.iter().find(|peer| peer.name == name);
    let (Some(peer), Ok(ids), Ok(turns)) = (peer, ids.parse(), turns.parse()) else {
        return false;
    };
    let script = Script::new(ids, turns);
    let steps = if closes { &script.closed } else { &script.kept };
    armed(peer, &script, false).turns(steps, closes)
}

/// Measures the peers one after the other. The first is the measuring loop itself, whose time is
/// subtracted from the others'.
fn round(peers: &[Peer], script: &Script, column: &str, report: &mut Report) {
    let (mut rearm_loop, mut replace_loop) = (0.0, 0.0);
    for peer in peers {
        let mut queue = armed(peer, script, false);
        let rearm = ns_each(script.rearm.len(), || queue.arm(&script.rearm));
        queue.arm(&script.spare);
        let replace = ns_each(script.replace.len(), || queue.replace(&script.replace));
        drop(queue);
        if peer.is_loop() {
            (rearm_loop, replace_loop) = (rearm, replace);
            continue;
        }
        report.add("rearm", peer.name, column, rearm - rearm_loop);
        report.add("replace", peer.name, column, replace - replace_loop);
        expiry(peer, script, column, report);
    }
}

fn expiry(peer: &Peer, script: &Script, column: &str, report: &mut Report) {
    let mut add = |table, value| report.add(table, peer.name, column, value);
    let mut queue = armed(peer, script, true);
    let mut fired = 0;
    let expire = ns_each(script.arm.len(), || fired = queue.expire());
    add("expire", expire);
    assert_eq!(fired, script.arm.len(), "fired by {}", peer.name);
    // Dropped before the next queue is made, because the program has only one tree of nginx.
    drop(queue);
    let mut queue = armed(peer, script, false);
    let mut serves = false;
    let serve = ns_each(script.serve.len(), || {
        serves = script.serve.chunks(SERVED_PER_MS).all(|steps| {
            queue.arm(steps);
            let next = steps[0].deadline + 1;
            queue.rearm_due(next - TIMEOUT_MS, next)
        });
    });
    if serves {
        add("serve", serve);
    }
    drop(queue);
    if !TIMED_CALL_BY_CALL.contains(&peer.name) {
        return;
    }
    let longest = longest_us(|| armed(peer, script, true).time_calls(0, &[]));
    let create = || (peer.create)(script.ids(), false);
    let past = longest_us(|| create().time_calls(END_MS, &script.arm));
    let first = Some(first_us(peer, script));
    for (table, us) in [("longest", longest), ("past", past), ("first", first)] {
        us.into_iter().for_each(|us| add(table, us));
    }
}

/// The queues whose single calls are measured. Each of them grows when a caller arms an id that is
/// beyond its room.
const TIMED_CALL_BY_CALL: [&str; 4] = ["TimerWheel", "TimerTree", "TimerHeap", "Lazy<TimerWheel>"];

/// Microseconds that it takes to arm the last id in an empty queue with room for one id: the least
/// of three times.
fn first_us(peer: &Peer, script: &Script) -> f64 {
    let last = &script.arm[script.arm.len() - 1..];
    let once = || {
        let mut queue = (peer.create)(1, false);
        ns_each(1, || queue.arm(last))
    };
    [once(), once(), once()]
        .into_iter()
        .fold(f64::INFINITY, f64::min)
        / 1e3
}

/// The longest call in microseconds. The same calls run three times, and each call counts with its
/// least time. A stall of the machine hits a different call in each run, so it does not count.
fn longest_us(mut run: impl FnMut() -> Vec<u64>) -> Option<f64> {
    let least_ns = run().into_iter().zip(run()).zip(run());
    let least_ns = least_ns.map(|((first, second), third)| first.min(second).min(third));
    least_ns.max().map(|ns| each(ns, 1_000))
}

/// Counts the instructions of a turn with few timers, in which a connection is kept alive or
/// closes.
pub(crate) fn count_few(run: &Run, report: &mut Report) {
    const FEW: [&str; 3] = ["1", "10", "100"];
    if Tool::Callgrind.is_missing(report) {
        return;
    }
    for (connection, table) in [("kept", "few kept"), ("closed", "few closed")] {
        for column in FEW {
            let words = format!("turns {connection} @ {column} #");
            let each = |name| Tool::Callgrind.each(run, &words, name)["Ir"];
            let mut of_loop = None;
            for peer in peers::peers().iter().filter(|peer| peer.has_turns()) {
                if report.wants(table, peer.name, column) {
                    let of_loop = *of_loop.get_or_insert_with(|| each(peers::LOOP));
                    report.add(table, peer.name, column, each(peer.name) - of_loop);
                }
            }
        }
    }
}

pub(crate) fn count_instructions(run: &Run, report: &mut Report) {
    const TABLE: &str = "instructions";
    if Tool::CacheSim.is_missing(report) {
        return;
    }
    let ids = if run.quick { "1000" } else { "100000" };
    let each = |name| Tool::CacheSim.each(run, &format!("timers @ {ids} #"), name);
    let loops = each(peers::LOOP);
    for peer in peers::peers().iter().filter(|peer| !peer.is_loop()) {
        if !report.wants(TABLE, peer.name, "instructions") {
            continue;
        }
        eprintln!("timers: instructions of {}", peer.name);
        let counts = each(peer.name);
        let mut add = |column, names: &[&str]| {
            let of = |name: &&str| counts[*name] - loops[*name];
            report.add(TABLE, peer.name, column, names.iter().map(of).sum());
        };
        add("instructions", &["Ir"]);
        add("first-level misses", &["D1mr", "D1mw"]);
        add("last-level misses", &["DLmr", "DLmw"]);
    }
}

fn armed(peer: &Peer, script: &Script, due: bool) -> Box<dyn PeerQueue> {
    let mut queue = (peer.create)(script.ids(), due);
    queue.arm(&script.arm);
    queue
}
