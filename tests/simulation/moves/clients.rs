//! Clients that ask a server for their own name, again and again.

use std::{fmt, time::Duration};

use evcore_sim::{ClientOutcome, Rng, Script, ScriptHandle, Sim};

use crate::{ADDRESS, Totals, echo::answer};

pub(crate) struct TestClient {
    client: ScriptHandle,
    expected: Vec<u8>,
}

impl TestClient {
    /// With `names_all`, each request has all that its answer needs.
    pub(crate) fn start(sim: &Sim, number: usize, names_all: bool, rng: &mut Rng) -> Self {
        let name = format!("client-{number}");
        let mut script = Script::new();
        if !names_all {
            script = script.send(format!("{name}\n"));
        }
        let mut expected = Vec::new();
        for asked in 0..3 + rng.below(6) {
            let length = [0, 10, 20_000][rng.index(3)];
            let request = match names_all {
                true => format!("{name} {asked} {length}\n"),
                false => format!("{length}\n"),
            };
            // If a request comes in pieces, its connection may move after some of them.
            script = if rng.below(2) == 0 {
                script.send(request)
            } else {
                let every = rng.duration(&(Duration::ZERO..=Duration::from_millis(300)));
                script.send_slowly(request, 1, every)
            };
            let answer = answer(&name, asked, length);
            expected.extend(&answer);
            script = script
                .recv_until(answer)
                .pause_between(Duration::ZERO..=Duration::from_millis(500));
        }
        Self {
            client: sim.client(ADDRESS.into(), script.shutdown_write().recv_eof()),
            expected,
        }
    }

    pub(crate) fn is_done(&self) -> bool {
        self.client.is_done()
    }

    /// Returns whether a worker or a store has closed the connection because no successor took it.
    fn is_closed(&self, totals: &Totals) -> bool {
        let address = self.client.local_addr().map(|address| address.to_string());
        address.is_some_and(|address| totals.closed.borrow().contains(&address))
    }

    /// Panics if the client got an answer that is not its own.
    pub(crate) fn check_answers(&self) {
        assert!(
            self.expected.starts_with(&self.client.received()),
            "a client has another answer: {self:?}"
        );
    }

    /// Returns whether the client got all its answers. Panics if it got another answer, or if it
    /// lacks answers although neither a fault nor a close in `totals` has ended its connection.
    pub(crate) fn check(&self, totals: &Totals) -> bool {
        self.check_answers();
        let received = self.client.received();
        let is_answered = self.client.outcome() == Some(ClientOutcome::Completed)
            && received.len() == self.expected.len();
        assert!(
            is_answered || self.client.is_lost_to_fault() || self.is_closed(totals),
            "a client is lost: {self:?}"
        );
        is_answered
    }
}

/// Leaves out the dots that fill the answers.
impl fmt::Debug for TestClient {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).replace('.', "");
        f.debug_struct("TestClient")
            .field("address", &self.client.local_addr())
            .field("outcome", &self.client.outcome())
            .field("received", &text(&self.client.received()))
            .field("expected", &text(&self.expected))
            .finish()
    }
}
