//! A request's head, from bytes.

use std::mem::MaybeUninit;

use crate::{
    body::Framing,
    host::is_host,
    response::Status,
    route::{Route, route},
};

/// The most bytes of a head: request line, headers and the empty line.
pub const MOST_HEAD_BYTES: usize = 16 * 1024;

/// The most bytes of a request's target.
const MOST_TARGET_BYTES: usize = 8 * 1024;

/// The most header lines.
const MOST_HEADERS: usize = 100;

/// The most bytes of a body.
pub const MOST_BODY_BYTES: usize = 1024 * 1024;

/// What a head asks for.
#[derive(Clone, Copy, Debug)]
pub struct Request {
    pub ask: Ask,
    /// Answer with the head alone.
    pub head_only: bool,
    pub version: Version,
    /// Whether the client would go on after the answer.
    pub keep_alive: bool,
    pub framing: Framing,
    /// The client waits for a word before it sends the body.
    pub expects_continue: bool,
}

/// What to answer: decided from the head alone.
#[derive(Clone, Copy, Debug)]
pub enum Ask {
    Route(Route),
    NotFound,
    NotAllowed(Route),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Version {
    Http10,
    Http11,
}

/// What the bytes so far are.
#[derive(Debug)]
pub enum Parsed {
    /// A whole head of that many bytes.
    Complete(Request, usize),
    /// The beginning of one.
    Partial,
    /// Not one that is answered: the status says why, and the connection ends.
    Refused(Status),
}

/// Parses the head that `bytes` begin with.
pub fn parse(bytes: &[u8]) -> Parsed {
    let mut headers = [const { MaybeUninit::uninit() }; MOST_HEADERS];
    let mut head = httparse::Request::new(&mut []);
    let parsed = httparse::ParserConfig::default().parse_request_with_uninit_headers(
        &mut head,
        bytes,
        &mut headers,
    );
    match parsed {
        Ok(httparse::Status::Partial) if bytes.len() < MOST_HEAD_BYTES => Parsed::Partial,
        Ok(_) if target_is_too_long(&head, bytes) => Parsed::Refused(Status::TargetTooLong),
        Ok(httparse::Status::Complete(length)) if length <= MOST_HEAD_BYTES => {
            match understand(&head) {
                Ok(request) => Parsed::Complete(request, length),
                Err(status) => Parsed::Refused(status),
            }
        }
        Ok(_) | Err(httparse::Error::TooManyHeaders) => Parsed::Refused(Status::HeadTooLarge),
        Err(httparse::Error::Version) => Parsed::Refused(Status::VersionNotSupported),
        Err(_) => Parsed::Refused(Status::BadRequest),
    }
}

/// Of a head that is complete, or has become too large.
fn target_is_too_long(head: &httparse::Request<'_, '_>, bytes: &[u8]) -> bool {
    let length = match (head.path, head.method) {
        (Some(target), _) => target.len(),
        // It has no end yet.
        (None, Some(method)) => bytes.len() - method.len() - 1,
        (None, None) => 0,
    };
    length > MOST_TARGET_BYTES
}

fn understand(head: &httparse::Request<'_, '_>) -> Result<Request, Status> {
    let (Some(method), Some(target), Some(minor)) = (head.method, head.path, head.version) else {
        return Err(Status::BadRequest);
    };
    let version = if minor == 0 {
        Version::Http10
    } else {
        Version::Http11
    };
    let said = Headers::read(head.headers)?;
    // RFC 9112, section 3.2.
    if version == Version::Http11 && said.hosts != 1 || said.hosts > 1 {
        return Err(Status::BadRequest);
    }
    Ok(Request {
        ask: match route(target) {
            Some(route) if route.allows(method) => Ask::Route(route),
            Some(route) => Ask::NotAllowed(route),
            None => Ask::NotFound,
        },
        head_only: method == "HEAD",
        version,
        keep_alive: !said.close && (version == Version::Http11 || said.keep_alive),
        framing: said.framing(version)?,
        expects_continue: said.expects_continue && version == Version::Http11,
    })
}

/// The headers that matter here.
#[derive(Default)]
struct Headers {
    hosts: usize,
    close: bool,
    keep_alive: bool,
    expects_continue: bool,
    length: Option<u64>,
    codings: Codings,
}

/// The transfer codings of all `Transfer-Encoding` lines, which are one list.
#[derive(Default)]
struct Codings {
    are_there: bool,
    ends_in_chunked: bool,
    /// Chunked, before the last.
    has_chunked_within: bool,
    has_others: bool,
}

impl Codings {
    fn take(&mut self, value: &[u8]) {
        self.are_there = true;
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
        if self.are_there && (!self.ends_in_chunked || self.has_chunked_within) {
            // Nobody can know where the body ends.
            Err(Status::BadRequest)
        } else if self.has_others {
            Err(Status::NotImplemented)
        } else {
            Ok(self.are_there)
        }
    }
}

impl Headers {
    fn read(headers: &[httparse::Header<'_>]) -> Result<Self, Status> {
        let mut said = Self::default();
        for header in headers {
            said.take(header.name, header.value)?;
        }
        Ok(said)
    }

    fn take(&mut self, name: &str, value: &[u8]) -> Result<(), Status> {
        // The length tells most headers apart before a letter is looked at.
        match name.len() {
            4 if name.eq_ignore_ascii_case("host") => {
                self.hosts += 1;
                if !is_host(value) {
                    return Err(Status::BadRequest);
                }
            }
            6 if name.eq_ignore_ascii_case("expect") => {
                self.expects_continue |= value.eq_ignore_ascii_case(b"100-continue");
            }
            10 if name.eq_ignore_ascii_case("connection") => {
                for option in value.split(|&byte| byte == b',').map(<[u8]>::trim_ascii) {
                    self.close |= option.eq_ignore_ascii_case(b"close");
                    self.keep_alive |= option.eq_ignore_ascii_case(b"keep-alive");
                }
            }
            14 if name.eq_ignore_ascii_case("content-length") => {
                // Two lengths are how requests are smuggled; nginx takes no two equal ones either.
                let before = self.length.replace(length(value)?);
                if before.is_some() {
                    return Err(Status::BadRequest);
                }
            }
            17 if name.eq_ignore_ascii_case("transfer-encoding") => {
                self.codings.take(value);
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
            (false, Some(length)) if length > MOST_BODY_BYTES as u64 => Err(Status::BodyTooLarge),
            (false, length) => Ok(Framing::Length(length.unwrap_or(0))),
        }
    }
}

/// Digits alone. More than can be counted is more than is allowed.
fn length(value: &[u8]) -> Result<u64, Status> {
    if value.is_empty() || !value.iter().all(u8::is_ascii_digit) {
        return Err(Status::BadRequest);
    }
    let digits = std::str::from_utf8(value).map_err(|_| Status::BadRequest)?;
    digits.parse().map_err(|_| Status::BodyTooLarge)
}
