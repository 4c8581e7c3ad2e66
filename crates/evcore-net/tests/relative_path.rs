//! A Unix listener at a relative path, in a server that changes its directory.
//!
//! The working directory applies to the whole process, so this test has a process of its own.

use std::{env, fs, os::unix::net::UnixStream, path::Path};

use evcore_net::{Address, Listener};
use evcore_testing::Scratch;

#[test]
fn a_relative_path_works_in_a_deep_directory_and_after_leaving() {
    let scratch = Scratch::new("relative");
    let deep = scratch.file(&"d".repeat(100)).join("d".repeat(100));
    fs::create_dir_all(&deep).unwrap();
    env::set_current_dir(&deep).unwrap();
    let path = Path::new("a.sock");
    let listen = || Listener::bind(Address::Unix(path.into()));

    drop(listen().unwrap());
    let listener = listen().expect("the stale socket is replaced");
    assert_eq!(listener.local_addr().to_string(), "unix:a.sock");
    assert!(listen().is_err(), "a server listens at the path");
    UnixStream::connect(path).unwrap();

    env::set_current_dir("/").unwrap();
    let file = listener.file().unwrap();
    assert!(file.path().is_absolute());
    assert!(file.remove().unwrap());
    assert!(!deep.join(path).exists());
}
