//! Sending a file on a connection.

use std::{
    io::{self, ErrorKind},
    os::fd::AsFd,
};

use evcore::{Acceptor, Ready, Transport};

use crate::{
    connection::{Connection, Cx, Disposition},
    request::Request,
    shared::Shared,
};

use super::disk::left_in_chunk;

/// The longest part of a file that shares its first packet with the head.
///
/// A longer one needs several packets anyway. Behind the head each of them would begin in the middle of
/// a page of the file, which costs the kernel a fifth more than the whole pages do.
const MAX_JOINED_BYTES: u64 = 32 * 1024;

/// A read of the next piece of a file from the disk.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DiskRead {
    None,
    /// The queue of reads is full. The server retries it when there is room.
    Waiting,
    Running,
    Done,
}

impl<S: Transport> Connection<S> {
    /// Responds to a request for a file, whose head has these bytes.
    pub fn respond_with_file(
        &mut self,
        request: &Request,
        head: &[u8],
        cx: &mut Cx<'_, impl Acceptor>,
    ) {
        let part = cx.shared.respond_with_file(request, head, cx.ev.clock());
        if let Some(part) = part {
            self.payload_left = part.length;
            self.file_end = part.end;
            self.file = Some(part.file);
            if part.length <= MAX_JOINED_BYTES {
                self.send_joined(cx.shared);
            }
        }
    }

    /// Sends the head of the response, and what is before it, in such a way that the file follows in the
    /// same packet.
    fn send_joined(&self, shared: &mut Shared) {
        // What is in it is sent before a request is read.
        debug_assert!(self.output.is_empty());
        // After an error, the next step sends again and meets the error.
        if let Ok(sent) = self.stream.send_more(&shared.output) {
            shared.output.drain(..sent);
        }
    }

    /// Sends from the file once; `None` if the payload is not that of a file.
    pub fn send_from_file(&self) -> Option<io::Result<usize>> {
        let file = self.file.as_ref()?;
        let (offset, count) = self.piece();
        let count = usize::try_from(count).unwrap_or(usize::MAX);
        Some(match self.stream.send_file(file.as_fd(), offset, count) {
            // It has shrunk. Only the end of the connection can tell the client.
            Ok(0) => Err(ErrorKind::UnexpectedEof.into()),
            sent => sent,
        })
    }

    /// Whether the file has to be read from the disk first. Then a thread reads it, and the server
    /// calls [`on_disk_read`](Self::on_disk_read); if no thread can yet,
    /// [`retry_disk_read`](Self::retry_disk_read) when one can.
    pub fn waits_for_disk(&mut self, cx: &mut Cx<'_, impl Acceptor>) -> bool {
        let Some(file) = &self.file else {
            return false;
        };
        match self.disk_read {
            DiskRead::Waiting | DiskRead::Running => return true,
            // It was just read. A second look could repeat that for ever if memory is short.
            DiskRead::Done => {
                self.disk_read = DiskRead::None;
                return false;
            }
            DiskRead::None => {}
        }
        let (offset, count) = self.piece();
        if file.is_in_memory(offset, count) {
            return false;
        }
        if let Some(files) = &mut cx.shared.files {
            let headroom = &mut cx.shared.bodies.headroom;
            let piece = (offset, count);
            self.disk_read = files.reads.submit(cx.ev, headroom, cx.token, file, piece);
        }
        let waits = self.disk_read != DiskRead::None;
        if waits {
            self.arm_send_timer(cx);
        }
        waits
    }

    /// There is room for a read again.
    pub fn retry_disk_read(&mut self, cx: &mut Cx<'_, impl Acceptor>) -> Disposition {
        self.disk_read = DiskRead::None;
        self.on_ready(Ready::WRITABLE, cx)
    }

    /// A thread has read what is sent next. The caller posts the connection.
    pub fn on_disk_read(&mut self) {
        self.disk_read = DiskRead::Done;
    }

    /// The offset and the length of what is sent next, in one chunk.
    fn piece(&self) -> (u64, u64) {
        let offset = self.file_end - self.payload_left;
        (offset, self.payload_left.min(left_in_chunk(offset)))
    }
}
