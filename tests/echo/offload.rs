//! The example `offload`, in which a pool of threads reads files and resolves names. The pool may
//! be full.

use std::{
    fs::{self, File, OpenOptions},
    io::{BufRead, BufReader, Write},
    net::TcpStream,
    os::unix::fs::OpenOptionsExt,
    path::{Path, PathBuf},
    process::Command,
};

use evcore_testing::{Scratch, eventually};
use evcore_tests::{Server, example};

use super::connect;

fn start(threads: &str, limit: &str) -> Server {
    let mut command = Command::new(example("evcore", "offload"));
    command.args(["127.0.0.1:0", threads, limit]);
    Server::from_command(command, 1)
}

/// A named pipe. Opening it for reading blocks until it is opened for writing.
fn fifo(scratch: &Scratch) -> PathBuf {
    let path = scratch.file("fifo");
    // The command makes the pipe, because rustix has no `mkfifo`, and `mknodat` only on some
    // systems.
    let made = std::process::Command::new("mkfifo").arg(&path).status();
    assert!(made.expect("mkfifo").success());
    path
}

/// Sends a line that makes a thread wait for the pipe, and returns the writing end when the thread
/// has opened the reading end.
fn block_a_thread(client: &mut TcpStream, fifo: &Path) -> File {
    writeln!(client, "{}", fifo.display()).expect("it reads");
    let mut pipe = None;
    eventually("the server opens the pipe", || {
        let mut options = OpenOptions::new();
        let opened = options
            .write(true)
            .custom_flags(libc::O_NONBLOCK)
            .open(fifo);
        pipe = opened.ok(); // without a reader it fails
        pipe.is_some()
    });
    pipe.expect("it is open")
}

fn answer(client: &TcpStream) -> String {
    let mut line = String::new();
    let read = BufReader::new(client).read_line(&mut line);
    read.expect("it answers");
    line
}

#[test]
fn a_client_waits_for_a_file_while_others_are_answered() {
    let server = start("2", "10");
    let scratch = Scratch::new("offload");
    let file = scratch.file("file");
    fs::write(&file, "a file\n").expect("a file");
    let (mut slow, mut fast) = (connect(server.address()), connect(server.address()));
    let mut pipe = block_a_thread(&mut slow, &fifo(&scratch));
    for _ in 0..3 {
        writeln!(fast, "{}", file.display()).expect("it reads");
        assert_eq!(answer(&fast), "a file\n");
    }
    pipe.write_all(b"at last\n").expect("a reader");
    drop(pipe);
    assert_eq!(answer(&slow), "at last\n");
}

#[test]
fn a_full_pool_answers_busy_while_its_thread_blocks() {
    let server = start("1", "1");
    let scratch = Scratch::new("offload");
    let (mut slow, mut other) = (connect(server.address()), connect(server.address()));
    let mut pipe = block_a_thread(&mut slow, &fifo(&scratch));
    writeln!(other, "127.0.0.1").expect("it reads");
    assert_eq!(answer(&other), "busy\n");
    pipe.write_all(b"at last\n").expect("a reader");
    drop(pipe);
    assert_eq!(answer(&slow), "at last\n");
    writeln!(other, "127.0.0.1").expect("it reads");
    assert_eq!(answer(&other), "127.0.0.1\n");
}

#[test]
fn a_name_is_resolved_and_a_missing_file_is_reported() {
    let server = start("1", "1");
    let mut client = connect(server.address());
    writeln!(client, "localhost").expect("it reads");
    let addresses = answer(&client);
    assert!(
        addresses.contains("127.0.0.1") || addresses.contains("::1"),
        "{addresses}"
    );
    writeln!(client, "/missing/file").expect("it reads");
    assert!(answer(&client).starts_with("failed: "));
}

#[test]
fn a_name_that_does_not_resolve_is_reported() {
    let server = start("1", "1");
    let mut client = connect(server.address());
    // A label of a name has at most 63 bytes, so no name server is asked.
    writeln!(client, "{}", "x".repeat(64)).expect("it reads");
    assert!(answer(&client).starts_with("failed: "));
    writeln!(client, "127.0.0.1").expect("it reads");
    assert_eq!(answer(&client), "127.0.0.1\n");
}
