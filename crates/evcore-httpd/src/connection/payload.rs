//! The payload of a connection: the body of a response that comes from a file, or from a static
//! buffer. It is sent in pieces after the head.

use std::sync::Arc;

use crate::{
    files::{DiskRead, OpenFile, Part, left_in_chunk},
    shared::PAYLOAD_BYTE,
};

/// The maximum size of a part of a file that shares its first packet with the head.
///
/// A longer part needs several packets anyway. If it shared the head's packet, each packet would
/// begin inside a page of the file, which costs the kernel a fifth more than whole pages.
const MAX_JOINED_BYTES: u64 = 32 * 1024;

static PAYLOAD: [u8; 64 * 1024] = [PAYLOAD_BYTE; 64 * 1024];

#[derive(Debug, Default)]
pub(super) struct Payload {
    left: u64,
    /// The file whose bytes up to `end` are the payload. `None` for `/bytes`, and when the payload
    /// is sent.
    file: Option<Arc<OpenFile>>,
    end: u64,
    pub(super) disk_read: DiskRead,
}

#[derive(Debug)]
pub(super) enum Piece<'a> {
    Bytes(&'static [u8]),
    File {
        file: &'a Arc<OpenFile>,
        offset: u64,
        /// The number of bytes, which are all in one chunk of the file.
        count: u64,
        /// True if the piece was just read from the disk.
        was_read: bool,
    },
}

impl Payload {
    pub(super) fn repeated(length: u64) -> Self {
        Self {
            left: length,
            ..Self::default()
        }
    }

    pub(super) fn of(part: Part) -> Self {
        Self {
            left: part.length,
            file: Some(part.file),
            end: part.end,
            disk_read: DiskRead::None,
        }
    }

    #[inline]
    pub(super) fn is_pending(&self) -> bool {
        self.left > 0
    }

    /// Returns whether the payload is a short part of a file, whose first packet is joined with
    /// that of the head.
    #[inline]
    pub(super) fn is_short_file(&self) -> bool {
        self.file.is_some() && self.left <= MAX_JOINED_BYTES
    }

    pub(super) fn waits_for_disk(&self) -> bool {
        matches!(self.disk_read, DiskRead::Waiting | DiskRead::Running)
    }

    /// Returns the part to send next. At least one byte must be pending.
    #[inline]
    pub(super) fn piece(&mut self) -> Piece<'_> {
        let was_read = std::mem::take(&mut self.disk_read) == DiskRead::Done;
        match &self.file {
            Some(file) => {
                let offset = self.end - self.left;
                Piece::File {
                    file,
                    offset,
                    count: self.left.min(left_in_chunk(offset)),
                    was_read,
                }
            }
            None => {
                let length = usize::try_from(self.left).unwrap_or(usize::MAX);
                Piece::Bytes(&PAYLOAD[..length.min(PAYLOAD.len())])
            }
        }
    }

    #[inline]
    pub(super) fn advance(&mut self, n: u64) {
        self.left -= n;
        if self.left == 0 {
            self.file = None;
        }
    }
}
