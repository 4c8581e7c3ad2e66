//! The reserve in a process that has no descriptor left, for real.
//!
//! The limit belongs to the whole process, so this test is alone in its own.

#![cfg(target_os = "linux")] // the others may check the limit at another moment of accept

use std::{fs::File, io::Read, net::TcpStream};

use evcore_accept::{Accept, Listener, ReserveFd, Resource};
use rustix::process::{self, Rlimit, getrlimit, setrlimit};

/// Takes every descriptor that there is, under a limit that is soon reached.
fn take_all_descriptors() -> Vec<File> {
    let few = Rlimit {
        current: Some(64),
        ..getrlimit(process::Resource::Nofile)
    };
    setrlimit(process::Resource::Nofile, few).unwrap();
    std::iter::from_fn(|| File::open("/dev/null").ok()).collect()
}

fn is_short(listener: &Listener) -> bool {
    let outcome = listener.accept().unwrap();
    matches!(outcome, Accept::Exhausted(Resource::Process))
}

#[test]
fn a_client_is_told_and_the_next_one_kept_instead_of_the_reserve() {
    let listener = Listener::bind("127.0.0.1:0").unwrap();
    let [mut told, mut kept] = [(); 2].map(|()| TcpStream::connect(listener.local_addr()).unwrap());
    let mut reserve = ReserveFd::empty();
    assert!(reserve.acquire());
    let mut files = take_all_descriptors();
    assert!(is_short(&listener));

    let accepts = || matches!(listener.accept(), Ok(Accept::Connection(..)));
    assert_eq!(reserve.with_released(accepts), Some(true));
    assert_eq!(told.read(&mut [0]).unwrap(), 0, "it has been closed");
    assert!(reserve.is_held() && is_short(&listener));

    // Who keeps what the reserve made possible has no reserve.
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
