//! A line of the access log: its contents and its formats.

use std::{borrow::Cow, io::Write, net::IpAddr};

use clap::ValueEnum;
use serde::Serialize;

/// The length of the longest log line, in bytes. On Linux, such a line is written to a pipe by one
/// atomic write.
pub const MAX_LINE_BYTES: usize = 4096;

/// The most bytes of a request line that are logged. Even if the common log format escapes each of
/// them, they fit into a log line.
pub const MAX_REQUEST_LINE: usize = 960;

/// The most bytes of a request line that are logged in JSON if the line has control characters.
const MAX_ESCAPED_IN_JSON: usize = 640;

/// A value of `--access-log-format`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum LogFormat {
    /// The common log format.
    Common,
    /// An object in JSON.
    Json,
}

#[derive(Clone, Copy, Debug)]
pub struct Entry<'a> {
    /// The client's address; `None` for a Unix socket.
    pub peer: Option<IpAddr>,
    /// `28/Sep/1970:12:00:00 +0600`, or in JSON `1970-09-28T12:00:00+06:00`.
    pub time: &'a str,
    /// The request line as received, of which [`MAX_REQUEST_LINE`] bytes are logged; empty if the
    /// request had none.
    pub request_line: &'a [u8],
    /// The status code, three digits.
    pub status: &'a str,
    pub body_bytes: u64,
}

#[derive(Serialize)]
struct JsonLine<'a> {
    time: &'a str,
    /// The client's address; `null` for a Unix socket.
    remote_addr: Option<IpAddr>,
    /// The request line; `null` if the request had none. Bytes that are not UTF-8 are replaced by
    /// U+FFFD.
    request: Option<Cow<'a, str>>,
    status: u16,
    body_bytes_sent: u64,
}

impl Entry<'_> {
    /// Appends the line, with a newline at its end.
    pub fn write(&self, format: LogFormat, out: &mut Vec<u8>) {
        match format {
            LogFormat::Common => self.write_common(out),
            LogFormat::Json => self.write_json(out),
        }
    }

    fn write_common(&self, out: &mut Vec<u8>) {
        let _ = match self.peer {
            Some(peer) => write!(out, "{peer}"),
            // nginx writes the same.
            None => write!(out, "unix:"),
        };
        out.extend_from_slice(b" - - [");
        out.extend_from_slice(self.time.as_bytes());
        out.extend_from_slice(b"] \"");
        match self.request_line {
            [] => out.push(b'-'),
            line => escape(out, &line[..line.len().min(MAX_REQUEST_LINE)]),
        }
        let _ = writeln!(out, "\" {} {}", self.status, self.body_bytes);
    }

    fn write_json(&self, out: &mut Vec<u8>) {
        let request = &self.request_line[..self.request_line.len().min(self.json_limit())];
        let line = JsonLine {
            time: self.time,
            remote_addr: self.peer,
            request: (!request.is_empty()).then(|| String::from_utf8_lossy(request)),
            status: self.status.parse().unwrap_or_default(),
            body_bytes_sent: self.body_bytes,
        };
        let _ = serde_json::to_writer(&mut *out, &line);
        out.push(b'\n');
    }

    /// The most bytes of this request line that are logged in JSON. An escaped control character
    /// takes up to six bytes, and any other byte at most three.
    fn json_limit(&self) -> usize {
        if self.request_line.iter().any(u8::is_ascii_control) {
            MAX_ESCAPED_IN_JSON
        } else {
            MAX_REQUEST_LINE
        }
    }
}

/// Escapes bytes that could end the field or the line, or control a terminal, as nginx does. For
/// example, a quote becomes `\x22`.
fn escape(out: &mut Vec<u8>, line: &[u8]) {
    for &byte in line {
        match byte {
            b'"' | b'\\' | 0..=31 | 127..=255 => {
                let _ = write!(out, "\\x{byte:02X}");
            }
            _ => out.push(byte),
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::Value;

    use super::*;

    fn line(entry: Entry<'_>) -> String {
        line_in(LogFormat::Common, entry)
    }

    fn line_in(format: LogFormat, entry: Entry<'_>) -> String {
        let mut out = Vec::new();
        entry.write(format, &mut out);
        String::from_utf8(out).expect("all other bytes are escaped or replaced")
    }

    const ENTRY: Entry<'_> = Entry {
        peer: None,
        time: "28/Sep/1970:12:00:00 +0600",
        request_line: b"GET / HTTP/1.1",
        status: "200",
        body_bytes: 13,
    };

    #[test]
    fn a_line_is_in_the_common_log_format() {
        let peer = Some("192.0.2.1".parse().expect("an address"));
        assert_eq!(
            line(Entry { peer, ..ENTRY }),
            "192.0.2.1 - - [28/Sep/1970:12:00:00 +0600] \"GET / HTTP/1.1\" 200 13\n"
        );
        let nothing = Entry {
            request_line: b"",
            status: "408",
            ..ENTRY
        };
        assert_eq!(
            line(nothing),
            "unix: - - [28/Sep/1970:12:00:00 +0600] \"-\" 408 13\n"
        );
    }

    #[test]
    fn a_line_in_json_has_the_same_fields() {
        let peer = Some("2001:db8::1".parse().expect("an address"));
        let time = "1970-09-28T12:00:00+06:00";
        let entry = Entry {
            peer,
            time,
            ..ENTRY
        };
        assert_eq!(
            line_in(LogFormat::Json, entry),
            "{\"time\":\"1970-09-28T12:00:00+06:00\",\"remote_addr\":\"2001:db8::1\",\
             \"request\":\"GET / HTTP/1.1\",\"status\":200,\"body_bytes_sent\":13}\n"
        );
        let nothing = Entry {
            request_line: b"",
            status: "408",
            time,
            ..ENTRY
        };
        assert_eq!(
            line_in(LogFormat::Json, nothing),
            "{\"time\":\"1970-09-28T12:00:00+06:00\",\"remote_addr\":null,\"request\":null,\
             \"status\":408,\"body_bytes_sent\":13}\n"
        );
    }

    #[test]
    fn quotes_and_control_bytes_are_escaped() {
        let request_line = b"GET /\"\\\n\x7f\xff HTTP/1.1";
        let written = line(Entry {
            request_line,
            ..ENTRY
        });
        assert!(
            written.contains(r#""GET /\x22\x5C\x0A\x7F\xFF HTTP/1.1" 200"#),
            "{written}"
        );
        assert_eq!(written.lines().count(), 1);
    }

    proptest! {
        #[test]
        fn the_longest_line_fits_into_one_pipe_write(
            byte: u8,
            other: u8,
            json: bool,
        ) {
            let format = if json { LogFormat::Json } else { LogFormat::Common };
            let written = line_in(format, Entry {
                peer: Some(std::net::Ipv6Addr::from([0xab; 16]).into()),
                request_line: &[byte, other].repeat(MAX_REQUEST_LINE),
                body_bytes: u64::MAX,
                ..ENTRY
            });
            prop_assert!(written.len() <= MAX_LINE_BYTES, "{}", written.len());
            prop_assert_eq!(written.lines().count(), 1);
        }

        #[test]
        fn a_request_line_in_json_is_read_back(
            request_line in prop::collection::vec(any::<u8>(), 1..200),
        ) {
            let written = line_in(LogFormat::Json, Entry { request_line: &request_line, ..ENTRY });
            let read: Value = serde_json::from_str(&written).expect("JSON");
            let text = String::from_utf8_lossy(&request_line);
            prop_assert_eq!(read["request"].as_str(), Some(&*text));
        }
    }
}
