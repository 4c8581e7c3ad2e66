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

/// A listener that counts the calls of `accept`, and loses each client.
#[derive(Debug)]
struct LosingListener(evcore::Listener, Cell<u32>);

impl Source for LosingListener {
    fn target(&self) -> Target<'_> {
        self.0.target()
    }
}

impl Acceptor for LosingListener {
    type Stream = Stream;

    fn accept(&self) -> Result<Accept, Error> {
        self.1.set(self.1.get() + 1);
        Ok(Accept::Aborted)
    }
}

#[test]
fn a_listener_that_loses_every_client_fails() {
    let test = async {
        let listener = evcore::Listener::bind("127.0.0.1:0").unwrap();
        let address = socket_addr(listener.local_addr().clone());
        let listener = Listener::new(LosingListener(listener, Cell::new(0))).unwrap();
        let _client = std::net::TcpStream::connect(address).unwrap();
        for time in 1..=2 {
            let error = listener.accept().await.unwrap_err();
            assert_eq!(error.kind(), io::ErrorKind::ConnectionAborted);
            let calls = listener.watched().with(|listener| listener.1.get());
            assert_eq!(calls, time * 8_192);
        }
    };
    Runtime::new().unwrap().block_on(test).unwrap();
}
