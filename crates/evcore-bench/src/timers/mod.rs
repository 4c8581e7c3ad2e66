//! Timer queues: re-arm, replace, expire, and a minute of serving.
//!
//! Time is virtual, in milliseconds from 0, and the same for all; no queue asks for the real one.

mod btree;
mod delay_queue;
#[cfg(any(peer_libev, peer_libevent, peer_libuv, peer_nginx_rbtree))]
mod foreign;
mod hash_wheel;
mod nothing;
mod ours;
mod peers;
mod queue;
mod script;

#[cfg(test)]
mod tests;

use self::peers::Peer;
use self::queue::PeerQueue;
use self::script::Script;
use crate::library;
use crate::record;
use crate::watch::{ROUNDS, ns_each};

/// How many timers are armed.
const SIZES: [usize; 4] = [1_000, 10_000, 100_000, 1_000_000];

/// Measures all peers at all sizes, and prints the records.
pub(crate) fn measure() {
    let peers = peers::peers();
    tell_versions(&peers);
    for size in SIZES {
        measure_size(&peers, size);
    }
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
    let mut queue = armed(peer, &script, false);
    queue.arm(&script.rearm);
    true
}

fn tell_versions(peers: &[Peer]) {
    library::record_versions(
        peers
            .iter()
            .filter_map(|peer| Some((peer.name, peer.version.as_deref()?))),
    );
}

/// What the rounds gave for one peer.
#[derive(Debug, Default)]
struct Figures {
    rearm: Vec<f64>,
    replace: Vec<f64>,
    expire: Vec<f64>,
    serve: Vec<f64>,
    /// Of each call, the shortest that it was in any round.
    calls: Vec<u32>,
}

/// Peers take turns, so that what the machine does meanwhile meets all of them.
fn measure_size(peers: &[Peer], size: usize) {
    let script = Script::new(size, script::STEPS);
    let mut figures: Vec<Figures> = peers.iter().map(|_| Figures::default()).collect();
    for round in 1..=ROUNDS {
        eprintln!("timers: {size} armed, round {round} of {ROUNDS}");
        for (peer, figures) in peers.iter().zip(&mut figures) {
            figures.add_round(peer, &script);
        }
    }
    for (peer, figures) in peers.iter().zip(&figures) {
        figures.print(size, peer.name);
    }
}

impl Figures {
    fn add_round(&mut self, peer: &Peer, script: &Script) {
        self.add_changes(peer, script);
        self.add_expiry(peer, script);
        self.add_calls(peer, script);
        self.add_serving(peer, script);
    }

    fn add_changes(&mut self, peer: &Peer, script: &Script) {
        let mut queue = armed(peer, script, false);
        let rearm = ns_each(script.rearm.len(), || queue.arm(&script.rearm));
        self.rearm.push(rearm);
        queue.arm(&script.spare);
        let replace = ns_each(script.replace.len(), || queue.replace(&script.replace));
        self.replace.push(replace);
    }

    fn add_expiry(&mut self, peer: &Peer, script: &Script) {
        if peer.is_loop() {
            return;
        }
        let mut queue = armed(peer, script, true);
        let mut fired = 0;
        let expire = ns_each(script.arm.len(), || fired = queue.expire());
        assert_eq!(fired, script.arm.len(), "fired by {}", peer.name);
        self.expire.push(expire);
    }

    /// The script is the same in each round, so what was long only once was the machine's doing.
    fn add_calls(&mut self, peer: &Peer, script: &Script) {
        let calls = armed(peer, script, true).expire_call_by_call();
        if self.calls.is_empty() {
            self.calls = calls;
            return;
        }
        for (least, call) in self.calls.iter_mut().zip(calls) {
            *least = call.min(*least);
        }
    }

    fn add_serving(&mut self, peer: &Peer, script: &Script) {
        let mut queue = armed(peer, script, false);
        let mut serves = false;
        let serve = ns_each(script.serve.len(), || serves = queue.serve(&script.serve));
        if serves {
            self.serve.push(serve);
        }
    }

    fn print(&self, size: usize, peer: &str) {
        for (workload, rounds) in [
            ("rearm", &self.rearm),
            ("replace", &self.replace),
            ("expire", &self.expire),
            ("serve", &self.serve),
        ] {
            if !rounds.is_empty() {
                record::times(&format!("timers/{workload}"), size, peer, rounds);
            }
        }
        if let Some(longest) = self.calls.iter().max() {
            record::longest("timers/expire", size, peer, *longest);
        }
    }
}

fn armed(peer: &Peer, script: &Script, due: bool) -> Box<dyn PeerQueue> {
    let mut queue = (peer.create)(script.ids(), due);
    queue.arm(&script.arm);
    queue
}
