//! Answers, as bytes.

use evcore::clock::Clock;

use crate::request::Version;

/// The statuses that are given here.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Status {
    Ok,
    BadRequest,
    NotFound,
    MethodNotAllowed,
    RequestTimeout,
    BodyTooLarge,
    TargetTooLong,
    HeadTooLarge,
    NotImplemented,
    ServiceUnavailable,
    VersionNotSupported,
}

impl Status {
    /// Three digits.
    pub fn code(self) -> &'static str {
        &self.line()[..3]
    }

    fn line(self) -> &'static str {
        match self {
            Self::Ok => "200 OK",
            Self::BadRequest => "400 Bad Request",
            Self::NotFound => "404 Not Found",
            Self::MethodNotAllowed => "405 Method Not Allowed",
            Self::RequestTimeout => "408 Request Timeout",
            Self::BodyTooLarge => "413 Content Too Large",
            Self::TargetTooLong => "414 URI Too Long",
            Self::HeadTooLarge => "431 Request Header Fields Too Large",
            Self::NotImplemented => "501 Not Implemented",
            Self::ServiceUnavailable => "503 Service Unavailable",
            Self::VersionNotSupported => "505 HTTP Version Not Supported",
        }
    }
}

/// What the head of an answer says.
#[derive(Clone, Copy, Debug)]
pub struct Head<'a> {
    pub status: Status,
    pub version: Version,
    pub keep_alive: bool,
    /// For `Date`.
    pub date: &'a [u8],
    pub content_type: &'static str,
    pub content_length: u64,
    /// For `Allow`, with a 405.
    pub allow: Option<&'static str>,
}

impl<'a> Head<'a> {
    /// A 200 with an empty text: what differs is changed by whoever knows.
    pub fn new(clock: &'a Clock, version: Version, keep_alive: bool) -> Self {
        Self {
            status: Status::Ok,
            version,
            keep_alive,
            date: clock.http_date().as_bytes(),
            content_type: "text/plain",
            content_length: 0,
            allow: None,
        }
    }

    /// Appends the head, the empty line included.
    pub fn write(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(b"HTTP/1.1 ");
        out.extend_from_slice(self.status.line().as_bytes());
        out.extend_from_slice(b"\r\nServer: evcore\r\nDate: ");
        out.extend_from_slice(self.date);
        out.extend_from_slice(b"\r\nContent-Type: ");
        out.extend_from_slice(self.content_type.as_bytes());
        out.extend_from_slice(b"\r\nContent-Length: ");
        write_decimal(out, self.content_length);
        if let Some(allow) = self.allow {
            out.extend_from_slice(b"\r\nAllow: ");
            out.extend_from_slice(allow.as_bytes());
        }
        match (self.keep_alive, self.version) {
            (false, _) => out.extend_from_slice(b"\r\nConnection: close"),
            (true, Version::Http10) => out.extend_from_slice(b"\r\nConnection: keep-alive"),
            // What HTTP/1.1 means where nothing is said.
            (true, Version::Http11) => {}
        }
        out.extend_from_slice(b"\r\n\r\n");
    }
}

/// What a client that expects it waits for before it sends its body.
pub const CONTINUE: &[u8] = b"HTTP/1.1 100 Continue\r\n\r\n";

/// The body of a refusal: its status, for whoever reads it in a terminal.
pub fn refusal(status: Status) -> String {
    format!("{}\n", status.line())
}

/// `write!` goes through a formatter; this is on the way of every answer.
fn write_decimal(out: &mut Vec<u8>, mut number: u64) {
    let mut digits = [0; 20];
    let mut start = digits.len();
    loop {
        start -= 1;
        digits[start] = b'0' + (number % 10) as u8;
        number /= 10;
        if number == 0 {
            break;
        }
    }
    out.extend_from_slice(&digits[start..]);
}
