//! Servers over epoll and nothing else: the ways to share a listener that need no lock.

use std::io::{self, Read, Write, stdin};
use std::net::{Ipv4Addr, SocketAddr, TcpStream};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd};
use std::process::{ExitCode, Stdio};
use std::time::Duration;

use rustix::buffer::spare_capacity;
use rustix::event::epoll::{self, CreateFlags, Event, EventData, EventFlags};
use rustix::fd::OwnedFd;
use rustix::io::Errno;
use rustix::net::{
    AddressFamily, SocketFlags, SocketType, accept_with, bind, getsockname, listen, socket_with,
    sockopt,
};

use super::launch::{Launch, this_program};
use super::pace;
use super::server::Server;

/// The most events a wait, and the most accepts an event.
const BATCH: usize = 64;

/// The key of the listener, which is no descriptor's number.
const LISTENER: u64 = u64::MAX;

/// As many clients may wait as at nginx.
const BACKLOG: i32 = 511;

/// How the workers of a bare server share.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Sharing {
    /// One listener, level-triggered: all are woken.
    Shared,
    /// One listener, `EPOLLEXCLUSIVE`: one is woken, mostly the same.
    Exclusive,
    /// A listener each, among which the kernel chooses by the client's address.
    ReusePort,
}

/// Starts workers, each of which has its listener as its standard input.
///
/// # Errors
///
/// What the system refuses.
pub(super) fn start(sharing: Sharing, launch: Launch, workers: usize) -> Result<Server, String> {
    let listeners = listeners(sharing, workers);
    let (address, listeners) = listeners.map_err(|error| format!("listening: {error}"))?;
    let program = this_program();
    let interest = if sharing == Sharing::Exclusive {
        "exclusive"
    } else {
        "shared"
    };
    // What is started ends with this value, also if one cannot be started.
    let mut server = Server::of_workers(address);
    for listener in listeners {
        let mut command = launch.command(program.get_program());
        command
            .args(["bare", interest])
            .stdin(Stdio::from(listener));
        let worker = command.spawn();
        server.add_worker(worker.map_err(|error| format!("starting a worker: {error}"))?);
    }
    server.ready()
}

/// A listener for each worker, all on one address: of one socket, or each of its own.
fn listeners(sharing: Sharing, workers: usize) -> io::Result<(SocketAddr, Vec<OwnedFd>)> {
    let any_port = SocketAddr::from((Ipv4Addr::LOCALHOST, 0));
    let reuse_port = sharing == Sharing::ReusePort;
    let first = listener(any_port, reuse_port)?;
    let address = SocketAddr::try_from(getsockname(&first)?)?;
    let mut all = vec![first];
    while all.len() < workers {
        all.push(if reuse_port {
            listener(address, true)?
        } else {
            all[0].try_clone()?
        });
    }
    Ok((address, all))
}

fn listener(address: SocketAddr, reuse_port: bool) -> io::Result<OwnedFd> {
    let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
    let socket = socket_with(AddressFamily::INET, SocketType::STREAM, flags, None)?;
    sockopt::set_socket_reuseport(&socket, reuse_port)?;
    bind(&socket, &address)?;
    listen(&socket, BACKLOG)?;
    Ok(socket)
}

/// A worker.
struct Worker<'a> {
    listener: BorrowedFd<'a>,
    set: OwnedFd,
    /// By their descriptors.
    connections: Vec<Option<TcpStream>>,
}

/// Serves for ever, from the listener that is the standard input.
pub(crate) fn serve(interest: &str) -> ExitCode {
    let exclusive = interest == "exclusive";
    let stdin = stdin();
    let Err(error) = Worker::new(stdin.as_fd(), exclusive).and_then(Worker::run);
    eprintln!("bare {interest}: {error}");
    ExitCode::FAILURE
}

impl<'a> Worker<'a> {
    fn new(listener: BorrowedFd<'a>, exclusive: bool) -> io::Result<Worker<'a>> {
        let set = epoll::create(CreateFlags::CLOEXEC)?;
        let mut interest = EventFlags::IN;
        interest.set(EventFlags::EXCLUSIVE, exclusive);
        epoll::add(&set, listener, EventData::new_u64(LISTENER), interest)?;
        let connections = Vec::new();
        Ok(Worker {
            listener,
            set,
            connections,
        })
    }

    fn run(mut self) -> io::Result<std::convert::Infallible> {
        let mut events: Vec<Event> = Vec::with_capacity(BATCH);
        loop {
            events.clear();
            match epoll::wait(&self.set, spare_capacity(&mut events), None) {
                // Stopped and continued.
                Err(Errno::INTR) => {}
                waited => drop(waited?),
            }
            for event in &events {
                match event.data.u64() {
                    LISTENER => self.accept()?,
                    key => self.serve(key),
                }
            }
        }
    }

    fn accept(&mut self) -> io::Result<()> {
        for _ in 0..BATCH {
            let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
            match accept_with(self.listener, flags) {
                Ok(stream) => self.add(stream.into())?,
                Err(Errno::AGAIN) => break,
                Err(error) => return Err(error.into()),
            }
        }
        Ok(())
    }

    fn add(&mut self, stream: TcpStream) -> io::Result<()> {
        let index = usize::try_from(stream.as_raw_fd()).expect("a descriptor is not negative");
        if index >= self.connections.len() {
            self.connections.resize_with(index + 1, || None);
        }
        let data = EventData::new_u64(index as u64);
        epoll::add(&self.set, &stream, data, EventFlags::IN)?;
        self.connections[index] = Some(stream);
        Ok(())
    }

    /// Answers what has come, which is one whole request: the clients are ours.
    fn serve(&mut self, key: u64) {
        let index = usize::try_from(key).expect("it was an index before");
        if let Some(stream) = &mut self.connections[index] {
            if answer(stream).is_err() {
                self.connections[index] = None;
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
