//! Seven planted bugs of an edge-triggered server, and the number of seeds that finds each.
//!
//! The tests follow the guide in the crate's documentation: no client is lost under
//! [`Faults::lossless`], and no client receives a wrong byte under [`Faults::all`]. The first two
//! bugs change no byte, and each shows on only one kind of kernel.

use std::time::Duration;

use evcore_sim::{ClientOutcome, Faults, Rng, Script, ScriptHandle, Sim, Workers, check};

use crate::echo_server::{Bug, Echo, address};

#[derive(Debug)]
pub(crate) struct EchoClient {
    client: ScriptHandle,
    bytes: Vec<u8>,
}

impl EchoClient {
    fn start(sim: &Sim, letter: u8, mut rng: Rng) -> Self {
        let mut bytes = Vec::new();
        let mut script = Script::new();
        for _ in 0..rng.below(4) {
            let piece = vec![letter; 1 + rng.index(2_000)];
            bytes.extend(&piece);
            let length = piece.len();
            script = script.send(piece).recv(length);
        }
        bytes.extend(b"bye");
        let script = script.send("bye").shutdown_write().recv_eof();
        Self {
            client: sim.client(address(), script),
            bytes,
        }
    }

    fn is_complete(&self) -> bool {
        let outcome = self.client.outcome();
        outcome == Some(ClientOutcome::Completed) && self.client.received() == self.bytes
    }

    fn has_wrong_bytes(&self) -> bool {
        !self.bytes.starts_with(&self.client.received())
    }
}

/// Runs a server with ten clients, which come one after another.
fn serve(sim: &Sim, faults: Faults, bug: Bug) -> Vec<EchoClient> {
    sim.set_faults(faults);
    let mut workers = Workers::new(sim, 2, move |process, _| Echo::with_bug(process, bug));
    let mut rng = sim.rng();
    let mut clients = Vec::new();
    for (letter, choices) in (b'a'..).zip(sim.clients(10..=10)) {
        clients.push(EchoClient::start(sim, letter, choices));
        workers.run_for(rng.duration(&(Duration::ZERO..=Duration::from_secs(1))));
    }
    workers.run_for(Duration::from_secs(600));
    clients
}

pub(crate) fn lost_clients(sim: &Sim, bug: Bug) -> Vec<EchoClient> {
    let mut clients = serve(sim, Faults::lossless(), bug);
    clients.retain(|client| !client.is_complete());
    clients
}

fn clients_with_wrong_bytes(sim: &Sim, bug: Bug) -> Vec<EchoClient> {
    let mut clients = serve(sim, Faults::all(), bug);
    clients.retain(EchoClient::has_wrong_bytes);
    clients
}

#[test]
fn without_a_bug_no_client_is_lost() {
    check("without_a_bug_no_client_is_lost", 0..200, |sim| {
        let lost = lost_clients(sim, Bug::None);
        assert!(lost.is_empty(), "{lost:?}");
    });
}

#[test]
fn without_a_bug_no_client_receives_a_wrong_byte() {
    let name = "without_a_bug_no_client_receives_a_wrong_byte";
    check(name, 0..200, |sim| {
        let wrong = clients_with_wrong_bytes(sim, Bug::None);
        assert!(wrong.is_empty(), "{wrong:?}");
    });
}

/// Asserts that among `seeds` consecutive seeds at least one finds the bug. Checks ten such series
/// of seeds.
#[track_caller]
fn assert_found(bug: Bug, seeds: u64, finds_it: impl Fn(&Sim, Bug) -> Vec<EchoClient>) {
    for first in (0..200).step_by(20) {
        let finds_it = |seed| !finds_it(&Sim::new(seed), bug).is_empty();
        assert!(
            (first..first + seeds).any(finds_it),
            "{bug:?} survives {seeds} seeds from {first}"
        );
    }
}

#[test]
fn a_forgotten_rearm_is_found_within_4_seeds() {
    assert_found(Bug::ForgottenRearm, 4, lost_clients);
}

#[test]
fn a_short_read_taken_for_drained_is_found_within_4_seeds() {
    assert_found(Bug::ShortReadMeansDrained, 4, lost_clients);
}

#[test]
fn a_short_write_taken_for_complete_is_found_within_4_seeds() {
    assert_found(Bug::ShortWriteMeansSent, 4, lost_clients);
}

#[test]
fn a_half_close_taken_for_the_end_is_found_within_4_seeds() {
    assert_found(Bug::HalfCloseMeansEnd, 4, lost_clients);
}

#[test]
fn spurious_readiness_taken_for_the_end_is_found_within_60_seeds() {
    assert_found(Bug::SpuriousReadinessMeansEnd, 60, lost_clients);
}

#[test]
fn a_single_read_for_each_edge_is_found_within_4_seeds() {
    assert_found(Bug::ReadsOnce, 4, lost_clients);
}

#[test]
fn a_buffer_that_is_not_cleared_is_found_within_40_seeds() {
    assert_found(Bug::BufferNotCleared, 40, clients_with_wrong_bytes);
}
