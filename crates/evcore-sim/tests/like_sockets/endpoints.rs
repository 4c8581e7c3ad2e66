//! Pairs of connected sockets, real or simulated, behind one trait.

use std::{
    io::{self, Read, Write},
    net::{Shutdown, TcpListener, TcpStream},
    os::{fd::AsFd, unix::net::UnixStream},
    time::Duration,
};

use evcore::{
    Transport,
    poller::{Poller, Source},
};
use evcore_sim::{Sim, SimConfig, SimStream};
use rustix::net::sockopt::set_socket_linger;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Family {
    Tcp,
    Unix,
}

/// A non-blocking endpoint.
pub(crate) trait Endpoint: Source {
    fn send(&self, bytes: &[u8]) -> io::Result<usize>;
    fn recv(&self, buffer: &mut [u8]) -> io::Result<usize>;
    fn shutdown_write(&self) -> io::Result<()>;
    fn take_error(&self) -> io::Result<Option<io::Error>>;
    fn reset(self: Box<Self>);
}

/// Two connected endpoints and a poller that can watch them.
pub(crate) struct Pair {
    pub(crate) poller: Poller,
    pub(crate) endpoints: [Option<Box<dyn Endpoint>>; 2],
}

impl Pair {
    pub(crate) fn real(family: Family) -> Self {
        let poller = Poller::new().expect("a poller");
        let endpoints = match family {
            Family::Tcp => tcp_pair().map(boxed),
            Family::Unix => unix_pair().map(boxed),
        };
        Self { poller, endpoints }
    }

    pub(crate) fn simulated(family: Family) -> Self {
        // With an even seed, the backend itself is edge-triggered, as epoll is.
        let sim = Sim::new(0);
        sim.set_config(SimConfig {
            latency: Duration::ZERO..=Duration::ZERO,
            ..SimConfig::default()
        });
        let process = sim.process();
        let poller = Poller::from(process.backend());
        let (near, far) = match family {
            Family::Tcp => process.tcp_pair(),
            Family::Unix => process.unix_pair(),
        };
        let endpoints = [near, far].map(boxed);
        Self { poller, endpoints }
    }
}

fn boxed<E: Endpoint + 'static>(end: E) -> Option<Box<dyn Endpoint>> {
    Some(Box::new(end))
}

fn tcp_pair() -> [TcpStream; 2] {
    let listener = TcpListener::bind("127.0.0.1:0").expect("listen");
    let near = TcpStream::connect(listener.local_addr().expect("an address")).expect("connect");
    let (far, _) = listener.accept().expect("accept");
    for end in [&near, &far] {
        end.set_nonblocking(true).expect("non-blocking");
        // Without this, Nagle's algorithm delays the second of two small pieces.
        end.set_nodelay(true).expect("no delay");
    }
    [near, far]
}

fn unix_pair() -> [UnixStream; 2] {
    let (near, far) = UnixStream::pair().expect("a pair");
    for end in [&near, &far] {
        end.set_nonblocking(true).expect("non-blocking");
    }
    [near, far]
}

impl Endpoint for SimStream {
    fn send(&self, bytes: &[u8]) -> io::Result<usize> {
        Transport::send(self, bytes)
    }

    fn recv(&self, buffer: &mut [u8]) -> io::Result<usize> {
        Transport::recv(self, buffer)
    }

    fn shutdown_write(&self) -> io::Result<()> {
        self.shutdown_write()
    }

    fn take_error(&self) -> io::Result<Option<io::Error>> {
        Transport::take_error(self)
    }

    fn reset(self: Box<Self>) {
        SimStream::reset(*self);
    }
}

macro_rules! real_end {
    ($stream:ty) => {
        impl Endpoint for $stream {
            fn send(&self, bytes: &[u8]) -> io::Result<usize> {
                let mut stream = self;
                stream.write(bytes)
            }

            fn recv(&self, buffer: &mut [u8]) -> io::Result<usize> {
                let mut stream = self;
                stream.read(buffer)
            }

            fn shutdown_write(&self) -> io::Result<()> {
                self.shutdown(Shutdown::Write)
            }

            fn take_error(&self) -> io::Result<Option<io::Error>> {
                <$stream>::take_error(self)
            }

            fn reset(self: Box<Self>) {
                set_socket_linger(self.as_fd(), Some(Duration::ZERO)).expect("linger");
            }
        }
    };
}

real_end!(TcpStream);
real_end!(UnixStream);
