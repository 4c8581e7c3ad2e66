//! Requests and their bodies, one after the other, as a connection reads them. The first byte of an
//! input is the length of the pieces in which the rest arrives; 0 counts as 1.
//!
//! Oracle: the requests and bodies do not depend on the pieces. Otherwise the way in which a client
//! sends bytes would decide what a request is.

#![no_main]

use evcore_httpd::fuzzing::{BodyMemory, BodyReader, MAX_BODY_BYTES, Parsed, parse};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    let Some((piece, bytes)) = bytes.split_first() else {
        return;
    };
    let at_once = Connection::read(bytes, bytes.len());
    let in_pieces = Connection::read(bytes, usize::from(*piece));
    assert_eq!(at_once.exchanges, in_pieces.exchanges);
    assert_eq!(at_once.is_refused, in_pieces.is_refused);
    if !at_once.is_refused {
        assert_eq!(at_once.input, in_pieces.input, "what is left over");
    }
});

#[derive(Default)]
struct Connection {
    input: Vec<u8>,
    /// The request under way, and its body.
    body: Option<(String, BodyReader)>,
    exchanges: Vec<(String, Vec<u8>)>,
    is_refused: bool,
}

impl Connection {
    fn read(bytes: &[u8], piece: usize) -> Self {
        let mut connection = Self::default();
        for piece in bytes.chunks(piece.max(1)) {
            connection.input.extend_from_slice(piece);
            while !connection.is_refused && connection.step() {}
        }
        connection
    }

    /// Takes a head or a part of a body. Returns whether there was one.
    fn step(&mut self) -> bool {
        if self.input.is_empty() {
            return false;
        }
        match self.body.take() {
            Some((request, body)) => self.feed(request, body),
            None => match parse(&self.input) {
                Parsed::Partial => return false,
                Parsed::Refused(_) => self.is_refused = true,
                Parsed::Complete(request, length) => {
                    self.input.drain(..length);
                    let body = BodyReader::keeping(request.framing);
                    self.feed(format!("{request:?}"), body);
                }
            },
        }
        true
    }

    fn feed(&mut self, request: String, mut body: BodyReader) {
        let mut memory = BodyMemory::new(MAX_BODY_BYTES, 1);
        assert!(memory.reserve(body.room()));
        match body.feed(&self.input, &mut memory) {
            Err(_) => self.is_refused = true,
            Ok(used) => {
                self.input.drain(..used);
                if body.is_done() {
                    self.exchanges.push((request, body.into_kept()));
                } else {
                    assert!(self.input.is_empty(), "an incomplete body takes all");
                    self.body = Some((request, body));
                }
            }
        }
    }
}
