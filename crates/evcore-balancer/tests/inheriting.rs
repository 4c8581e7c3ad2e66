//! A new program inherits lock and board by a descriptor: this program, run again, is the new one.

#![cfg(any(target_os = "linux", target_os = "android", target_os = "freebsd"))]

use std::{
    fs::File,
    io::{ErrorKind, Read, Seek},
    os::{
        fd::{AsFd, OwnedFd},
        unix::{fs::FileExt, net::UnixStream},
    },
    process::{Command, Stdio},
};

use evcore_balancer::{AcceptMutex, Board, Snapshot, this_process};
use rustix::{
    fs::{MemfdFlags, SealFlags, fcntl_add_seals, memfd_create},
    io::{FdFlags, fcntl_getfd, fcntl_setfd},
};

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

/// A copy of an inheritable board as its maker has left it, but for what `change` does before its
/// size is sealed.
fn copy_of_a_board(change: impl FnOnce(&File)) -> File {
    let board = Board::inheritable(1).unwrap();
    let mut original = File::from(board.file().unwrap().try_clone_to_owned().unwrap());
    let mut bytes = Vec::new();
    original.rewind().unwrap();
    original.read_to_end(&mut bytes).unwrap();
    let copy = memfd_create("copy", MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING).unwrap();
    let copy = File::from(copy);
    copy.write_all_at(&bytes, 0).unwrap();
    change(&copy);
    copy
}

fn sealed(copy: File) -> File {
    fcntl_add_seals(&copy, SealFlags::SHRINK).unwrap();
    copy
}

/// What a refusal says: what it is about, why, and what to do.
fn assert_unfit<T: std::fmt::Debug>(what: &str, inherited: std::io::Result<T>, why: &str) {
    let error = inherited.expect_err(why);
    assert_eq!(error.kind(), ErrorKind::InvalidData, "{error}");
    let said = error.to_string();
    let expected = format!("cannot inherit the {what}: it");
    assert!(said.starts_with(&expected), "{said}");
    assert!(said.contains(why), "{why:?} is not in {said:?}");
    assert!(said.ends_with("; make a new one"), "{said}");
}

#[test]
fn a_copy_of_a_board_is_as_good_as_the_original() {
    // So what the tests below refuse is refused for what they change.
    let copy = sealed(copy_of_a_board(|_| {}));
    assert_eq!(Board::inherit(copy.into()).unwrap().workers(), 1);
}

#[test]
fn what_was_inherited_is_closed_by_the_next_exec() {
    let copy = OwnedFd::from(sealed(copy_of_a_board(|_| {})));
    // As it comes through an exec.
    fcntl_setfd(&copy, FdFlags::empty()).unwrap();
    let board = Board::inherit(copy).unwrap();
    let flags = fcntl_getfd(board.file().unwrap()).unwrap();
    assert!(flags.contains(FdFlags::CLOEXEC));
}

#[test]
fn a_board_of_another_size_or_version_is_refused_with_the_reason() {
    type Change = fn(&File);
    let changes: [(Change, &str); 6] = [
        (|copy| copy.set_len(0).unwrap(), "has 0 bytes, too few"),
        (|copy| copy.set_len(63).unwrap(), "has 63 bytes, too few"),
        (|copy| copy.set_len(127).unwrap(), "has 127 bytes, which"),
        (|copy| copy.set_len(8192).unwrap(), "has 8192 bytes, which"),
        // The number behind the magic is the version's; the one behind the kind is an item's size.
        (|copy| copy.write_all_at(&[9], 8).unwrap(), "of version 9"),
        (
            |copy| copy.write_all_at(&[32], 16).unwrap(),
            "have 32 bytes",
        ),
    ];
    for (change, why) in changes {
        let changed = sealed(copy_of_a_board(change));
        assert_unfit("board", Board::inherit(changed.into()), why);
    }
}

#[test]
fn a_lock_is_no_board_and_a_board_no_lock() {
    let lock = AcceptMutex::inheritable().unwrap();
    let lock = lock.file().unwrap().try_clone_to_owned().unwrap();
    assert_unfit("board", Board::inherit(lock), "it holds the accept lock");
    let board = Board::inheritable(1).unwrap();
    let board = board.file().unwrap().try_clone_to_owned().unwrap();
    let why = "it holds the board";
    assert_unfit("accept lock", AcceptMutex::inherit(board), why);
}

#[test]
fn what_is_no_file_in_memory_is_named() {
    let (pipe, _write) = rustix::pipe::pipe().unwrap();
    let (socket, _peer) = UnixStream::pair().unwrap();
    let this = File::open(std::env::current_exe().unwrap()).unwrap();
    let null = File::options().read(true).write(true).open("/dev/null");
    for (file, why) in [
        (pipe, "is a pipe, and no file in memory"),
        (socket.into(), "is a socket"),
        (File::open("/").unwrap().into(), "is a directory"),
        (null.unwrap().into(), "is a device"),
        (this.into(), "is not open for reading and writing"),
    ] {
        let twin = file.try_clone().unwrap();
        assert_unfit("accept lock", AcceptMutex::inherit(file), why);
        assert_unfit("board", Board::inherit(twin), why);
    }
}

#[cfg(target_os = "linux")]
#[test]
fn a_board_that_may_only_be_read_is_refused() {
    let board = Board::inheritable(1).unwrap();
    let number = std::os::fd::AsRawFd::as_raw_fd(&board.file().unwrap());
    let read_only = File::open(format!("/proc/self/fd/{number}")).unwrap();
    let why = "is not open for reading and writing";
    assert_unfit("board", Board::inherit(read_only.into()), why);
}

#[test]
fn a_board_that_others_could_shrink_is_refused() {
    let unsealed = copy_of_a_board(|_| {});
    let why = "could still be shrunk by another process";
    assert_unfit("board", Board::inherit(unsealed.into()), why);

    // On disk, where there are no seals.
    let path = std::env::temp_dir().join(format!("evcore-on-disk-{}", std::process::id()));
    let mut options = File::options();
    options.read(true).write(true).create_new(true);
    let on_disk = options.open(&path).unwrap();
    std::fs::remove_file(&path).unwrap();
    assert_unfit("board", Board::inherit(on_disk.into()), why);
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
