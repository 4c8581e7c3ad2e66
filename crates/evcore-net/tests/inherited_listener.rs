//! A listener that another program inherits.

#![allow(
    unsafe_code,
    reason = "a program has only the number of an inherited descriptor"
)]

use std::{
    env,
    io::{self, Read},
    net::TcpStream,
    os::{
        fd::{AsFd, AsRawFd, FromRawFd, OwnedFd},
        unix::net::UnixStream,
    },
    process::Command,
};

use evcore_net::{Accept, Address, Listener};

const NUMBER: &str = "EVCORE_NET_INHERITED_LISTENER";
const ADDRESS: &str = "EVCORE_NET_INHERITED_LISTENER_ADDRESS";

#[test]
fn a_program_that_inherits_a_listener_serves_its_client() {
    let path = env::temp_dir().join(format!("evcore-net-{}-inherits", std::process::id()));
    for address in ["127.0.0.1:0".parse().unwrap(), Address::Unix(path)] {
        let listener = Listener::bind(address).unwrap();
        let mut client = connect(listener.local_addr()).unwrap();
        listener.set_inheritable(true).unwrap();
        let served = Command::new(env::current_exe().unwrap())
            .args(["--exact", "serve_an_inherited_listener"])
            .env(NUMBER, listener.as_fd().as_raw_fd().to_string())
            .env(ADDRESS, listener.local_addr().to_string())
            .status()
            .unwrap();
        let file = listener.file().cloned();
        assert!(served.success(), "{:?}", listener.local_addr());
        let mut received = String::new();
        client.read_to_string(&mut received).unwrap();
        assert_eq!(received, "hello");

        // The other program has ended, and this one still listens.
        let _client = connect(listener.local_addr()).unwrap();
        drop(listener);
        assert!(file.is_none_or(|file| file.remove().unwrap()));
    }
}

fn connect(address: &Address) -> io::Result<Box<dyn Read>> {
    match address.path() {
        Some(path) => Ok(Box::new(UnixStream::connect(path)?)),
        None => Ok(Box::new(TcpStream::connect(address)?)),
    }
}

/// The program that inherits the listener. Without the environment variables it does nothing.
#[test]
fn serve_an_inherited_listener() {
    let Ok(number) = env::var(NUMBER) else {
        return;
    };
    // SAFETY: the program that passes the number keeps the descriptor open across exec, and this
    // function takes it once.
    let inherited = unsafe { OwnedFd::from_raw_fd(number.parse().unwrap()) };
    let listener = Listener::from_fd(inherited).unwrap();
    assert_eq!(
        listener.local_addr().to_string(),
        env::var(ADDRESS).unwrap()
    );
    match listener.accept().unwrap() {
        Accept::Connection(stream, _) => assert_eq!(stream.send(b"hello").unwrap(), 5),
        other => panic!("a client has connected, but accept returned {other:?}"),
    }
}
