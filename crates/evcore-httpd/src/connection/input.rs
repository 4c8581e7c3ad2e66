//! Bytes that a connection has received and not served.

use std::mem;

use super::Abort;
use crate::{request::MAX_HEAD_BYTES, shared::Shared};

#[derive(Debug, Default)]
pub(super) struct Input {
    /// Between requests this is empty, and not allocated.
    bytes: Vec<u8>,
    /// True if `bytes` was parsed and holds an incomplete request.
    pub(super) is_partial: bool,
}

impl Input {
    pub(super) fn len(&self) -> usize {
        self.bytes.len()
    }

    pub(super) fn is_empty(&self) -> bool {
        self.bytes.is_empty()
    }

    pub(super) fn is_servable(&self) -> bool {
        !self.is_empty() && !self.is_partial
    }

    pub(super) fn keep(&mut self, bytes: &[u8], shared: &mut Shared) -> Result<(), Abort> {
        if !shared.bodies.headroom.allows(bytes.len()) {
            return Err(Abort);
        }
        // The client controls the size, so the allocation may fail.
        self.bytes.try_reserve(bytes.len()).map_err(|_| Abort)?;
        self.bytes.extend_from_slice(bytes);
        Ok(())
    }

    pub(super) fn take(&mut self) -> Vec<u8> {
        mem::take(&mut self.bytes)
    }

    /// Puts back the bytes that were not served: all except the first `used`.
    pub(super) fn put_back(&mut self, mut bytes: Vec<u8>, used: usize) {
        if used < bytes.len() {
            bytes.drain(..used);
            self.bytes = bytes;
        }
    }
}

/// Returns the length of an empty line at the front. Some clients send an empty line after a body.
/// Such a line does not begin a request (RFC 9112, section 2.2).
#[inline]
pub(super) fn empty_line(bytes: &[u8]) -> Option<usize> {
    match bytes {
        [b'\r', b'\n', ..] => Some(2),
        [b'\n', ..] => Some(1),
        _ => None,
    }
}

/// Returns whether a head is surely incomplete. Its first `known` bytes were scanned before.
///
/// A head ends with a line end, so another parse is useless until a new line end arrives. A client
/// that sends one byte at a time does not cause a parse for each byte.
#[inline]
pub(super) fn is_surely_partial(head: &[u8], known: usize) -> bool {
    let is_unfinished = !has_line_end(&head[known..]) && head.len() < MAX_HEAD_BYTES;
    is_unfinished && may_begin_request(head)
}

/// Returns whether the first byte may be that of a request, or of an empty line before it. The
/// bytes of other protocols, such as TLS, are parsed (and refused) at once, because they may have
/// no line end.
fn may_begin_request(bytes: &[u8]) -> bool {
    let is_plain = |byte: &u8| byte.is_ascii_graphic() || matches!(byte, b'\r' | b'\n');
    bytes.first().is_none_or(is_plain)
}

/// Returns whether the method of a head that was not parsed is HEAD, whose response has no body in
/// any case (RFC 9110, section 9.3.2). Empty lines may come before the request line.
pub(super) fn has_method_head(head: &[u8]) -> bool {
    head.trim_ascii_start().starts_with(b"HEAD ")
}

/// Returns whether the request line of a head is complete. Empty lines may come before the request
/// line.
pub(super) fn has_request_line(head: &[u8]) -> bool {
    has_line_end(head.trim_ascii_start())
}

/// The last byte is checked first, because most heads arrive whole.
fn has_line_end(bytes: &[u8]) -> bool {
    bytes.last() == Some(&b'\n') || bytes.contains(&b'\n')
}
