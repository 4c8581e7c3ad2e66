//! Response heads and error bodies.

use evcore::clock::{Clock, Stamp};

use crate::version::Version;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Status {
    Ok,
    PartialContent,
    MovedPermanently,
    NotModified,
    BadRequest,
    Forbidden,
    NotFound,
    MethodNotAllowed,
    RequestTimeout,
    PreconditionFailed,
    BodyTooLarge,
    TargetTooLong,
    RangeNotSatisfiable,
    HeadTooLarge,
    InternalServerError,
    NotImplemented,
    ServiceUnavailable,
    VersionNotSupported,
}

impl Status {
    pub fn code(self) -> &'static str {
        &self.line()[..3]
    }

    fn line(self) -> &'static str {
        match self {
            Self::Ok => "200 OK",
            Self::PartialContent => "206 Partial Content",
            Self::MovedPermanently => "301 Moved Permanently",
            Self::NotModified => "304 Not Modified",
            Self::BadRequest => "400 Bad Request",
            Self::Forbidden => "403 Forbidden",
            Self::NotFound => "404 Not Found",
            Self::MethodNotAllowed => "405 Method Not Allowed",
            Self::RequestTimeout => "408 Request Timeout",
            Self::PreconditionFailed => "412 Precondition Failed",
            Self::BodyTooLarge => "413 Content Too Large",
            Self::TargetTooLong => "414 URI Too Long",
            Self::RangeNotSatisfiable => "416 Range Not Satisfiable",
            Self::HeadTooLarge => "431 Request Header Fields Too Large",
            Self::InternalServerError => "500 Internal Server Error",
            Self::NotImplemented => "501 Not Implemented",
            Self::ServiceUnavailable => "503 Service Unavailable",
            Self::VersionNotSupported => "505 HTTP Version Not Supported",
        }
    }
}

#[derive(Clone, Copy, Debug)]
pub struct Head {
    pub status: Status,
    pub version: Version,
    pub keep_alive: bool,
    pub date: Stamp<29>,
    pub content_type: &'static str,
    /// `None` in the response to a HEAD request if the body would take long to make.
    pub content_length: Option<u64>,
    /// The value of `Allow`, with a 405 and for OPTIONS.
    pub allow: Option<&'static str>,
    /// Further header lines, each with a line end before it.
    pub further: &'static str,
}

impl Head {
    /// Creates the head of a 200 with an empty text. The caller sets the fields that differ.
    pub fn new(clock: &Clock, version: Version, keep_alive: bool) -> Self {
        Self {
            status: Status::Ok,
            version,
            keep_alive,
            date: clock.http_date(),
            content_type: "text/plain",
            content_length: Some(0),
            allow: None,
            further: "",
        }
    }

    pub fn write(&self, out: &mut Vec<u8>) {
        self.write_start(out);
        if let Some(length) = self.content_length {
            out.extend_from_slice(CONTENT_LENGTH);
            write_decimal(out, length);
        }
        if let Some(allow) = self.allow {
            out.extend_from_slice(b"\r\nAllow: ");
            out.extend_from_slice(allow.as_bytes());
        }
        out.extend_from_slice(self.further.as_bytes());
        write_end(out, self.version, self.keep_alive);
    }

    fn write_start(&self, out: &mut Vec<u8>) {
        write_start(out, self.status, self.date);
        out.extend_from_slice(b"\r\nContent-Type: ");
        out.extend_from_slice(self.content_type.as_bytes());
    }
}

const CONTENT_LENGTH: &[u8] = b"\r\nContent-Length: ";

/// Appends the lines that every head begins with, without the end of the last line.
pub fn write_start(out: &mut Vec<u8>, status: Status, date: Stamp<29>) {
    out.extend_from_slice(b"HTTP/1.1 ");
    out.extend_from_slice(status.line().as_bytes());
    out.extend_from_slice(b"\r\nServer: evcore\r\nDate: ");
    out.extend_from_slice(date.as_bytes());
}

/// Appends the end of a head: the line about the connection, and the empty line.
#[inline]
pub fn write_end(out: &mut Vec<u8>, version: Version, keep_alive: bool) {
    match (keep_alive, version) {
        (false, _) => out.extend_from_slice(b"\r\nConnection: close\r\n\r\n"),
        (true, Version::Http10) => out.extend_from_slice(b"\r\nConnection: keep-alive\r\n\r\n"),
        // HTTP/1.1 keeps connections open by default.
        (true, Version::Http11) => out.extend_from_slice(b"\r\n\r\n"),
    }
}

/// The head of a 200 response with text.
#[derive(Debug, Default)]
pub struct TextHead {
    start: StartOfHead,
}

impl TextHead {
    #[inline]
    pub fn write(
        &mut self,
        out: &mut Vec<u8>,
        clock: &Clock,
        (version, keep_alive): (Version, bool),
        content_length: u64,
    ) {
        let start = self.start.get(clock, |start, _| {
            Head::new(clock, Version::Http11, true).write_start(start);
            start.extend_from_slice(CONTENT_LENGTH);
        });
        out.extend_from_slice(start);
        write_decimal(out, content_length);
        write_end(out, version, keep_alive);
    }
}

/// The start of a head. It has the date, and is made once a second.
#[derive(Debug, Default)]
pub struct StartOfHead {
    bytes: Vec<u8>,
    /// The time from which the start may be out of date, in milliseconds of monotonic time.
    until_ms: u64,
}

impl StartOfHead {
    /// Returns the start, which `make` appends to a buffer once a second.
    #[inline]
    pub fn get(&mut self, clock: &Clock, make: impl FnOnce(&mut Vec<u8>, Stamp<29>)) -> &[u8] {
        if clock.monotonic_ms() >= self.until_ms {
            self.renew(clock, make);
        }
        &self.bytes
    }

    /// Makes the start anew. Wall time is read here and not for each response, so most turns do not
    /// read it. If the machine's clock is set, the date is wrong for up to a second.
    #[cold]
    fn renew(&mut self, clock: &Clock, make: impl FnOnce(&mut Vec<u8>, Stamp<29>)) {
        self.bytes.clear();
        make(&mut self.bytes, clock.http_date());
        let left_ms = 1000 - clock.unix_ms().rem_euclid(1000).unsigned_abs();
        // Both clocks are rounded down, so the second may end a millisecond earlier.
        self.until_ms = clock.monotonic_ms() + left_ms - 1;
    }
}

/// The interim response to `Expect: 100-continue`.
pub const CONTINUE: &[u8] = b"HTTP/1.1 100 Continue\r\n\r\n";

pub fn error_body(status: Status) -> String {
    format!("{}\n", status.line())
}

/// Appends a number. Every response needs it, and `write!` is slower.
#[inline]
pub fn write_decimal(out: &mut Vec<u8>, number: u64) {
    match number {
        0..=9 => out.push(digit(number)),
        10..=99 => out.extend_from_slice(&[digit(number / 10), digit(number)]),
        _ => write_long_decimal(out, number),
    }
}

/// The last digit of a number, as a byte.
fn digit(number: u64) -> u8 {
    b'0' + (number % 10) as u8
}

#[inline(never)] // out of line, so that the path of short numbers saves no registers
fn write_long_decimal(out: &mut Vec<u8>, mut number: u64) {
    let mut digits = [0; 20];
    let mut start = digits.len();
    loop {
        start -= 1;
        digits[start] = digit(number);
        number /= 10;
        if number == 0 {
            break;
        }
    }
    out.extend_from_slice(&digits[start..]);
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use evcore::clock::ManualTimeSource;

    use super::*;

    #[test]
    fn a_text_head_equals_a_head_that_is_made_anew() {
        let time = ManualTimeSource::new();
        let mut clock = Clock::with_source(time.clone());
        let mut text = TextHead::default();
        for (version, keep_alive) in [
            (Version::Http11, true),
            (Version::Http11, false),
            (Version::Http10, true),
        ] {
            for content_length in [0, 13, 1_048_576] {
                time.advance(Duration::from_micros(333_300));
                clock.update();
                let head = Head {
                    content_length: Some(content_length),
                    ..Head::new(&clock, version, keep_alive)
                };
                let (mut expected, mut written) = (Vec::new(), Vec::new());
                head.write(&mut expected);
                text.write(&mut written, &clock, (version, keep_alive), content_length);
                assert_eq!(
                    String::from_utf8_lossy(&written),
                    String::from_utf8_lossy(&expected)
                );
            }
        }
    }
}
