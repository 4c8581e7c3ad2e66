//! A new program inherits lock and board by a descriptor: this program, run again, is the new one.

#![cfg(any(target_os = "linux", target_os = "android", target_os = "freebsd"))]

use std::{
    fs::File,
    io::{ErrorKind, Write},
    os::fd::{AsFd, OwnedFd},
    process::{Command, Stdio},
};

use evcore_balancer::{AcceptMutex, Board, Snapshot, this_process};

/// Tells the new program what it is to do.
const ROLE: &str = "EVCORE_INHERITING_ROLE";

/// Runs one test of this program again, with `file` as its standard input.
fn run_again(test: &str, file: OwnedFd) {
    let this = std::env::current_exe().expect("this program has a path");
    let status = Command::new(this)
        .args(["--exact", test])
        .env(ROLE, "new")
        .stdin(Stdio::from(file))
        .stdout(Stdio::null())
        .status()
        .expect("it starts");
    assert!(status.success(), "{test}: {status}");
}

fn is_new() -> bool {
    std::env::var_os(ROLE).is_some()
}

fn inherited() -> OwnedFd {
    let stdin = std::io::stdin();
    stdin.as_fd().try_clone_to_owned().expect("it is open")
}

#[test]
fn old_and_new_programs_exclude_each_other() {
    if is_new() {
        let mutex = AcceptMutex::inherit(inherited()).expect("it is a lock");
        let parent = mutex.owner().expect("it is the old program's");
        assert!(!mutex.try_lock(this_process()));
        assert!(mutex.force_unlock(parent));
        assert!(mutex.try_lock(this_process()));
        return;
    }
    let mutex = AcceptMutex::inheritable().unwrap();
    assert!(mutex.try_lock(this_process()));
    let file = mutex.file().unwrap().try_clone_to_owned().unwrap();
    run_again("old_and_new_programs_exclude_each_other", file);
    let owner = mutex.owner().expect("the new program had it when it ended");
    assert_ne!(owner, this_process());
}

#[test]
fn a_boards_counters_go_on() {
    let ten = Snapshot {
        accepted: 10,
        ..Snapshot::default()
    };
    if is_new() {
        let board = Board::inherit(inherited()).expect("it is a board");
        assert_eq!(board.snapshot(1), ten);
        board.line(2).publish(&ten);
        return;
    }
    let board = Board::inheritable(3).unwrap();
    board.line(1).publish(&ten);
    let file = board.file().unwrap().try_clone_to_owned().unwrap();
    run_again("a_boards_counters_go_on", file);
    assert_eq!(board.sum().accepted, 20);
}

#[test]
fn what_is_not_for_exec_has_no_file() {
    assert!(AcceptMutex::shared().unwrap().file().is_none());
    assert!(AcceptMutex::local().file().is_none());
    assert!(Board::shared(1).unwrap().file().is_none());
}

#[test]
fn what_is_something_else_is_refused_with_the_reason() {
    let board = Board::inheritable(1).unwrap();
    let board = || board.file().unwrap().try_clone_to_owned().unwrap();
    let error = AcceptMutex::inherit(board()).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::InvalidData);
    assert!(error.to_string().contains("something else"), "{error}");

    let null = OwnedFd::from(File::open("/dev/null").unwrap());
    let error = Board::inherit(null).unwrap_err();
    assert!(
        error.to_string().contains("too few for a header"),
        "{error}"
    );

    // Another version: the number behind the magic.
    File::from(board()).write_all(b"evcore\0\x01\x09").unwrap();
    let error = Board::inherit(board()).unwrap_err();
    assert!(error.to_string().contains("of version 9"), "{error}");
}

#[test]
fn nobody_can_take_the_memory_away_by_shrinking_its_file() {
    let board = Board::inheritable(1).unwrap();
    let file = File::from(board.file().unwrap().try_clone_to_owned().unwrap());
    assert_eq!(
        file.set_len(0).unwrap_err().kind(),
        ErrorKind::PermissionDenied
    );
}
