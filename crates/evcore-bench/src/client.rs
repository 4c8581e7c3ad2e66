//! One client: a connection, and one request at a time.

use std::io::{self, ErrorKind, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::Duration;

use crate::pace::PATIENCE;

#[derive(Debug)]
pub(crate) struct Client(TcpStream);

impl Client {
    /// Connects. Over loopback this needs no worker, because the kernel completes connections up to
    /// the backlog.
    pub(crate) fn connect(address: SocketAddr) -> io::Result<Client> {
        let client = Client(TcpStream::connect(address)?);
        client.set_timeout(PATIENCE);
        Ok(client)
    }

    pub(crate) fn set_timeout(&self, time: Duration) {
        let set = self.0.set_read_timeout(Some(time));
        set.expect("it is more than no time");
    }

    pub(crate) fn ask(&mut self, path: &str) -> io::Result<()> {
        let request = format!("GET {path} HTTP/1.1\r\nHost: bench\r\n\r\n");
        self.0.write_all(request.as_bytes())
    }

    /// Waits for the response, which is short and arrives in one piece. Returns the last number in
    /// the response: the worker's process id, if the request was for that.
    pub(crate) fn answer(&mut self) -> io::Result<u32> {
        let mut response = [0; 4096];
        let length = self.0.read(&mut response)?;
        let text = String::from_utf8_lossy(&response[..length]);
        if !text.starts_with("HTTP/1.1 200") {
            return Err(ErrorKind::UnexpectedEof.into());
        }
        let mut numbers = text.rsplit(|c: char| !c.is_ascii_digit());
        let last = numbers.find(|word| !word.is_empty());
        Ok(last.and_then(|number| number.parse().ok()).unwrap_or(0))
    }

    /// Requests the process id of the worker that serves this connection.
    pub(crate) fn worker(&mut self) -> io::Result<u32> {
        self.ask("/worker")?;
        self.answer()
    }
}
