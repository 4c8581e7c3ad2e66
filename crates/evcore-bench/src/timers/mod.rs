//! Timer queues: re-arm, replace, expire, and a minute of serving.
//!
//! Time is virtual, in milliseconds from 0, and the same for all; no queue reads a clock.

mod delay_queue;
mod hash_wheel;
mod operations;
mod peers;
mod queue;
mod rust;

#[cfg(test)]
mod tests;

use self::operations::Script;
use self::peers::Peer;
use self::queue::Calls;
use crate::foreign;
use crate::report::Report;
use crate::run::{self, Run, ns_each};
use crate::tools::Tool;

pub(crate) use self::operations::{Step, TIMEOUT_MS};
pub(crate) use self::queue::PeerQueue;

/// How many timers are armed.
const SIZES: [(usize, &str); 4] = [
    (1_000, "10^3"),
    (10_000, "10^4"),
    (100_000, "10^5"),
    (1_000_000, "10^6"),
];

/// The largest size of a quick run.
const QUICK_SIZE: usize = 10_000;

/// Measures all peers at all sizes.
pub(crate) fn measure(run: &Run, report: &mut Report) {
    let peers = peers::peers();
    run::crate_versions(
        report,
        &["hierarchical_hash_wheel_timer", "tokio", "tokio-util"],
    );
    foreign::record_versions(&["libev", "libevent", "libuv", "nginx's tree"], report);
    for (size, column) in SIZES {
        if !run.quick || size <= QUICK_SIZE {
            let script = Script::new(size, run.scaled(operations::STEPS));
            let what = format!("timers: {column} armed");
            run.rounds(&what, || round(&peers, &script, column, report));
        }
    }
    count_instructions(run, report);
}

/// Arms, and re-arms at random, without reading a clock.
///
/// The words are a peer, how many timers it has, and how often one is armed again. Returns whether
/// there is such a peer.
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

/// Peers take turns; the measuring loop is the first.
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
    let mut queue = armed(peer, script, true);
    let mut fired = 0;
    let expire = ns_each(script.arm.len(), || fired = queue.expire());
    assert_eq!(fired, script.arm.len(), "fired by {}", peer.name);
    report.add("expire", peer.name, column, expire);
    let mut queue = armed(peer, script, false);
    let mut serves = false;
    let serve = ns_each(script.serve.len(), || serves = queue.serve(&script.serve));
    if serves {
        report.add("serve", peer.name, column, serve);
    }
    drop(queue);
    let expiry = longest_call(|calls| armed(peer, script, true).time_expiry(calls));
    if let Some(us) = expiry {
        report.add("longest", peer.name, column, us);
    }
    let past = longest_call(|calls| {
        (peer.create)(script.ids(), false).time_past_deadlines(&script.arm, calls)
    });
    if let Some(us) = past {
        report.add("past", peer.name, column, us);
    }
}

/// The longest call in microseconds, of three runs of the same calls.
fn longest_call(mut run: impl FnMut(&mut Calls) -> bool) -> Option<f64> {
    let mut calls = Calls::default();
    (0..3)
        .all(|_| run(&mut calls))
        .then(|| run::each(calls.longest_ns(), 1_000))
}

/// What a re-arm takes of the processor.
pub(crate) fn count_instructions(run: &Run, report: &mut Report) {
    if Tool::CacheSim.is_missing(report) {
        return;
    }
    let ids = if run.quick { "1000" } else { "100000" };
    let words = format!("timers @ {ids} #");
    let each = |name: &str| Tool::CacheSim.each(run, &words, name);
    let loops = each(peers::LOOP);
    for peer in peers::peers().iter().filter(|peer| !peer.is_loop()) {
        if !report.wants("instructions", peer.name, "instructions") {
            continue;
        }
        eprintln!("timers: instructions of {}", peer.name);
        let counts = each(peer.name);
        let columns = [
            ("instructions", ["Ir", ""]),
            ("first-level misses", ["D1mr", "D1mw"]),
            ("last-level misses", ["DLmr", "DLmw"]),
        ];
        for (column, names) in columns {
            let of = |name| counts.get(name).unwrap_or(&0.0) - loops.get(name).unwrap_or(&0.0);
            let value = names.into_iter().map(of).sum();
            report.add("instructions", peer.name, column, value);
        }
    }
}

fn armed(peer: &Peer, script: &Script, due: bool) -> Box<dyn PeerQueue> {
    let mut queue = (peer.create)(script.ids(), due);
    queue.arm(&script.arm);
    queue
}
