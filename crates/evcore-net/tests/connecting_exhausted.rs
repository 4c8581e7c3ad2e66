//! Connecting in a process that has no descriptor left.
//!
//! The limit applies to the whole process, so this test has a process of its own.

use std::io;

use evcore_net::{Error, Listener, Stream};
use rustix::io::Errno;
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

#[test]
fn connecting_without_a_descriptor_is_an_error_that_passes() {
    let listener = Listener::bind("127.0.0.1:0").unwrap();
    let before = getrlimit(Resource::Nofile);
    let none = Rlimit {
        current: Some(0),
        ..before
    };
    setrlimit(Resource::Nofile, none).unwrap();
    let refused = Stream::connect(listener.local_addr());
    setrlimit(Resource::Nofile, before).unwrap();

    let error = refused.unwrap_err();
    let Error::Connect { call, source, .. } = &error else {
        panic!("{error:?}");
    };
    assert_eq!(*call, "socket");
    assert_eq!(Errno::from_io_error(source), Some(Errno::MFILE));
    assert_eq!(
        io::Error::from(error).kind(),
        io::Error::from(Errno::MFILE).kind()
    );

    assert!(Stream::connect(listener.local_addr()).is_ok());
}
