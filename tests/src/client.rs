//! A client that sends exactly what it is told, and reads one answer at a time.

use std::{
    io::{self, Read, Write},
    net::{Shutdown, SocketAddr, TcpStream},
    os::{fd::OwnedFd, unix::net::UnixStream},
    path::Path,
};

use rustix::net::sockopt::set_socket_send_buffer_size;

use crate::PATIENCE;

/// One connection.
#[derive(Debug)]
pub struct Client {
    stream: TcpStream,
    /// Received, and not yet part of an answer.
    received: Vec<u8>,
}

/// One answer.
#[derive(Debug)]
pub struct Response {
    /// 200, say.
    pub status: u16,
    headers: Vec<(String, String)>,
    /// By Content-Length.
    pub body: Vec<u8>,
}

impl Response {
    /// A header by its name, in any case.
    #[must_use]
    pub fn header(&self, name: &str) -> Option<&str> {
        let found = self
            .headers
            .iter()
            .find(|(key, _)| key.eq_ignore_ascii_case(name));
        found.map(|(_, value)| value.as_str())
    }

    /// The body as text.
    ///
    /// # Panics
    ///
    /// Where it is not UTF-8.
    #[must_use]
    pub fn text(&self) -> &str {
        std::str::from_utf8(&self.body).expect("a text")
    }

    /// Whether the server announced that it ends the connection.
    #[must_use]
    pub fn closes(&self) -> bool {
        self.header("connection")
            .is_some_and(|value| value.eq_ignore_ascii_case("close"))
    }
}

impl Client {
    /// Connects. Small pieces are sent as they are written.
    ///
    /// # Panics
    ///
    /// Where nobody listens.
    #[must_use]
    pub fn connect(address: SocketAddr) -> Self {
        Self::try_connect(address)
            .unwrap_or_else(|error| panic!("connecting to {address}: {error}"))
    }

    /// Connects, or not.
    ///
    /// # Errors
    ///
    /// The kernel's.
    pub fn try_connect(address: SocketAddr) -> io::Result<Self> {
        let stream = TcpStream::connect_timeout(&address, PATIENCE)?;
        stream.set_nodelay(true)?;
        Self::patient(stream)
    }

    /// Connects to the Unix socket at a path, or not.
    ///
    /// # Errors
    ///
    /// The kernel's.
    pub fn try_connect_unix(path: &Path) -> io::Result<Self> {
        // To reading, writing and shutting down, a stream is a stream.
        let stream = OwnedFd::from(UnixStream::connect(path)?);
        Self::patient(stream.into())
    }

    fn patient(stream: TcpStream) -> io::Result<Self> {
        stream.set_read_timeout(Some(PATIENCE))?;
        stream.set_write_timeout(Some(PATIENCE))?;
        Ok(Self {
            stream,
            received: Vec::new(),
        })
    }

    /// Lets the kernel keep about so many bytes that the server has not read.
    ///
    /// # Panics
    ///
    /// Where the kernel refuses.
    pub fn set_send_buffer(&self, bytes: usize) {
        set_socket_send_buffer_size(&self.stream, bytes).expect("a buffer of that size");
    }

    /// Sends these bytes.
    ///
    /// # Panics
    ///
    /// Where the server does not take them.
    pub fn send(&mut self, bytes: impl AsRef<[u8]>) {
        self.stream
            .write_all(bytes.as_ref())
            .expect("the server takes what it is sent");
    }

    /// Sends as much as the server takes, which may be nothing any more.
    pub fn send_in_vain(&mut self, bytes: impl AsRef<[u8]>) {
        let _ = self.stream.write_all(bytes.as_ref());
    }

    /// Sends these bytes, or finds that there is no connection any more.
    pub fn try_send(&mut self, bytes: &[u8]) -> bool {
        self.stream.write_all(bytes).is_ok()
    }

    /// The same connection once more, to send from another thread.
    ///
    /// # Panics
    ///
    /// Where descriptors have run out.
    #[must_use]
    pub fn try_clone(&self) -> Self {
        let stream = self.stream.try_clone().expect("a descriptor");
        Self {
            stream,
            received: Vec::new(),
        }
    }

    /// Sends no more.
    ///
    /// # Panics
    ///
    /// Where there is no connection.
    pub fn end_sending(&self) {
        self.stream.shutdown(Shutdown::Write).expect("a connection");
    }

    /// A request without a body, and its answer.
    ///
    /// # Panics
    ///
    /// Where there is no whole answer.
    pub fn get(&mut self, path: &str) -> Response {
        self.send(format!("GET {path} HTTP/1.1\r\nHost: test\r\n\r\n"));
        self.response()
    }

    /// A request without a body, and its answer, or how the connection ended before it.
    ///
    /// # Errors
    ///
    /// As [`try_response`](Self::try_response), and the kernel's, which does not take the request.
    pub fn try_get(&mut self, path: &str) -> io::Result<Response> {
        let request = format!("GET {path} HTTP/1.1\r\nHost: test\r\n\r\n");
        self.stream.write_all(request.as_bytes())?;
        self.try_response()
    }

    /// Who serves this connection: the process id that `/worker` tells.
    ///
    /// # Panics
    ///
    /// Where there is no whole answer, or no process id in it.
    pub fn worker(&mut self) -> u32 {
        self.try_worker().expect("an answer with a process id")
    }

    /// As [`worker`](Self::worker), or how the connection ended before it.
    ///
    /// # Errors
    ///
    /// As [`try_response`](Self::try_response).
    pub fn try_worker(&mut self) -> io::Result<u32> {
        self.stream
            .write_all(b"GET /worker HTTP/1.1\r\nHost: test\r\n\r\n")?;
        let answer = self.try_response()?;
        let (_, pid) = answer.text().rsplit_once(':').unwrap_or_default();
        let pid = pid.trim_end_matches("}\n").parse();
        pid.map_err(io::Error::other)
    }

    /// The next answer.
    ///
    /// # Panics
    ///
    /// Where there is no whole one.
    pub fn response(&mut self) -> Response {
        self.try_response().expect("an answer")
    }

    /// The next answer, or how the connection ended before it.
    ///
    /// # Errors
    ///
    /// `UnexpectedEof`, `ConnectionReset`, or the timeout's.
    pub fn try_response(&mut self) -> io::Result<Response> {
        let (mut response, length) = self.head()?;
        let length = length.unwrap_or(0);
        while self.received.len() < length {
            self.receive()?;
        }
        response.body = self.received.drain(..length).collect();
        Ok(response)
    }

    /// The next answer to a HEAD request: it has no body, whatever its length says.
    ///
    /// # Panics
    ///
    /// Where there is none.
    pub fn head_response(&mut self) -> (Response, Option<usize>) {
        self.head().expect("an answer")
    }

    /// Whether the server ends the connection in order, having sent nothing more.
    pub fn is_ended(&mut self) -> bool {
        self.received.is_empty()
            && matches!(self.receive(), Err(error) if error.kind() == io::ErrorKind::UnexpectedEof)
    }

    /// Reads everything that comes up to the end, and throws it away; how much it was.
    ///
    /// # Errors
    ///
    /// The kernel's: `ConnectionReset`, say.
    pub fn read_to_end(&mut self) -> io::Result<usize> {
        self.received.clear();
        io::copy(&mut self.stream, &mut io::sink())
            .map(|n| usize::try_from(n).unwrap_or(usize::MAX))
    }

    fn head(&mut self) -> io::Result<(Response, Option<usize>)> {
        let end = loop {
            match self
                .received
                .windows(4)
                .position(|four| four == b"\r\n\r\n")
            {
                Some(end) => break end,
                None => self.receive()?,
            }
        };
        let head: Vec<u8> = self.received.drain(..end + 4).collect();
        let head = String::from_utf8(head).map_err(io::Error::other)?;
        let mut lines = head.lines();
        let status = lines
            .next()
            .and_then(|line| line.split(' ').nth(1)?.parse().ok());
        let headers = lines.filter_map(|line| line.split_once(": "));
        let response = Response {
            status: status.ok_or_else(|| io::Error::other("no status line"))?,
            headers: headers
                .map(|(key, value)| (key.to_owned(), value.to_owned()))
                .collect(),
            body: Vec::new(),
        };
        let length = response
            .header("content-length")
            .and_then(|length| length.parse().ok());
        Ok((response, length))
    }

    fn receive(&mut self) -> io::Result<()> {
        let mut bytes = [0; 64 * 1024];
        loop {
            match self.stream.read(&mut bytes) {
                Ok(0) => return Err(io::ErrorKind::UnexpectedEof.into()),
                Ok(n) => {
                    self.received.extend_from_slice(&bytes[..n]);
                    return Ok(());
                }
                // A socket with a timeout is not read again by itself after this process was
                // stopped or frozen.
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
    }
}
