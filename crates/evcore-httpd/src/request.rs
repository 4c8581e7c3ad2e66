//! Parsing of request heads.

use std::mem::MaybeUninit;

use crate::{
    body::{Framing, MAX_BODY_BYTES},
    host::is_host,
    response::Status,
    route::{Route, route},
    version::Version,
};

/// The most bytes of a head: request line, headers and the empty line.
pub const MAX_HEAD_BYTES: usize = 16 * 1024;

const MAX_TARGET_BYTES: usize = 8 * 1024;

/// The maximum number of header lines.
pub const MAX_HEADERS: usize = 100;

/// A parsed request head.
#[derive(Clone, Copy, Debug)]
pub struct Request {
    /// The action that the client requests.
    pub action: Action,
    /// True if the response is only a head.
    pub head_only: bool,
    /// The version of the request.
    pub version: Version,
    /// True if the client wants to keep the connection after the response.
    pub keep_alive: bool,
    /// The way in which the body is delimited.
    pub framing: Framing,
    /// True if the client waits for `100 Continue` before it sends the body.
    pub expects_continue: bool,
}

/// The action for a request, which depends only on the head.
#[derive(Clone, Copy, Debug)]
pub enum Action {
    Route(Route),
    /// `OPTIONS *`
    Options,
    NotFound,
    NotAllowed(Route),
}

/// The result of parsing the bytes so far.
#[derive(Debug)]
pub enum Parsed {
    /// A complete head of this many bytes.
    Complete(Request, usize),
    /// The head is incomplete.
    Partial,
    /// The request is refused with this status, and the connection ends.
    Refused(Status),
}

/// Parses the head at the front of `bytes`.
pub fn parse(bytes: &[u8]) -> Parsed {
    let mut headers = [const { MaybeUninit::uninit() }; MAX_HEADERS];
    let mut head = httparse::Request::new(&mut []);
    let parsed = httparse::ParserConfig::default().parse_request_with_uninit_headers(
        &mut head,
        bytes,
        &mut headers,
    );
    match parsed {
        Ok(httparse::Status::Partial) if bytes.len() < MAX_HEAD_BYTES => Parsed::Partial,
        Ok(_) if target_is_too_long(&head, bytes) => Parsed::Refused(Status::TargetTooLong),
        Ok(httparse::Status::Complete(length)) if length <= MAX_HEAD_BYTES => {
            match interpret(&head) {
                Ok(request) => Parsed::Complete(request, length),
                Err(status) => Parsed::Refused(status),
            }
        }
        Ok(_) | Err(httparse::Error::TooManyHeaders) => Parsed::Refused(Status::HeadTooLarge),
        Err(httparse::Error::Version) => parse_version(bytes),
        Err(_) => Parsed::Refused(Status::BadRequest),
    }
}

/// Returns whether the target is too long. The head is complete or too large.
fn target_is_too_long(head: &httparse::Request<'_, '_>, bytes: &[u8]) -> bool {
    let length = match (head.path, head.method) {
        (Some(target), _) => target.len(),
        // The target is incomplete.
        (None, Some(method)) => bytes.len() - line_start(bytes) - method.len() - 1,
        (None, None) => 0,
    };
    length > MAX_TARGET_BYTES
}

/// Parses a head whose version `httparse` does not accept. A later minor version than HTTP/1.1 is
/// read as HTTP/1.1 (RFC 9110, section 2.5).
#[cold]
fn parse_version(bytes: &[u8]) -> Parsed {
    match minor_version_at(bytes) {
        Some(at) if bytes[at - 2] == b'1' => {
            // A head beyond the limit is refused. So the copy ends one byte after the limit, or
            // with the version, if the version comes after the limit.
            let end = (MAX_HEAD_BYTES + 1).max(at + 1);
            let mut head = bytes[..bytes.len().min(end)].to_vec();
            head[at] = b'1';
            parse(&head)
        }
        Some(_) => Parsed::Refused(Status::VersionNotSupported),
        None => Parsed::Refused(Status::BadRequest),
    }
}

/// The position of the request line, which may follow empty lines.
fn line_start(bytes: &[u8]) -> usize {
    let start = bytes.iter().position(|byte| !is_line_end(byte));
    start.unwrap_or(bytes.len())
}

fn is_line_end(byte: &u8) -> bool {
    matches!(byte, b'\r' | b'\n')
}

/// The position of the minor version in a request line of three words, the last of which is a
/// version of HTTP (RFC 9112, section 2.3). `None` if the line is malformed.
fn minor_version_at(bytes: &[u8]) -> Option<usize> {
    let start = line_start(bytes);
    let line = bytes[start..].split(is_line_end).next()?;
    let mut words = line.split(|byte| *byte == b' ');
    match (words.nth(2)?, words.next()) {
        ([b'H', b'T', b'T', b'P', b'/', major, b'.', minor], None)
            if major.is_ascii_digit() && minor.is_ascii_digit() =>
        {
            Some(start + line.len() - 1)
        }
        _ => None,
    }
}

fn interpret(head: &httparse::Request<'_, '_>) -> Result<Request, Status> {
    let (Some(method), Some(target), Some(minor)) = (head.method, head.path, head.version) else {
        return Err(Status::BadRequest);
    };
    let version = if minor == 0 {
        Version::Http10
    } else {
        Version::Http11
    };
    let headers = Headers::read(head.headers)?;
    // RFC 9112, section 3.2.
    if version == Version::Http11 && headers.hosts != 1 || headers.hosts > 1 {
        return Err(Status::BadRequest);
    }
    Ok(Request {
        action: match route(target) {
            Some(route) if route.allows(method) => Action::Route(route),
            // The connection ends, because the next bytes may be for the other end of the tunnel.
            _ if method == "CONNECT" => return Err(Status::MethodNotAllowed),
            Some(route) => Action::NotAllowed(route),
            None if (method, target) == ("OPTIONS", "*") => Action::Options,
            None => Action::NotFound,
        },
        head_only: method == "HEAD",
        version,
        keep_alive: !headers.close && (version == Version::Http11 || headers.keep_alive),
        framing: headers.framing(version)?,
        expects_continue: headers.expects_continue && version == Version::Http11,
    })
}

#[derive(Default)]
struct Headers {
    hosts: usize,
    close: bool,
    keep_alive: bool,
    expects_continue: bool,
    length: Option<u64>,
    codings: Codings,
}

/// The transfer codings of all `Transfer-Encoding` lines, which form one list.
#[derive(Default)]
struct Codings {
    is_present: bool,
    ends_in_chunked: bool,
    /// True if `chunked` appears before the last coding.
    has_chunked_within: bool,
    has_others: bool,
}

impl Codings {
    fn add(&mut self, value: &[u8]) {
        self.is_present = true;
        for coding in words(value) {
            if coding.is_empty() {
                continue;
            }
            self.has_chunked_within |= self.ends_in_chunked;
            self.ends_in_chunked = coding.eq_ignore_ascii_case(b"chunked");
            self.has_others |= !self.ends_in_chunked;
        }
    }

    /// Returns whether the body is in chunks (RFC 9112, section 6.3).
    fn are_chunked(&self) -> Result<bool, Status> {
        if self.is_present && (!self.ends_in_chunked || self.has_chunked_within) {
            // Without `chunked` at the end, the end of the body cannot be determined.
            Err(Status::BadRequest)
        } else if self.has_others {
            Err(Status::NotImplemented)
        } else {
            Ok(self.is_present)
        }
    }
}

impl Headers {
    fn read(headers: &[httparse::Header<'_>]) -> Result<Self, Status> {
        let mut read = Self::default();
        for header in headers {
            read.add(header.name, header.value)?;
        }
        Ok(read)
    }

    fn add(&mut self, name: &str, value: &[u8]) -> Result<(), Status> {
        // The length rules out most headers without a comparison.
        match name.len() {
            4 if name.eq_ignore_ascii_case("host") => {
                self.hosts += 1;
                if !is_host(value) {
                    return Err(Status::BadRequest);
                }
            }
            6 if name.eq_ignore_ascii_case("expect") => {
                let mut expectations = words(value);
                self.expects_continue |=
                    expectations.any(|word| word.eq_ignore_ascii_case(b"100-continue"));
            }
            10 if name.eq_ignore_ascii_case("connection") => {
                for option in words(value) {
                    self.close |= option.eq_ignore_ascii_case(b"close");
                    self.keep_alive |= option.eq_ignore_ascii_case(b"keep-alive");
                }
            }
            14 if name.eq_ignore_ascii_case("content-length") => {
                // Two lengths allow request smuggling. Two equal ones are refused too, as nginx
                // does.
                let before = self.length.replace(length(value)?);
                if before.is_some() {
                    return Err(Status::BadRequest);
                }
            }
            17 if name.eq_ignore_ascii_case("transfer-encoding") => {
                self.codings.add(value);
            }
            _ => {}
        }
        Ok(())
    }

    /// Returns the way in which the body is delimited (RFC 9112, section 6).
    fn framing(&self, version: Version) -> Result<Framing, Status> {
        match (self.codings.are_chunked()?, self.length) {
            (true, Some(_)) => Err(Status::BadRequest),
            (true, None) if version == Version::Http10 => Err(Status::BadRequest),
            (true, None) => Ok(Framing::Chunked),
            (false, Some(length)) if length > MAX_BODY_BYTES as u64 => Err(Status::BodyTooLarge),
            (false, length) => Ok(Framing::Length(length.unwrap_or(0))),
        }
    }
}

/// The words of a list, which has commas between them.
fn words(list: &[u8]) -> impl Iterator<Item = &[u8]> {
    list.split(|&byte| byte == b',').map(<[u8]>::trim_ascii)
}

/// Parses decimal digits. A number beyond `u64` is beyond the limit, too.
fn length(value: &[u8]) -> Result<u64, Status> {
    if value.is_empty() || !value.iter().all(u8::is_ascii_digit) {
        return Err(Status::BadRequest);
    }
    let digits = std::str::from_utf8(value).map_err(|_| Status::BadRequest)?;
    digits.parse().map_err(|_| Status::BodyTooLarge)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refusal(bytes: &[u8]) -> Option<Status> {
        match parse(bytes) {
            Parsed::Refused(status) => Some(status),
            _ => None,
        }
    }

    /// The version may come after the longest allowed head, because a read may return more bytes
    /// than that.
    #[test]
    fn a_line_beyond_the_limit_is_refused_whatever_its_version() {
        for version in ["1.0", "1.1", "1.2", "1.9", "2.0"] {
            let end = format!(" HTTP/{version}\r\nHost: t\r\n\r\n");
            let expected = |status| match version {
                "2.0" => Some(Status::VersionNotSupported),
                _ => Some(status),
            };
            for length in [
                MAX_TARGET_BYTES,
                MAX_HEAD_BYTES - 10,
                MAX_HEAD_BYTES,
                3 * MAX_HEAD_BYTES,
            ] {
                let line = [b"GET /", &vec![b'a'; length][..], end.as_bytes()].concat();
                assert_eq!(
                    refusal(&line),
                    expected(Status::TargetTooLong),
                    "{length}, {version}"
                );
                let empty = [&b"\r\n".repeat(length)[..], b"GET /", end.as_bytes()].concat();
                assert_eq!(
                    refusal(&empty),
                    expected(Status::HeadTooLarge),
                    "{length}, {version}"
                );
                let incomplete = [&b"\r\n".repeat(length)[..], b"GET /"].concat();
                let is_too_large =
                    (incomplete.len() > MAX_HEAD_BYTES).then_some(Status::HeadTooLarge);
                assert_eq!(refusal(&incomplete), is_too_large, "{length}");
            }
        }
    }
}
