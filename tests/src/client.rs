//! An HTTP client that sends exact bytes, and reads one response at a time.

use std::{
    io::{self, Read, Write},
    mem,
    net::{Ipv4Addr, Shutdown, SocketAddr, TcpStream},
    os::{fd::OwnedFd, unix::net::UnixStream},
    path::Path,
    time::Duration,
};

use rustix::io::{FdFlags, fcntl_setfd};
use rustix::net::{
    self, AddressFamily, SocketType,
    sockopt::{set_socket_linger, set_socket_recv_buffer_size, set_socket_send_buffer_size},
};

use crate::PATIENCE;

/// A client connection.
#[derive(Debug)]
pub struct Client {
    stream: TcpStream,
    /// Received bytes that are not yet part of a response.
    received: Vec<u8>,
}

/// A response.
#[derive(Debug)]
pub struct Response {
    /// The status code, such as 200.
    pub status: u16,
    headers: Vec<(String, String)>,
    /// The body, which is empty without a `Content-Length`.
    pub body: Vec<u8>,
}

impl Response {
    /// The value of the first header with this name, whose case is ignored.
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
    /// If it is not UTF-8.
    #[must_use]
    pub fn text(&self) -> &str {
        std::str::from_utf8(&self.body).expect("a text")
    }

    /// Returns whether the response announces the close of the connection.
    #[must_use]
    pub fn closes(&self) -> bool {
        self.header("connection")
            .is_some_and(|value| value.eq_ignore_ascii_case("close"))
    }
}

impl Client {
    /// Connects. Small writes are sent at once (`TCP_NODELAY`).
    ///
    /// # Panics
    ///
    /// If the connection cannot be made.
    #[must_use]
    pub fn connect(address: SocketAddr) -> Self {
        Self::try_connect(address)
            .unwrap_or_else(|error| panic!("connecting to {address}: {error}"))
    }

    /// Like [`connect`](Self::connect), with an error instead of a panic.
    ///
    /// # Errors
    ///
    /// The error of the system call.
    pub fn try_connect(address: SocketAddr) -> io::Result<Self> {
        let stream = TcpStream::connect_timeout(&address, PATIENCE)?;
        stream.set_nodelay(true)?;
        Self::patient(stream)
    }

    /// Connects over IPv4 with a receive buffer of about this size. The kernel buffers about this
    /// many bytes for a client that does not read.
    ///
    /// # Panics
    ///
    /// If the connection cannot be made.
    #[must_use]
    pub fn connect_with_receive_buffer(address: SocketAddr, bytes: usize) -> Self {
        // The size must be set before the connection is made, because the handshake announces it.
        Self::connect_with(address, |socket| set_socket_recv_buffer_size(socket, bytes))
    }

    /// Connects from another loopback address, over IPv4.
    ///
    /// # Panics
    ///
    /// If the connection cannot be made.
    #[must_use]
    pub fn connect_from(from: Ipv4Addr, address: SocketAddr) -> Self {
        Self::connect_with(address, |socket| {
            net::bind(socket, &SocketAddr::from((from, 0)))
        })
    }

    fn connect_with(
        address: SocketAddr,
        prepare: impl FnOnce(&OwnedFd) -> rustix::io::Result<()>,
    ) -> Self {
        let family = AddressFamily::INET;
        let socket = net::socket(family, SocketType::STREAM, None).expect("a descriptor");
        fcntl_setfd(&socket, FdFlags::CLOEXEC).expect("an open descriptor");
        prepare(&socket).expect("a socket that was just made");
        net::connect(&socket, &address).expect("the server listens");
        Self::patient(socket.into()).expect("a socket")
    }

    /// Connects to the Unix socket at a path.
    ///
    /// # Errors
    ///
    /// The error of the system call.
    pub fn try_connect_unix(path: &Path) -> io::Result<Self> {
        // Reading, writing and shutting down work the same on both kinds of stream.
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

    /// The port of this side of a TCP connection.
    ///
    /// # Panics
    ///
    /// If it is the connection of a Unix socket.
    #[must_use]
    pub fn local_port(&self) -> u16 {
        self.stream.local_addr().expect("a TCP socket").port()
    }

    /// Sets the size of the send buffer, which is about the number of bytes that the kernel keeps
    /// unsent.
    ///
    /// # Panics
    ///
    /// If the kernel refuses.
    pub fn set_send_buffer(&self, bytes: usize) {
        set_socket_send_buffer_size(&self.stream, bytes).expect("a buffer of that size");
    }

    /// Sends bytes.
    ///
    /// # Panics
    ///
    /// If they cannot be sent.
    pub fn send(&mut self, bytes: impl AsRef<[u8]>) {
        self.stream
            .write_all(bytes.as_ref())
            .expect("the bytes are sent");
    }

    /// Sends bytes, and ignores an error.
    pub fn send_lossy(&mut self, bytes: impl AsRef<[u8]>) {
        let _ = self.stream.write_all(bytes.as_ref());
    }

    /// Sends bytes. Returns `false` if not all could be sent.
    pub fn try_send(&mut self, bytes: &[u8]) -> bool {
        self.stream.write_all(bytes).is_ok()
    }

    /// Duplicates the connection, to send from another thread.
    ///
    /// # Panics
    ///
    /// If descriptors have run out.
    #[must_use]
    pub fn try_clone(&self) -> Self {
        let stream = self.stream.try_clone().expect("a descriptor");
        Self {
            stream,
            received: Vec::new(),
        }
    }

    /// Shuts down the write side.
    ///
    /// # Panics
    ///
    /// If the connection has been reset.
    pub fn shutdown_write(&self) {
        self.stream.shutdown(Shutdown::Write).expect("a connection");
    }

    /// Ends the connection by a reset (`RST`).
    ///
    /// # Panics
    ///
    /// If the kernel refuses.
    pub fn reset(self) {
        // A close with a linger time of zero discards unsent bytes, and sends a reset.
        set_socket_linger(&self.stream, Some(Duration::ZERO)).expect("a socket");
    }

    /// Sends a GET request. Returns its response.
    ///
    /// # Panics
    ///
    /// If there is no complete response.
    pub fn get(&mut self, path: &str) -> Response {
        self.send(format!("GET {path} HTTP/1.1\r\nHost: test\r\n\r\n"));
        self.response()
    }

    /// Like [`get`](Self::get), with an error instead of a panic.
    ///
    /// # Errors
    ///
    /// The error of sending the request, or the errors of [`try_response`](Self::try_response).
    pub fn try_get(&mut self, path: &str) -> io::Result<Response> {
        let request = format!("GET {path} HTTP/1.1\r\nHost: test\r\n\r\n");
        self.stream.write_all(request.as_bytes())?;
        self.try_response()
    }

    /// The process id of the worker that serves this connection, from `/worker`.
    ///
    /// # Panics
    ///
    /// If there is no complete response with a process id.
    pub fn worker(&mut self) -> u32 {
        self.try_worker().expect("a response with a process id")
    }

    /// Like [`worker`](Self::worker), with an error instead of a panic.
    ///
    /// # Errors
    ///
    /// The errors of [`try_get`](Self::try_get), and an error if the response has no process id.
    pub fn try_worker(&mut self) -> io::Result<u32> {
        self.stream
            .write_all(b"GET /worker HTTP/1.1\r\nHost: test\r\n\r\n")?;
        let response = self.try_response()?;
        let (_, pid) = response.text().rsplit_once(':').unwrap_or_default();
        let pid = pid.trim_end_matches("}\n").parse();
        pid.map_err(io::Error::other)
    }

    /// Reads the next response.
    ///
    /// # Panics
    ///
    /// If there is no complete response.
    pub fn response(&mut self) -> Response {
        self.try_response().expect("a response")
    }

    /// Reads the next response.
    ///
    /// # Errors
    ///
    /// `UnexpectedEof`, or the error of reading, such as `ConnectionReset` or `WouldBlock` after
    /// [`PATIENCE`]. An error for a head without a status, or a head that is not UTF-8.
    pub fn try_response(&mut self) -> io::Result<Response> {
        let (mut response, length) = self.head()?;
        response.body = self.body(length.unwrap_or(0))?;
        Ok(response)
    }

    /// Reads the head of the next response, and its `Content-Length`.
    ///
    /// # Panics
    ///
    /// If there is no complete head.
    pub fn head_response(&mut self) -> (Response, Option<usize>) {
        self.head().expect("a response")
    }

    /// Reads the next bytes, such as a body after [`head_response`](Self::head_response).
    ///
    /// # Errors
    ///
    /// `UnexpectedEof`, or the error of reading, such as `ConnectionReset` or `WouldBlock` after
    /// [`PATIENCE`].
    pub fn body(&mut self, length: usize) -> io::Result<Vec<u8>> {
        while self.received.len() < length {
            self.receive()?;
        }
        // `drain` loops over the bytes: in an unoptimized build, this is slow for a large body.
        let behind = self.received.split_off(length);
        Ok(mem::replace(&mut self.received, behind))
    }

    /// Returns whether the server closes the connection within [`PATIENCE`], without a reset and
    /// without another byte.
    pub fn is_closed(&mut self) -> bool {
        self.received.is_empty()
            && matches!(self.receive(), Err(error) if error.kind() == io::ErrorKind::UnexpectedEof)
    }

    /// Reads up to the end, and discards the bytes. Returns their number, without bytes that an
    /// earlier call received beyond its response.
    ///
    /// # Errors
    ///
    /// The error of reading, such as `ConnectionReset`.
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
        let headers = lines.filter_map(|line| line.split_once(':'));
        let response = Response {
            status: status.ok_or_else(|| io::Error::other("no status line"))?,
            headers: headers
                .map(|(key, value)| (key.to_owned(), value.trim().to_owned()))
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
                // After this process was stopped or frozen, a read with a timeout is interrupted.
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
    }
}
