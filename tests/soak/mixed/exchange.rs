//! A request, and the response to it, byte by byte.

use std::{
    fs,
    os::unix::fs::MetadataExt,
    path::{Path, PathBuf},
    time::{Duration, UNIX_EPOCH},
};

use super::random::Random;

#[derive(Debug)]
pub(super) struct Exchange {
    pub(super) request: Vec<u8>,
    pub(super) head_length: usize,
    asks_for_close: bool,
    status: &'static str,
    /// The lines of the response head after the date.
    fields: String,
    pub(super) body: Body,
}

#[derive(Debug)]
pub(super) enum Body {
    Bytes(Vec<u8>),
    /// The response to `/bytes`.
    Dots(usize),
    /// The response to `/worker`.
    Worker,
}

/// A file of `--root`.
#[derive(Debug)]
pub(super) struct ServedFile {
    target: String,
    content: Vec<u8>,
    etag: String,
    validators: String,
}

#[derive(Debug)]
pub(super) struct HeadSeen {
    pub(super) body_length: usize,
    /// True if the connection ends after the body.
    pub(super) closes: bool,
}

const BINARY: &str = "application/octet-stream";

impl Exchange {
    fn new(request_line: &str, further: &str, body: &[u8]) -> Self {
        let mut request = format!("{request_line} HTTP/1.1\r\nHost: soak\r\n{further}\r\n").into();
        let head_length = Vec::len(&request);
        request.extend_from_slice(body);
        Self {
            request,
            head_length,
            asks_for_close: false,
            status: "200 OK",
            fields: String::new(),
            body: Body::Bytes(Vec::new()),
        }
    }

    fn answered(self, status: &'static str, content_type: &str, body: Body) -> Self {
        let length = body.len();
        let fields = format!("\r\nContent-Type: {content_type}\r\nContent-Length: {length}");
        Self {
            status,
            fields,
            body,
            ..self
        }
    }

    fn answered_with_text(self, status: &'static str, text: &[u8]) -> Self {
        self.answered(status, "text/plain", Body::Bytes(text.to_vec()))
    }

    /// A request for the process id of the worker that serves the connection.
    pub(super) fn worker() -> Self {
        Self {
            fields: "\r\nContent-Type: application/json\r\nContent-Length: ".to_owned(),
            body: Body::Worker,
            ..Self::new("GET /worker", "", b"")
        }
    }

    pub(super) fn bytes(length: usize) -> Self {
        let line = format!("GET /bytes/{length}");
        Self::new(&line, "", b"").answered("200 OK", BINARY, Body::Dots(length))
    }

    pub(super) fn echo(random: &mut Random) -> Self {
        let length = match random.within(0..8) {
            0 => 0,
            1 => random.within(64 * 1024..300 * 1024),
            _ => random.within(1..4096),
        };
        let body = random.bytes(length);
        let exchange = if random.once_in(2) {
            let line = format!("Content-Length: {length}\r\n");
            Self::new("POST /echo", &line, &body)
        } else {
            let line = "Transfer-Encoding: chunked\r\n";
            Self::new("POST /echo", line, &chunked(&body, random))
        };
        exchange.answered_with_text("200 OK", &body)
    }

    pub(super) fn random(random: &mut Random, files: &[ServedFile]) -> Self {
        match random.within(0..14) {
            0..=2 => Self::new("GET /", "", b"").answered_with_text("200 OK", b"Hello, World!"),
            3 => Self::bytes(random.within(0..20 * 1024)),
            4 => Self::bytes(random.within(20 * 1024..400 * 1024)),
            5..=6 => Self::echo(random),
            7 => {
                let line = format!("GET /sleep/{}", random.within(0..300));
                Self::new(&line, "", b"").answered_with_text("200 OK", b"slept\n")
            }
            8 => Self::new("GET /none", "", b"")
                .answered_with_text("404 Not Found", b"404 Not Found\n"),
            9 => Self::not_allowed(),
            10 => Self::worker(),
            _ => random.pick(files).exchange(random),
        }
    }

    fn not_allowed() -> Self {
        let text = b"405 Method Not Allowed\n";
        let mut exchange =
            Self::new("DELETE /", "", b"").answered_with_text("405 Method Not Allowed", text);
        exchange.fields += "\r\nAllow: GET, HEAD";
        exchange
    }

    /// Makes this exchange the last of its connection.
    pub(super) fn last(mut self) -> Self {
        let at = self.head_length - 2;
        let line = b"Connection: close\r\n";
        self.request.splice(at..at, line.iter().copied());
        self.head_length += line.len();
        self.asks_for_close = true;
        self
    }

    pub(super) fn check_head(&self, head: &[u8]) -> Result<HeadSeen, String> {
        let text = String::from_utf8_lossy(head);
        let wrong = || format!("{text:?} and not {:?} with {:?}", self.status, self.fields);
        let start = format!("HTTP/1.1 {}\r\nServer: evcore\r\nDate: ", self.status);
        let rest = text.strip_prefix(&start).ok_or_else(wrong)?;
        let (date, rest) = rest.split_at_checked(29).ok_or_else(wrong)?;
        httpdate::parse_http_date(date).map_err(|_| wrong())?;
        let rest = rest.strip_suffix("\r\n\r\n").ok_or_else(wrong)?;
        let open = rest.strip_suffix("\r\nConnection: close");
        let closes = open.is_some();
        let rest = open
            .unwrap_or(rest)
            .strip_prefix(&self.fields)
            .ok_or_else(wrong)?;
        let body_length = match &self.body {
            Body::Worker => rest.parse().map_err(|_| wrong())?,
            body if rest.is_empty() => body.len(),
            _ => return Err(wrong()),
        };
        if self.asks_for_close && !closes {
            return Err(wrong());
        }
        Ok(HeadSeen {
            body_length,
            closes,
        })
    }

    /// Returns whether the request requires the end of its connection.
    pub(super) fn asks_for_close(&self) -> bool {
        self.asks_for_close
    }

    /// Returns the request line, for a report.
    pub(super) fn name(&self) -> String {
        let line = self.request.split(|byte| *byte == b'\r').next();
        String::from_utf8_lossy(line.unwrap_or_default()).into_owned()
    }
}

impl Body {
    fn len(&self) -> usize {
        match self {
            Self::Bytes(bytes) => bytes.len(),
            Self::Dots(length) => *length,
            Self::Worker => 0,
        }
    }

    /// Compares a response body with the expected one. Returns the process id in it, if there is
    /// one.
    pub(super) fn check(&self, body: &[u8]) -> Result<Option<u32>, String> {
        let is_right = match self {
            Self::Bytes(bytes) => body == bytes,
            Self::Dots(length) => body.len() == *length && body.iter().all(|byte| *byte == b'.'),
            Self::Worker => return worker_in(body).map(Some),
        };
        is_right.then_some(None).ok_or_else(|| {
            let start = String::from_utf8_lossy(&body[..body.len().min(80)]);
            format!("another body of {} bytes: {start:?}", body.len())
        })
    }
}

fn worker_in(body: &[u8]) -> Result<u32, String> {
    let text = String::from_utf8_lossy(body);
    let numbers = || {
        let rest = text.strip_prefix("{\"worker\":")?.strip_suffix("}\n")?;
        let (index, pid) = rest.split_once(",\"pid\":")?;
        index.parse::<u32>().ok()?;
        pid.parse().ok()
    };
    numbers().ok_or_else(|| format!("no worker: {text:?}"))
}

fn chunked(body: &[u8], random: &mut Random) -> Vec<u8> {
    let mut coded = Vec::new();
    let size = random.within(1..body.len().max(1) + 1);
    for chunk in body.chunks(size.max(16)) {
        coded.extend_from_slice(format!("{:x}\r\n", chunk.len()).as_bytes());
        coded.extend_from_slice(chunk);
        coded.extend_from_slice(b"\r\n");
    }
    coded.extend_from_slice(b"0\r\n\r\n");
    coded
}

impl ServedFile {
    pub(super) fn write_all(root: &Path) -> Vec<Self> {
        let mut random = Random::new(0, 0);
        let sizes = [
            ("empty", 0),
            ("small", 700),
            ("page", 20_000),
            ("big", 500_000),
        ];
        let files = sizes.map(|(name, size)| Self::write(&root.join(name), random.bytes(size)));
        files.into()
    }

    fn write(path: &PathBuf, content: Vec<u8>) -> Self {
        fs::write(path, &content).expect("the directory is writable");
        let metadata = fs::metadata(path).expect("it was just written");
        let (seconds, nanoseconds) = (metadata.mtime(), metadata.mtime_nsec());
        let etag = format!("\"{seconds:x}.{nanoseconds:x}-{:x}\"", content.len());
        let modified = UNIX_EPOCH + Duration::from_secs(seconds.unsigned_abs());
        let validators = format!(
            "\r\nX-Content-Type-Options: nosniff\r\nAccept-Ranges: bytes\r\nETag: {etag}\
             \r\nLast-Modified: {}",
            httpdate::fmt_http_date(modified)
        );
        let name = path.file_name().expect("a file").to_string_lossy();
        Self {
            target: format!("/files/{name}"),
            content,
            etag,
            validators,
        }
    }

    fn exchange(&self, random: &mut Random) -> Exchange {
        let target = &self.target;
        match random.within(0..6) {
            0 => {
                let whole = self.content.clone();
                let head = Exchange::new(&format!("HEAD {target}"), "", b"");
                let mut exchange = self.answered(head, "200 OK", "", whole);
                exchange.body = Body::Bytes(Vec::new());
                exchange
            }
            1 => {
                let line = format!("If-None-Match: {}\r\n", self.etag);
                Exchange {
                    status: "304 Not Modified",
                    fields: self.validators.clone(),
                    ..Exchange::new(&format!("GET {target}"), &line, b"")
                }
            }
            2..=3 if !self.content.is_empty() => self.part(random),
            _ => {
                let get = Exchange::new(&format!("GET {target}"), "", b"");
                self.answered(get, "200 OK", "", self.content.clone())
            }
        }
    }

    fn part(&self, random: &mut Random) -> Exchange {
        let size = self.content.len();
        let start = random.within(0..size);
        let end = random.within(start..size);
        let line = format!("Range: bytes={start}-{end}\r\n");
        let get = Exchange::new(&format!("GET {}", self.target), &line, b"");
        let range = format!("\r\nContent-Range: bytes {start}-{end}/{size}");
        let part = self.content[start..=end].to_vec();
        self.answered(get, "206 Partial Content", &range, part)
    }

    fn answered(
        &self,
        exchange: Exchange,
        status: &'static str,
        range: &str,
        body: Vec<u8>,
    ) -> Exchange {
        let exchange = exchange.answered(status, BINARY, Body::Bytes(body));
        let fields = format!("{}{range}{}", self.validators, exchange.fields);
        Exchange { fields, ..exchange }
    }
}
