//! A client that sends a large body, at once or after `100 Continue`.

use std::time::Duration;

use evcore_sim::{ClientOutcome, Rng, Script, ScriptHandle, Sim};

use crate::{
    ADDRESS,
    answers::{self, Answer},
};

/// Room in bytes for one of these bodies, chunked or not, but not for two.
pub(crate) const ROOM_FOR_ONE: usize = 8_000;

/// The size of a piece in bytes, and the pause after it.
const PIECE: usize = 500;
const EVERY: Duration = Duration::from_millis(100);

#[derive(Debug)]
pub(crate) struct Upload {
    client: ScriptHandle,
    body: Vec<u8>,
    waits_for_continue: bool,
}

impl Upload {
    pub(crate) fn start(sim: &Sim, rng: &mut Rng) -> Self {
        let is_chunked = rng.below(4) == 0;
        let waits_for_continue = rng.below(2) == 0;
        let length = if is_chunked { 0 } else { 4_100 } + rng.index(3_900);
        let body = vec![b"abcdefgh"[rng.index(8)]; length];
        let (framing, sent) = if is_chunked {
            ("Transfer-Encoding: chunked".to_owned(), chunked(&body))
        } else {
            (format!("Content-Length: {length}"), body.clone())
        };
        let mut head = format!("POST /echo HTTP/1.1\r\nHost: sim\r\n{framing}\r\n");
        let mut script = Script::new();
        if waits_for_continue {
            head += "Expect: 100-continue\r\n\r\n";
            script = script.send(head).recv_until(CONTINUE);
        } else {
            script = script.send(head + "\r\n");
        }
        let script = script.send_slowly(sent, PIECE, EVERY);
        let client = sim.client(
            ADDRESS.into(),
            script.recv_until(body.clone()).shutdown_write().recv_eof(),
        );
        Self {
            client,
            body,
            waits_for_continue,
        }
    }

    pub(crate) fn is_done(&self) -> bool {
        self.client.is_done()
    }

    /// The least time for which the body keeps other bodies out. It is 0 if the client did not wait
    /// for `100 Continue`, because the body may have arrived before there was room for it.
    pub(crate) fn takes_at_least(&self) -> Duration {
        let pieces = self.body.len() / PIECE;
        if self.waits_for_continue {
            EVERY * u32::try_from(pieces.saturating_sub(1)).expect("few")
        } else {
            Duration::ZERO
        }
    }

    pub(crate) fn check(&self) {
        assert_eq!(
            self.client.outcome(),
            Some(ClientOutcome::Completed),
            "{self:?}"
        );
        let received = self.client.received();
        let received = received.strip_prefix(CONTINUE).unwrap_or(&received);
        let expected = Answer::new(200, self.body.clone());
        assert_eq!(answers::complete(received), [expected]);
    }
}

const CONTINUE: &[u8] = b"HTTP/1.1 100 Continue\r\n\r\n";

fn chunked(body: &[u8]) -> Vec<u8> {
    let chunk =
        |bytes: &[u8]| [format!("{:x}\r\n", bytes.len()).as_bytes(), bytes, b"\r\n"].concat();
    let chunks: Vec<u8> = body.chunks(1000).flat_map(chunk).collect();
    [&chunks[..], b"0\r\n\r\n"].concat()
}
