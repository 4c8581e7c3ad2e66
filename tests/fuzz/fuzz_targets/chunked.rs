//! The reader of chunked bodies. The first byte of an input is the length of the pieces in which it
//! arrives. With 0, all of it arrives at once.
//!
//! Oracle: a second decoder, line by line, of a whole body (RFC 9112, section 7.1). Both must find
//! the same body and the same end, or both must find none.

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

/// The body, and its length in the input. `None` if it is incomplete or refused.
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

fn decode(bytes: &[u8]) -> Body {
    let (mut body, mut rest) = (Vec::new(), bytes);
    loop {
        let line = take_line(&mut rest)?;
        let digits = line
            .iter()
            .take_while(|byte| byte.is_ascii_hexdigit())
            .count();
        let (size, extensions) = line.split_at(digits);
        if size.is_empty() || !are_extensions(extensions) {
            return None;
        }
        // A size that does not fit into a `usize` also exceeds the limit of a body.
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
        if name.is_empty() || !name.iter().all(is_token) {
            return None;
        }
    }
}

/// Returns whether a line without control bytes is `*( BWS ";" BWS chunk-ext-name [ BWS "=" BWS
/// chunk-ext-val ] )`.
fn are_extensions(bytes: &[u8]) -> bool {
    if bytes.is_empty() {
        return true;
    }
    let name = skip_spaces(bytes).strip_prefix(b";").map(skip_spaces);
    let Some(after_name) = name.and_then(skip_token) else {
        return false;
    };
    let Some(value) = skip_spaces(after_name).strip_prefix(b"=") else {
        return are_extensions(after_name);
    };
    let value = skip_spaces(value);
    let rest = match value.strip_prefix(b"\"") {
        Some(quoted) => skip_quoted(quoted),
        None => skip_token(value),
    };
    rest.is_some_and(are_extensions)
}

fn skip_spaces(bytes: &[u8]) -> &[u8] {
    let is_space = |byte: &&u8| matches!(byte, b' ' | b'\t');
    &bytes[bytes.iter().take_while(is_space).count()..]
}

fn skip_token(bytes: &[u8]) -> Option<&[u8]> {
    let length = bytes.iter().take_while(|byte| is_token(byte)).count();
    (length > 0).then(|| &bytes[length..])
}

fn skip_quoted(mut bytes: &[u8]) -> Option<&[u8]> {
    loop {
        bytes = match bytes {
            [b'"', rest @ ..] => return Some(rest),
            [b'\\', _, rest @ ..] | [_, rest @ ..] => rest,
            [] => return None,
        };
    }
}

fn is_token(byte: &u8) -> bool {
    byte.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(byte)
}

/// Takes a line that ends with CR LF and has no control byte except for tabs.
fn take_line<'a>(rest: &mut &'a [u8]) -> Option<&'a [u8]> {
    let end = rest.windows(2).position(|two| two == b"\r\n")?;
    let line = &rest[..end];
    *rest = &rest[end + 2..];
    let is_text = |byte: &u8| *byte == b'\t' || !byte.is_ascii_control();
    line.iter().all(is_text).then_some(line)
}
