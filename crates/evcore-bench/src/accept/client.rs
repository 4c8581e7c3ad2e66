//! One client: a connection, one question at a time, and when the first byte of its answer came.

use std::io::{self, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::{Duration, Instant};

/// How long a client waits for a byte before it gives up.
const PATIENCE: Duration = Duration::from_secs(10);

/// A client.
#[derive(Debug)]
pub(super) struct Client {
    pub(super) stream: TcpStream,
    began: Instant,
    received: Vec<u8>,
    first_byte: Option<Duration>,
}

/// The worker that responded, and after how long.
#[derive(Clone, Copy, Debug)]
pub(super) struct Answer {
    /// The process id; 0 where the answer has none.
    pub(super) worker: u32,
    /// From the connect to the first byte.
    pub(super) wait: Duration,
}

impl Client {
    /// Connects, which over loopback takes no worker: the kernel does it, up to the backlog.
    pub(super) fn connect(address: SocketAddr) -> io::Result<Client> {
        let began = Instant::now();
        let stream = TcpStream::connect(address)?;
        stream.set_nodelay(true)?;
        let client = Client {
            stream,
            began,
            received: Vec::new(),
            first_byte: None,
        };
        client.patience(PATIENCE);
        Ok(client)
    }

    /// Sets the time to wait for a byte.
    pub(super) fn patience(&self, time: Duration) {
        let set = self.stream.set_read_timeout(Some(time));
        set.expect("it is more than no time");
    }

    /// Sends a request.
    pub(super) fn ask(&mut self, path: &str) -> io::Result<()> {
        self.received.clear();
        let request = format!("GET {path} HTTP/1.1\r\nHost: bench\r\n\r\n");
        self.stream.write_all(request.as_bytes())
    }

    /// Takes in what has come, after waiting for it if there is nothing, and returns the answer if
    /// it is whole.
    pub(super) fn receive(&mut self) -> io::Result<Option<Answer>> {
        let mut bytes = [0; 4096];
        let n = self.stream.read(&mut bytes)?;
        let wait = *self.first_byte.get_or_insert(self.began.elapsed());
        if n == 0 {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        self.received.extend_from_slice(&bytes[..n]);
        let worker = worker_of(&self.received);
        Ok(worker.map(|worker| Answer { worker, wait }))
    }

    /// Waits for the answer.
    pub(super) fn answer(&mut self) -> io::Result<Answer> {
        loop {
            if let Some(answer) = self.receive()? {
                return Ok(answer);
            }
        }
    }

    /// Requests the process id of the worker that serves this connection.
    pub(super) fn worker(&mut self) -> io::Result<Answer> {
        self.ask("/worker")?;
        self.answer()
    }
}

/// The last number of the body of an answer, which is a process id; `None` if the answer is not
/// whole, 0 if there is no number.
fn worker_of(answer: &[u8]) -> Option<u32> {
    let answer = std::str::from_utf8(answer).ok()?;
    let (head, body) = answer.split_once("\r\n\r\n")?;
    let mut lines = head.lines().filter_map(|line| line.split_once(": "));
    let length = lines.find(|(name, _)| name.eq_ignore_ascii_case("content-length"));
    let length: usize = length?.1.parse().ok()?;
    if body.len() < length {
        return None;
    }
    let numbers = body.split(|c: char| !c.is_ascii_digit());
    let last = numbers.rev().find(|word| !word.is_empty());
    Some(last.and_then(|number| number.parse().ok()).unwrap_or(0))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_worker_is_the_last_number_of_a_whole_answer() {
        let answer = b"HTTP/1.1 200 OK\r\nContent-Length: 23\r\n\r\n{\"worker\":1,\"pid\":4567}\n";
        assert_eq!(worker_of(answer), Some(4567));
        assert_eq!(worker_of(&answer[..50]), None);
        let plain = b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\n89";
        assert_eq!(worker_of(plain), Some(89));
        let other = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok";
        assert_eq!(worker_of(other), Some(0));
    }
}
