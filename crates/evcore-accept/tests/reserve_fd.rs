//! The reserve descriptor in a process that has no other descriptor left.
//!
//! The limit applies to the whole process, so this test has a process of its own.

#![cfg(target_os = "linux")] // other systems may check the limit at another moment of accept

use std::{fs::File, io::Read, net::TcpStream};

use evcore_accept::{Accept, Listener, ReserveFd, Resource};
use rustix::process::{self, Rlimit, getrlimit, setrlimit};

/// Lowers the limit, and opens files until no descriptor is left.
fn take_all_descriptors() -> Vec<File> {
    let few = Rlimit {
        current: Some(64),
        ..getrlimit(process::Resource::Nofile)
    };
    setrlimit(process::Resource::Nofile, few).unwrap();
    std::iter::from_fn(|| File::open("/dev/null").ok()).collect()
}

fn is_exhausted(listener: &Listener) -> bool {
    let outcome = listener.accept().unwrap();
    matches!(outcome, Accept::Exhausted(Resource::Process))
}

#[test]
fn the_reserve_sheds_one_client_or_keeps_it() {
    let listener = Listener::bind("127.0.0.1:0").unwrap();
    let [mut shed, mut kept] = [(); 2].map(|()| TcpStream::connect(listener.local_addr()).unwrap());
    let mut reserve = ReserveFd::empty();
    assert!(reserve.acquire());
    let mut files = take_all_descriptors();
    assert!(is_exhausted(&listener));

    let accepts = || matches!(listener.accept(), Ok(Accept::Connection(..)));
    assert_eq!(reserve.with_released(accepts), Some(true));
    assert_eq!(shed.read(&mut [0]).unwrap(), 0, "the server has closed it");
    assert!(reserve.is_held() && is_exhausted(&listener));

    // If the server keeps the connection, it has no reserve any more.
    let outcome = reserve.with_released(|| listener.accept()).unwrap();
    let Ok(Accept::Connection(stream, _)) = outcome else {
        panic!("{outcome:?}");
    };
    assert!(!reserve.is_held() && !reserve.acquire());
    files.pop();
    assert!(reserve.acquire());
    stream.send(b"!").unwrap();
    assert_eq!(kept.read(&mut [0]).unwrap(), 1);
}
