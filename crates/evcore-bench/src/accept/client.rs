//! One client: a connection, and one request at a time.

use std::io::{self, BufRead, BufReader, ErrorKind, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::Duration;

use crate::pace::PATIENCE;

/// A client.
#[derive(Debug)]
pub(super) struct Client(BufReader<TcpStream>);

impl Client {
    /// Connects, which over loopback takes no worker: the kernel does it, up to the backlog.
    pub(super) fn connect(address: SocketAddr) -> io::Result<Client> {
        let stream = TcpStream::connect(address)?;
        stream.set_nodelay(true)?;
        let client = Client(BufReader::new(stream));
        client.patience(PATIENCE);
        Ok(client)
    }

    /// Sets the time to wait for a byte.
    pub(super) fn patience(&self, time: Duration) {
        let set = self.0.get_ref().set_read_timeout(Some(time));
        set.expect("it is more than no time");
    }

    /// Sends a request.
    pub(super) fn ask(&mut self, path: &str) -> io::Result<()> {
        let request = format!("GET {path} HTTP/1.1\r\nHost: bench\r\n\r\n");
        self.0.get_mut().write_all(request.as_bytes())
    }

    /// Waits for the response, and returns the last number in its body: the worker's process id. 0 if
    /// it has no number.
    pub(super) fn answer(&mut self) -> io::Result<u32> {
        let (mut length, mut line) = (0, String::new());
        while line != "\r\n" {
            line.clear();
            if self.0.read_line(&mut line)? == 0 {
                return Err(ErrorKind::UnexpectedEof.into());
            }
            let header = line.to_ascii_lowercase();
            if let Some(value) = header.strip_prefix("content-length:") {
                length = value.trim().parse().map_err(io::Error::other)?;
            }
        }
        let mut body = vec![0; length];
        self.0.read_exact(&mut body)?;
        let body = String::from_utf8_lossy(&body);
        let numbers = body.split(|c: char| !c.is_ascii_digit());
        let last = numbers.rev().find(|word| !word.is_empty());
        Ok(last.and_then(|number| number.parse().ok()).unwrap_or(0))
    }

    /// Requests the process id of the worker that serves this connection.
    pub(super) fn worker(&mut self) -> io::Result<u32> {
        self.ask("/worker")?;
        self.answer()
    }
}
