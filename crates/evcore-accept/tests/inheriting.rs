//! A listener that goes on in another program.

#![allow(
    unsafe_code,
    reason = "what a program inherits, it knows by number alone"
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

use evcore_accept::{Accept, Address, Listener};

/// Tells the other program the number of the listener, and its address.
const NUMBER: &str = "EVCORE_ACCEPT_INHERITS";
const ADDRESS: &str = "EVCORE_ACCEPT_INHERITS_ADDRESS";

#[test]
fn a_client_of_this_program_is_served_by_another() {
    let path = env::temp_dir().join(format!("evcore-accept-{}-inherits", std::process::id()));
    for address in ["127.0.0.1:0".parse().unwrap(), Address::Unix(path)] {
        let listener = Listener::bind(address).unwrap();
        let mut client = connect(listener.local_addr()).unwrap();
        listener.set_inheritable(true).unwrap();
        let served = Command::new(env::current_exe().unwrap())
            .args(["--exact", "serve_what_was_inherited"])
            .env(NUMBER, listener.as_fd().as_raw_fd().to_string())
            .env(ADDRESS, listener.local_addr().to_string())
            .status()
            .unwrap();
        let file = listener.file().cloned();
        assert!(served.success(), "{:?}", listener.local_addr());
        let mut heard = String::new();
        client.read_to_string(&mut heard).unwrap();
        assert_eq!(heard, "hello");

        // The other has ended, and this one listens on.
        let _again = connect(listener.local_addr()).unwrap();
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

/// The other program; nothing, unless it is told what it inherits.
#[test]
fn serve_what_was_inherited() {
    let Ok(number) = env::var(NUMBER) else {
        return;
    };
    // SAFETY: the program that names the number has opened it for this one, which takes it once.
    let inherited = unsafe { OwnedFd::from_raw_fd(number.parse().unwrap()) };
    let listener = Listener::from_fd(inherited).unwrap();
    assert_eq!(
        listener.local_addr().to_string(),
        env::var(ADDRESS).unwrap()
    );
    match listener.accept().unwrap() {
        Accept::Connection(stream, _) => assert_eq!(stream.send(b"hello").unwrap(), 5),
        other => panic!("the client has connected before, so not {other:?}"),
    }
}
