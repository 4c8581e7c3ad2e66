//! A client of the load that `--demo` makes. It keeps its connection open, and waits for each
//! response.

use std::{
    io::{self, ErrorKind, Read, Write},
    net::{SocketAddr, TcpStream},
    time::Duration,
};

/// The longest time for connecting, and between two reads of a response.
const PATIENCE: Duration = Duration::from_secs(2);

/// The maximum size of a response, which is a head and a line of text.
const MAX_RESPONSE: usize = 4096;

pub(super) struct Client(TcpStream);

impl Client {
    pub(super) fn connect(server: SocketAddr) -> io::Result<Self> {
        let stream = TcpStream::connect_timeout(&server, PATIENCE)?;
        stream.set_read_timeout(Some(PATIENCE))?;
        stream.set_nodelay(true)?;
        Ok(Self(stream))
    }

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

    pub(super) fn worker(&mut self) -> io::Result<i32> {
        let text = self.get("/worker")?;
        process_id(&text).ok_or(ErrorKind::InvalidData.into())
    }
}

/// Finds the process id in a response of `/worker`. Other fields may follow it.
fn process_id(text: &str) -> Option<i32> {
    let (_, rest) = text.split_once("\"pid\":")?;
    rest.split(|c: char| !c.is_ascii_digit())
        .next()?
        .parse()
        .ok()
}

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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_process_id_is_found_whatever_follows() {
        let with_client = "{\"worker\":0,\"pid\":4711,\"client\":\"192.168.1.77\"}\n";
        assert_eq!(process_id(with_client), Some(4711));
        assert_eq!(process_id("{\"worker\":0,\"pid\":4711}\n"), Some(4711));
        assert_eq!(process_id("{\"worker\":0}\n"), None);
    }
}
