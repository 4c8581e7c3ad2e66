//! A kept-alive client that waits for each response.

use std::{
    io::{self, ErrorKind, Read, Write},
    net::{SocketAddr, TcpStream},
    time::Duration,
};

/// The longest time for a response.
const PATIENCE: Duration = Duration::from_secs(2);

/// The most bytes of a response: a head, and a line of text.
const MAX_RESPONSE: usize = 4096;

pub(super) struct Client(TcpStream);

impl Client {
    pub(super) fn connect(server: SocketAddr) -> io::Result<Self> {
        let stream = TcpStream::connect_timeout(&server, PATIENCE)?;
        stream.set_read_timeout(Some(PATIENCE))?;
        stream.set_nodelay(true)?;
        Ok(Self(stream))
    }

    /// Sends a request, and returns the body of the response.
    pub(super) fn get(&mut self, path: &str) -> io::Result<String> {
        let request = format!("GET {path} HTTP/1.1\r\nHost: demo\r\n\r\n");
        self.0.write_all(request.as_bytes())?;
        let (mut bytes, mut len) = ([0; MAX_RESPONSE], 0);
        loop {
            match self.0.read(&mut bytes[len..])? {
                0 => return Err(ErrorKind::UnexpectedEof.into()),
                n => len += n,
            }
            if let Some(body) = body(&bytes[..len])? {
                return Ok(String::from_utf8_lossy(body).into_owned());
            }
        }
    }

    /// Returns the process id of the worker that serves this client.
    pub(super) fn worker(&mut self) -> io::Result<i32> {
        let text = self.get("/worker")?;
        let mut pids = text.split(|c: char| !c.is_ascii_digit());
        let pid = pids.rfind(|word| !word.is_empty());
        pid.and_then(|pid| pid.parse().ok())
            .ok_or(ErrorKind::InvalidData.into())
    }
}

/// Returns the body once it is complete.
fn body(bytes: &[u8]) -> io::Result<Option<&[u8]>> {
    let mut headers = [httparse::EMPTY_HEADER; 16];
    let mut response = httparse::Response::new(&mut headers);
    let head = response.parse(bytes).map_err(io::Error::other)?;
    let httparse::Status::Complete(head) = head else {
        return Ok(None);
    };
    let name = "content-length";
    let length = response
        .headers
        .iter()
        .find(|header| header.name.eq_ignore_ascii_case(name));
    let length = length.and_then(|header| {
        std::str::from_utf8(header.value)
            .ok()?
            .parse::<usize>()
            .ok()
    });
    let length = length.ok_or(ErrorKind::InvalidData)?;
    Ok(bytes.get(head..head + length))
}
