//! Parsing of request heads.

use std::mem::MaybeUninit;

use crate::{
    body::Framing,
    host::is_host,
    plain_head::{Next, PlainHead},
    response::Status,
    route::{Route, route},
};

/// The most bytes of a head: request line, headers and the empty line.
pub const MAX_HEAD_BYTES: usize = 16 * 1024;

/// The most bytes of a request's target.
const MAX_TARGET_BYTES: usize = 8 * 1024;

/// The most header lines.
const MAX_HEADERS: usize = 100;

/// The most bytes of a body.
pub const MAX_BODY_BYTES: usize = 1024 * 1024;

/// A parsed request head.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Request {
    pub action: Action,
    /// Respond with the head alone.
    pub head_only: bool,
    pub version: Version,
    /// Whether the client wants to keep the connection after the response.
    pub keep_alive: bool,
    pub framing: Framing,
    /// The client waits for `100 Continue` before it sends the body.
    pub expects_continue: bool,
}

/// What to do with a request, decided from the head alone.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Action {
    Route(Route),
    NotFound,
    NotAllowed(Route),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Version {
    Http10,
    Http11,
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
    match parse_plain(bytes) {
        Some((request, length)) => Parsed::Complete(request, length),
        None => parse_any(bytes),
    }
}

/// Parses a head in the usual form. `None` for any other, and if it is refused.
fn parse_plain(bytes: &[u8]) -> Option<(Request, usize)> {
    let bytes = &bytes[..bytes.len().min(MAX_HEAD_BYTES)];
    let mut head = PlainHead::new(bytes)?;
    if head.target.len() > MAX_TARGET_BYTES {
        return None;
    }
    let mut headers = Headers::default();
    for _ in 0..MAX_HEADERS {
        match head.next()? {
            Next::Header(name, value) => headers.add(name, value).ok()?,
            Next::End(after) => {
                let request = headers.request("GET", head.target, Version::Http11);
                return Some((request.ok()?, bytes.len() - after));
            }
        }
    }
    None
}

fn parse_any(bytes: &[u8]) -> Parsed {
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
        Err(httparse::Error::Version) => Parsed::Refused(Status::VersionNotSupported),
        Err(_) => Parsed::Refused(Status::BadRequest),
    }
}

/// For a head that is complete, or too large.
fn target_is_too_long(head: &httparse::Request<'_, '_>, bytes: &[u8]) -> bool {
    let length = match (head.path, head.method) {
        (Some(target), _) => target.len(),
        // The target is incomplete.
        (None, Some(method)) => bytes.len() - method.len() - 1,
        (None, None) => 0,
    };
    length > MAX_TARGET_BYTES
}

fn interpret(head: &httparse::Request<'_, '_>) -> Result<Request, Status> {
    let (Some(method), Some(target), Some(minor)) = (head.method, head.path, head.version) else {
        return Err(Status::BadRequest);
    };
    let target = target.as_bytes();
    let version = if minor == 0 {
        Version::Http10
    } else {
        Version::Http11
    };
    Headers::read(head.headers)?.request(method, target, version)
}

/// The headers that this server uses.
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
    /// `chunked` appears before the last coding.
    has_chunked_within: bool,
    has_others: bool,
}

impl Codings {
    fn add(&mut self, value: &[u8]) {
        self.is_present = true;
        for coding in value.split(|&byte| byte == b',').map(<[u8]>::trim_ascii) {
            if coding.is_empty() {
                continue;
            }
            self.has_chunked_within |= self.ends_in_chunked;
            self.ends_in_chunked = coding.eq_ignore_ascii_case(b"chunked");
            self.has_others |= !self.ends_in_chunked;
        }
    }

    /// Whether the body is in chunks (RFC 9112, section 6.3).
    fn are_chunked(&self) -> Result<bool, Status> {
        if self.is_present && (!self.ends_in_chunked || self.has_chunked_within) {
            // The end of the body cannot be determined.
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
            read.add(header.name.as_bytes(), header.value)?;
        }
        Ok(read)
    }

    /// The request with these headers.
    #[inline(always)]
    fn request(&self, method: &str, target: &[u8], version: Version) -> Result<Request, Status> {
        // RFC 9112, section 3.2.
        if version == Version::Http11 && self.hosts != 1 || self.hosts > 1 {
            return Err(Status::BadRequest);
        }
        Ok(Request {
            action: match route(target) {
                Some(route) if route.allows(method) => Action::Route(route),
                Some(route) => Action::NotAllowed(route),
                None => Action::NotFound,
            },
            head_only: method == "HEAD",
            version,
            keep_alive: !self.close && (version == Version::Http11 || self.keep_alive),
            framing: self.framing(version)?,
            expects_continue: self.expects_continue && version == Version::Http11,
        })
    }

    #[inline(always)]
    fn add(&mut self, name: &[u8], value: &[u8]) -> Result<(), Status> {
        // The length rules out most headers without a comparison.
        match name.len() {
            4 if name.eq_ignore_ascii_case(b"host") => {
                self.hosts += 1;
                if !is_host(value) {
                    return Err(Status::BadRequest);
                }
            }
            6 if name.eq_ignore_ascii_case(b"expect") => {
                self.expects_continue |= value.eq_ignore_ascii_case(b"100-continue");
            }
            10 if name.eq_ignore_ascii_case(b"connection") => {
                for option in value.split(|&byte| byte == b',').map(<[u8]>::trim_ascii) {
                    self.close |= option.eq_ignore_ascii_case(b"close");
                    self.keep_alive |= option.eq_ignore_ascii_case(b"keep-alive");
                }
            }
            14 if name.eq_ignore_ascii_case(b"content-length") => {
                // Two lengths allow request smuggling. As in nginx, two equal ones are refused too.
                let before = self.length.replace(length(value)?);
                if before.is_some() {
                    return Err(Status::BadRequest);
                }
            }
            17 if name.eq_ignore_ascii_case(b"transfer-encoding") => {
                self.codings.add(value);
            }
            _ => {}
        }
        Ok(())
    }

    /// How the body is delimited (RFC 9112, section 6).
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

/// Parses digits only. A number beyond `u64` is beyond the limit too.
fn length(value: &[u8]) -> Result<u64, Status> {
    if value.is_empty() || !value.iter().all(u8::is_ascii_digit) {
        return Err(Status::BadRequest);
    }
    let digits = std::str::from_utf8(value).map_err(|_| Status::BadRequest)?;
    digits.parse().map_err(|_| Status::BodyTooLarge)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const USUAL: [&str; 4] = [
        "GET / HTTP/1.1\r\nHost: 127.0.0.1:8080\r\n\r\n",
        "GET /bytes/7?a=%20b HTTP/1.1\r\nHost: example.com\r\nUser-Agent: curl/8.5.0\r\n\
         Accept: */*\r\n\r\n",
        "GET http://a/worker HTTP/1.1\r\nhost:a\r\nCONNECTION: close\r\nX-Empty:\r\n\r\nGET ",
        "GET /echo HTTP/1.1\r\nHost: a\r\nExpect: 100-continue\r\nContent-Length: 3\r\n\r\nabc",
    ];

    /// Whatever the quick way accepts, httparse accepts with the same result.
    fn compare(head: &[u8]) -> Option<(Request, usize)> {
        let plain = parse_plain(head);
        if let Some(plain) = plain {
            match parse_any(head) {
                Parsed::Complete(request, length) => assert_eq!((request, length), plain),
                other => panic!("{other:?}: {:?}", String::from_utf8_lossy(head)),
            }
        }
        plain
    }

    #[test]
    fn usual_heads_are_plain() {
        for head in USUAL {
            assert!(compare(head.as_bytes()).is_some(), "{head:?}");
        }
    }

    #[test]
    fn no_part_of_a_head_is_plain() {
        for head in USUAL {
            let end = head.find("\r\n\r\n").expect("its end") + 4;
            for length in 0..end {
                assert_eq!(parse_plain(&head.as_bytes()[..length]), None);
            }
        }
    }

    #[test]
    fn the_limits_of_plain_heads_are_those_of_all() {
        let line = |n| format!("X: {}\r\n", "x".repeat(n));
        let heads = [
            format!("GET /{} HTTP/1.1\r\nHost: a\r\n\r\n", "x".repeat(8191)),
            format!("GET /{} HTTP/1.1\r\nHost: a\r\n\r\n", "x".repeat(8192)),
            format!("GET / HTTP/1.1\r\nHost: a\r\n{}\r\n", line(1).repeat(98)),
            format!("GET / HTTP/1.1\r\nHost: a\r\n{}\r\n", line(1).repeat(99)),
            format!("GET / HTTP/1.1\r\nHost: a\r\n{}\r\n", line(1).repeat(100)),
            format!("GET / HTTP/1.1\r\nHost: a\r\n{}\r\n", line(16_352)),
            format!("GET / HTTP/1.1\r\nHost: a\r\n{}\r\n", line(16_353)),
        ];
        let plain = heads.map(|head| compare(head.as_bytes()).is_some());
        assert_eq!(plain, [true, false, true, false, false, true, false]);
    }

    proptest! {
        #[test]
        fn plain_heads_mean_what_httparse_finds(
            which in 0..USUAL.len(),
            edits in prop::collection::vec((any::<prop::sample::Index>(), edit()), 1..4),
        ) {
            let mut head = USUAL[which].as_bytes().to_vec();
            for (at, edit) in edits {
                let at = at.index(head.len());
                let end = head.len().min(at + edit.0);
                head.splice(at..end, edit.1);
            }
            compare(&head);
        }
    }

    /// How many bytes are replaced, and by what.
    fn edit() -> impl Strategy<Value = (usize, Vec<u8>)> {
        let special = prop::sample::select(b" \t\r\n:,/?%#\"\x00\x7f\x80\xffaH1".to_vec());
        (0_usize..3, prop::collection::vec(special, 0..3))
    }
}
