//! The reader of chunked bodies. The first byte of an input is the length of the pieces in which it
//! arrives; 0: at once.
//!
//! Oracle: a second decoder, line by line, of a whole body (RFC 9112, section 7.1). Both must find the
//! same body and the same end, or both none.

#![no_main]

use evcore_httpd::fuzzing::{BodyMemory, BodyReader, Framing, MAX_BODY_BYTES};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    let Some((piece, bytes)) = bytes.split_first() else {
        return;
    };
    let piece = match usize::from(*piece) {
        0 => bytes.len().max(1),
        piece => piece,
    };
    assert_eq!(read(bytes, piece), decode(bytes), "in pieces of {piece}");
});

/// The body, and the length of what it was read from. `None` if it is incomplete or refused.
type Body = Option<(Vec<u8>, usize)>;

fn read(bytes: &[u8], piece: usize) -> Body {
    let mut memory = BodyMemory::new(MAX_BODY_BYTES, 1);
    assert!(memory.reserve(Framing::Chunked.first_reservation()));
    let mut body = BodyReader::keeping(Framing::Chunked);
    let mut used = 0;
    for piece in bytes.chunks(piece) {
        let taken = body.feed(piece, &mut memory).ok()?;
        used += taken;
        if body.is_done() {
            return Some((body.into_kept(), used));
        }
        assert_eq!(taken, piece.len(), "an incomplete body takes all");
    }
    None
}

/// Decodes a whole body.
fn decode(bytes: &[u8]) -> Body {
    let (mut body, mut rest) = (Vec::new(), bytes);
    loop {
        let line = take_line(&mut rest)?;
        let digits = line
            .iter()
            .take_while(|byte| byte.is_ascii_hexdigit())
            .count();
        let (size, extensions) = line.split_at(digits);
        // The reader refuses longer ones.
        if size.is_empty() || size.len() > 15 || !is_extension(extensions) {
            return None;
        }
        let size = usize::from_str_radix(std::str::from_utf8(size).ok()?, 16).ok()?;
        if size == 0 {
            break;
        }
        body.extend_from_slice(rest.get(..size)?);
        rest = rest[size..].strip_prefix(b"\r\n")?;
    }
    loop {
        let line = take_line(&mut rest)?;
        if line.is_empty() {
            return Some((body, bytes.len() - rest.len()));
        }
        let name = &line[..line.iter().position(|byte| *byte == b':')?];
        let is_name = |byte: &u8| byte.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(byte);
        if name.is_empty() || !name.iter().all(is_name) {
            return None;
        }
    }
}

/// Nothing, or white space, or an extension after it.
fn is_extension(bytes: &[u8]) -> bool {
    let is_space = |byte: &&u8| matches!(byte, b' ' | b'\t');
    let spaces = bytes.iter().take_while(is_space).count();
    matches!(bytes[spaces..], [] | [b';', ..])
}

/// Takes a line that ends with CR LF and has no control byte.
fn take_line<'a>(rest: &mut &'a [u8]) -> Option<&'a [u8]> {
    let end = rest.windows(2).position(|two| two == b"\r\n")?;
    let line = &rest[..end];
    *rest = &rest[end + 2..];
    let is_text = |byte: &u8| *byte == b'\t' || !byte.is_ascii_control();
    line.iter().all(is_text).then_some(line)
}
