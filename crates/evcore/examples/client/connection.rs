//! A connection to an HTTP server, with one request at a time.
use evcore::{EdgeStream, EventLoop};
use std::{io, io::ErrorKind, time::Instant};

#[derive(Default)]
pub(super) struct Connection {
    /// Due time of the request that has no response yet.
    pub(super) due: Option<Instant>,
    is_connected: bool, // set when the stream is ready for the first time
    exchange: Exchange,
}

/// The progress of one request: its bytes that are sent, and the bytes of its response that have
/// arrived.
#[derive(Default)]
struct Exchange {
    sent: usize,
    received: usize,
    head: Vec<u8>,
    length: Option<usize>, // of the whole response; `None` until its head is complete
}

impl Connection {
    /// Returns whether the connection waits for a request.
    pub(super) fn is_idle(&self) -> bool {
        self.is_connected && self.due.is_none()
    }

    /// Sends the request, and receives its response. Returns the request's due time, or `None` if
    /// the connection was made without a request. Fails with `WouldBlock` until the response is
    /// complete.
    pub(super) fn talk(
        &mut self,
        stream: &mut EdgeStream,
        request: &[u8],
        buffer: &mut [u8],
        ev: &mut EventLoop,
    ) -> io::Result<Option<Instant>> {
        if !self.is_connected {
            stream.get_ref().take_error()?.map_or(Ok(()), Err)?;
            self.is_connected = true;
            if self.due.is_none() {
                return Ok(None);
            }
        }
        let now = &mut self.exchange;
        while self.due.is_some() && now.sent < request.len() {
            now.sent += stream.send(ev, &request[now.sent..])?;
        }
        while now.length.is_none_or(|length| now.received < length) {
            let count = stream.recv(ev, buffer)?;
            if count == 0 || self.due.is_none() {
                return Err(ErrorKind::UnexpectedEof.into());
            }
            now.received += count;
            if now.length.is_none() {
                now.head.extend_from_slice(&buffer[..count]);
                now.length = length(&now.head)?;
            }
        }
        self.exchange = Exchange::default();
        Ok(self.due.take())
    }
}

/// The length of a response including its head; `None` if the head is incomplete.
fn length(received: &[u8]) -> io::Result<Option<usize>> {
    let Some(end) = received.windows(4).position(|window| window == b"\r\n\r\n") else {
        return Ok(None);
    };
    let head = String::from_utf8_lossy(&received[..end]);
    let mut fields = head.lines().filter_map(|line| line.split_once(':'));
    let length = fields.find(|(name, _)| name.eq_ignore_ascii_case("content-length"));
    match length.map(|(_, value)| value.trim().parse::<usize>()) {
        Some(Ok(body)) if head.starts_with("HTTP/1.1 2") => Ok(Some(body.saturating_add(end + 4))),
        // The status is not 2xx, or no valid content-length shows where the response ends.
        _ => Err(io::Error::other(head.lines().next().unwrap_or_default())),
    }
}
