//! A client that sends random requests on one connection, the last with `Connection: close`.

use std::time::Duration;

use evcore_httpd::shared::PAYLOAD_BYTE;
use evcore_sim::{ClientOutcome, Rng, Script, ScriptHandle, Sim};

use crate::{
    ADDRESS,
    answers::{self, Answer},
};

#[derive(Debug)]
pub(crate) struct Browser {
    client: ScriptHandle,
    expected: Vec<Answer>,
}

impl Browser {
    pub(crate) fn start(sim: &Sim, rng: &mut Rng) -> Self {
        let (mut script, mut expected) = (Script::new(), Vec::new());
        for _ in 0..rng.below(6) {
            script = send(script, &request(rng, "", &mut expected), rng);
        }
        script = send(
            script,
            &request(rng, "Connection: close\r\n", &mut expected),
            rng,
        );
        if rng.below(4) == 0 {
            script = script.shutdown_write();
        }
        Self {
            client: sim.client(ADDRESS.into(), script.recv_eof()),
            expected,
        }
    }

    pub(crate) fn is_done(&self) -> bool {
        self.client.is_done()
    }

    /// Checks that the client's responses are a prefix of the expected ones. The last response may
    /// be an error: 408 if the client sent too slowly, or 503 if there was no room for its body.
    pub(crate) fn check(&self) {
        let mut answers = answers::complete(&self.client.received());
        if answers
            .last()
            .is_some_and(|answer| matches!(answer.status, 408 | 503))
        {
            answers.pop();
        }
        assert!(self.expected.starts_with(&answers), "{self:?}: {answers:?}");
    }

    pub(crate) fn is_answered(&self) -> bool {
        let answers = answers::complete(&self.client.received());
        self.client.outcome() == Some(ClientOutcome::Completed) && answers == self.expected
    }
}

/// Sends a request at once or in pieces, perhaps with a pause after it. Without a pause, requests
/// are pipelined.
fn send(script: Script, text: &str, rng: &mut Rng) -> Script {
    let script = match rng.below(3) {
        0 => {
            let every = rng.duration(&(Duration::ZERO..=Duration::from_millis(300)));
            script.send_slowly(text, 1 + rng.index(40), every)
        }
        _ => script.send(text),
    };
    match rng.below(2) {
        0 => script.pause_between(Duration::ZERO..=Duration::from_secs(5)),
        _ => script,
    }
}

/// A random request. Its response is added to `expected`.
fn request(rng: &mut Rng, headers: &str, expected: &mut Vec<Answer>) -> String {
    let get = |path: &str| format!("GET {path} HTTP/1.1\r\nHost: sim\r\n{headers}\r\n");
    let (text, answer) = match rng.below(6) {
        0 => {
            let length = [0, 1, 3_000, 150_000][rng.index(4)];
            let answer = Answer::new(200, vec![PAYLOAD_BYTE; length]);
            (get(&format!("/bytes/{length}")), answer)
        }
        1 => {
            let path = format!("/sleep/{}", rng.below(3_000));
            (get(&path), Answer::new(200, "slept\n"))
        }
        2 => {
            let body = "x".repeat(rng.index(2_000));
            let framing = format!("Content-Length: {}\r\n", body.len());
            (post(headers, &framing, &body), Answer::new(200, body))
        }
        3 => {
            let chunked = "Transfer-Encoding: chunked\r\n";
            let body = "5\r\nin tw\r\n8\r\no pieces\r\n0\r\n\r\n";
            (
                post(headers, chunked, body),
                Answer::new(200, "in two pieces"),
            )
        }
        4 => (get("/nowhere"), Answer::new(404, "404 Not Found\n")),
        _ => (get("/"), Answer::new(200, "Hello, World!")),
    };
    expected.push(answer);
    text
}

fn post(headers: &str, framing: &str, body: &str) -> String {
    format!("POST /echo HTTP/1.1\r\nHost: sim\r\n{headers}{framing}\r\n{body}")
}
