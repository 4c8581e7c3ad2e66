//! A worker of a bare server: a program of its own, whose listener is its standard input.

use std::io::{self, Read, Write, stdin};
use std::net::TcpStream;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd};
use std::process::ExitCode;
use std::time::Duration;

use rustix::buffer::spare_capacity;
use rustix::event::epoll::{self, CreateFlags, Event, EventData, EventFlags};
use rustix::fd::OwnedFd;
use rustix::io::Errno;
use rustix::net::{SocketFlags, accept_with};

use super::Sharing;
use crate::accept::pace;

/// The most events a wait, and the most accepts an event.
const BATCH: usize = 64;

/// After how many accepts a listener is added again.
const READD_AFTER: u32 = 16;

/// The key of the listener, which is no descriptor's number.
const LISTENER: u64 = u64::MAX;

/// A worker.
struct Worker<'a> {
    sharing: Sharing,
    listener: BorrowedFd<'a>,
    set: OwnedFd,
    /// By their descriptors.
    connections: Vec<Option<TcpStream>>,
    accepted: u32,
}

/// Serves as the words say, for ever.
pub(crate) fn serve(words: &[&str]) -> ExitCode {
    let [word] = words else {
        return ExitCode::FAILURE;
    };
    let Some(sharing) = Sharing::of(word) else {
        return ExitCode::FAILURE;
    };
    let stdin = stdin();
    match Worker::new(sharing, stdin.as_fd()).and_then(Worker::run) {
        Ok(never) => match never {},
        Err(error) => {
            eprintln!("bare {word}: {error}");
            ExitCode::FAILURE
        }
    }
}

/// What a worker that serves for ever returns.
enum Never {}

impl<'a> Worker<'a> {
    fn new(sharing: Sharing, listener: BorrowedFd<'a>) -> io::Result<Worker<'a>> {
        let worker = Worker {
            sharing,
            listener,
            set: epoll::create(CreateFlags::CLOEXEC)?,
            connections: Vec::new(),
            accepted: 0,
        };
        worker.listen()?;
        Ok(worker)
    }

    fn run(mut self) -> io::Result<Never> {
        let mut events: Vec<Event> = Vec::with_capacity(BATCH);
        loop {
            events.clear();
            match epoll::wait(&self.set, spare_capacity(&mut events), None) {
                // Stopped and continued.
                Err(Errno::INTR) => {}
                waited => {
                    waited?;
                }
            }
            for event in &events {
                match event.data.u64() {
                    LISTENER => self.accept()?,
                    key => self.serve(key),
                }
            }
        }
    }

    fn listen(&self) -> io::Result<()> {
        let mut interest = EventFlags::IN;
        if matches!(self.sharing, Sharing::Exclusive | Sharing::Readded) {
            interest |= EventFlags::EXCLUSIVE;
        }
        let key = EventData::new_u64(LISTENER);
        Ok(epoll::add(&self.set, self.listener, key, interest)?)
    }

    fn accept(&mut self) -> io::Result<()> {
        for _ in 0..BATCH {
            let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
            match accept_with(self.listener, flags) {
                Ok(stream) => self.welcome(stream.into())?,
                Err(Errno::AGAIN) => break,
                Err(error) => return Err(error.into()),
            }
        }
        Ok(())
    }

    fn welcome(&mut self, stream: TcpStream) -> io::Result<()> {
        let fd = stream.as_raw_fd();
        let index = usize::try_from(fd).expect("a descriptor is not negative");
        if index >= self.connections.len() {
            self.connections.resize_with(index + 1, || None);
        }
        epoll::add(
            &self.set,
            &stream,
            EventData::new_u64(index as u64),
            EventFlags::IN,
        )?;
        self.connections[index] = Some(stream);
        self.accepted += 1;
        if self.sharing == Sharing::Readded && self.accepted % READD_AFTER == 0 {
            epoll::delete(&self.set, self.listener)?;
            self.listen()?;
        }
        Ok(())
    }

    /// Answers what has come, which is one whole request: the clients are ours.
    fn serve(&mut self, key: u64) {
        let place = usize::try_from(key).ok();
        let place = place.and_then(|index| self.connections.get_mut(index));
        let Some(place) = place else { return };
        if let Some(stream) = place {
            if answer(stream).is_err() {
                *place = None;
            }
        }
    }
}

fn answer(stream: &mut TcpStream) -> io::Result<()> {
    let mut bytes = [0; 1024];
    let n = stream.read(&mut bytes)?;
    if n == 0 {
        return Err(io::ErrorKind::UnexpectedEof.into());
    }
    if let Some(time) = block(&bytes[..n]) {
        pace::pause(time);
    }
    let pid = std::process::id().to_string();
    let length = pid.len();
    stream.write_all(format!("HTTP/1.1 200 OK\r\nContent-Length: {length}\r\n\r\n{pid}").as_bytes())
}

/// How long a request asks its worker to block.
fn block(request: &[u8]) -> Option<Duration> {
    let text = std::str::from_utf8(request).ok()?;
    let ms = text.strip_prefix("GET /block/")?.split(' ').next()?;
    ms.parse().ok().map(Duration::from_millis)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_who_asks_to_block_does() {
        let ms = Duration::from_millis;
        assert_eq!(block(b"GET /block/200 HTTP/1.1\r\n"), Some(ms(200)));
        assert_eq!(block(b"GET /worker HTTP/1.1\r\n"), None);
    }
}
