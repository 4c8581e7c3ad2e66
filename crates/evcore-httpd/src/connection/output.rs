//! Responses that are not sent yet.

use std::mem;

use super::Abort;
use crate::shared::{MAX_OUTPUT_BYTES, Shared};

/// The maximum size of kept responses that need no body memory, in bytes. It is enough for short
/// responses to pipelined requests.
pub(super) const UNRESERVED_MAX: usize = 2 * MAX_OUTPUT_BYTES;

/// The responses of a connection. They are made in the buffer that all connections share; bytes
/// that the stream does not take at once are kept here.
#[derive(Debug, Default)]
pub(super) struct Output {
    kept: Option<Box<Kept>>,
    /// Body memory (`--bodies`) that the responses hold, in bytes.
    pub(super) room: usize,
}

/// Bytes to send, of which the stream has already taken the first `sent`.
#[derive(Debug, Default)]
struct Kept {
    bytes: Vec<u8>,
    sent: usize,
}

impl Output {
    /// Returns whether bytes wait to be sent, here or in the shared buffer.
    #[inline]
    pub(super) fn is_pending(&self, shared: &Shared) -> bool {
        self.kept.is_some() || !shared.output.is_empty()
    }

    #[inline]
    pub(super) fn is_kept(&self) -> bool {
        self.kept.is_some()
    }

    /// Returns the bytes to send next. At least one byte must be pending.
    #[inline]
    pub(super) fn bytes<'a>(&'a mut self, shared: &'a mut Shared) -> Result<&'a [u8], Abort> {
        if self.is_kept() {
            self.keep(0, shared)?;
        }
        Ok(match &self.kept {
            Some(kept) => &kept.bytes[kept.sent..],
            None => &shared.output,
        })
    }

    #[inline]
    pub(super) fn advance(&mut self, n: usize, shared: &mut Shared) -> Result<(), Abort> {
        match &mut self.kept {
            Some(kept) => {
                kept.sent += n;
                if kept.sent == kept.bytes.len() {
                    self.kept = None;
                }
            }
            None => self.keep(n, shared)?,
        }
        if self.kept.is_none() {
            self.release(shared);
        }
        Ok(())
    }

    /// Keeps the contents of the shared buffer from `sent` on.
    #[inline]
    pub(super) fn keep(&mut self, sent: usize, shared: &mut Shared) -> Result<(), Abort> {
        if shared.output.len() > sent {
            self.keep_rest(sent, shared)?;
        }
        shared.output.clear();
        Ok(())
    }

    #[cold]
    fn keep_rest(&mut self, sent: usize, shared: &mut Shared) -> Result<(), Abort> {
        let rest = shared.output.len() - sent;
        if !shared.bodies.headroom.allows(rest) {
            return Err(Abort);
        }
        let held = self.kept.as_ref().map_or(0, |kept| kept.bytes.len());
        // Bodies have reserved their memory (`room`). A page about all workers has not.
        let unreserved = (held + rest).saturating_sub(self.room + UNRESERVED_MAX);
        if !shared.bodies.reserve(unreserved) {
            return Err(Abort);
        }
        self.room += unreserved;
        let kept = &mut self.kept.get_or_insert_default().bytes;
        // The client controls the size, so the allocation may fail.
        kept.try_reserve_exact(rest).map_err(|_| Abort)?;
        kept.extend_from_slice(&shared.output[sent..]);
        Ok(())
    }

    /// Appends bytes to the kept ones directly, without the shared buffer.
    pub(super) fn push(&mut self, bytes: &[u8]) {
        let kept = self.kept.get_or_insert_default();
        kept.bytes.extend_from_slice(bytes);
    }

    #[inline]
    pub(super) fn release(&mut self, shared: &mut Shared) {
        shared.bodies.release(mem::take(&mut self.room));
    }
}
