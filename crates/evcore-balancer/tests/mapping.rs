//! Shared memory goes back to the kernel. Alone in its process, so that nobody else maps meanwhile.

#![cfg(target_os = "linux")]

use std::fs;

use evcore_balancer::{AcceptMutex, Board};

/// How many anonymous shared mappings this process has: Linux shows each under this name.
fn shared_mappings() -> usize {
    let maps = fs::read_to_string("/proc/self/maps").unwrap();
    maps.lines()
        .filter(|line| line.ends_with("/dev/zero (deleted)"))
        .count()
}

#[test]
fn dropping_the_last_handle_unmaps() {
    assert_eq!(shared_mappings(), 0);

    let mutex = AcceptMutex::shared().unwrap();
    let board = Board::shared(100).unwrap();
    let line = board.line(7);
    assert_eq!(shared_mappings(), 2);

    drop(board);
    assert_eq!(shared_mappings(), 2, "the line keeps its board");
    drop(line);
    assert_eq!(shared_mappings(), 1);
    drop(mutex);
    assert_eq!(shared_mappings(), 0);
}
