//! Clients whose streams epoll refuses, and clients that cannot be accepted.
#![cfg(target_os = "linux")]

use std::cell::Cell;
use std::fs::File;
use std::io;
use std::os::fd::OwnedFd;

use evcore::net::{Accept, Error};
use evcore::poller::{BackendKind, Source, Target};
use evcore::{Acceptor, EventLoop, Stream};
use evcore_async::{Listener, Runtime};

use crate::socket_addr;

/// A listener whose next client has a file in place of a socket, if the flag is set.
#[derive(Debug)]
struct FileListener(evcore::Listener, Cell<bool>);

impl Source for FileListener {
    fn target(&self) -> Target<'_> {
        self.0.target()
    }
}

impl Acceptor for FileListener {
    type Stream = Stream;

    fn accept(&self) -> Result<Accept, Error> {
        match self.0.accept()? {
            Accept::Connection(_, peer) if self.1.replace(false) => {
                let file = File::open(std::env::current_exe().unwrap()).unwrap();
                Ok(Accept::Connection(Stream::from(OwnedFd::from(file)), peer))
            }
            accepted => Ok(accepted),
        }
    }
}

#[test]
fn a_refused_stream_is_not_an_error_of_the_listener() {
    let ev = EventLoop::builder().poller(BackendKind::Epoll);
    let test = async {
        let listener = evcore::Listener::bind("127.0.0.1:0")?;
        let address = socket_addr(listener.local_addr().clone());
        let listener = Listener::new(FileListener(listener, Cell::new(true)))?;
        let clients = [1, 2].map(|_| std::net::TcpStream::connect(address).unwrap());
        let (_stream, peer) = listener.accept().await?;
        assert_eq!(socket_addr(peer), clients[1].local_addr()?);
        Ok::<(), io::Error>(())
    };
    let mut runtime = Runtime::from(ev.build().unwrap());
    runtime.block_on(test).unwrap().unwrap();
}

/// A listener that counts its calls, and may lose clients.
#[derive(Debug)]
struct LosingListener {
    listener: evcore::Listener,
    calls: Cell<u32>,
    /// Returns the outcome of the call with this number, from 1.
    outcome: fn(&evcore::Listener, u32) -> Result<Accept, Error>,
}

impl Source for LosingListener {
    fn target(&self) -> Target<'_> {
        self.listener.target()
    }
}

impl Acceptor for LosingListener {
    type Stream = Stream;

    fn accept(&self) -> Result<Accept, Error> {
        self.calls.set(self.calls.get() + 1);
        (self.outcome)(&self.listener, self.calls.get())
    }
}

fn connect(listener: &evcore::Listener) -> std::net::TcpStream {
    std::net::TcpStream::connect(socket_addr(listener.local_addr().clone())).unwrap()
}

fn listener_with(outcome: fn(&evcore::Listener, u32) -> Result<Accept, Error>) -> LosingListener {
    LosingListener {
        listener: evcore::Listener::bind("127.0.0.1:0").unwrap(),
        calls: Cell::new(0),
        outcome,
    }
}

#[test]
fn a_listener_that_loses_every_client_fails() {
    let test = async {
        let losing = listener_with(|_, _| Ok(Accept::Aborted));
        let _client = connect(&losing.listener);
        let listener = Listener::new(losing).unwrap();
        for time in 1..=2 {
            let error = listener.accept().await.unwrap_err();
            assert_eq!(error.kind(), io::ErrorKind::ConnectionAborted);
            let calls = listener.watched().with(|listener| listener.calls.get());
            assert_eq!(calls, time * 8_192);
        }
    };
    Runtime::new().unwrap().block_on(test).unwrap();
}

#[test]
fn clients_that_are_lost_now_and_then_are_no_failure() {
    let test = async {
        let losing = listener_with(|listener, call| match call {
            5_001 => {
                drop(connect(listener)); // wakes the task again
                Ok(Accept::WouldBlock)
            }
            ..=10_001 => Ok(Accept::Aborted),
            _ => listener.accept(),
        });
        let _client = connect(&losing.listener);
        let listener = Listener::new(losing).unwrap();
        listener.accept().await.unwrap();
    };
    Runtime::new().unwrap().block_on(test).unwrap();
}
