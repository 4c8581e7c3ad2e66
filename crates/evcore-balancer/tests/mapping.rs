//! Tests that shared memory is unmapped. This test has a process of its own, so that no other test
//! maps memory meanwhile.

#![cfg(target_os = "linux")]

use std::fs;

use evcore_balancer::{AcceptMutex, Policy, Scoreboard, WorkerGroup, WorkerId};

/// The number of anonymous shared mappings of this process. Linux lists each one as `/dev/zero
/// (deleted)`.
fn shared_mappings() -> usize {
    let maps = fs::read_to_string("/proc/self/maps").unwrap();
    maps.lines()
        .filter(|line| line.ends_with("/dev/zero (deleted)"))
        .count()
}

#[test]
fn dropping_the_last_handle_unmaps() {
    assert_eq!(shared_mappings(), 0);

    let mutex = AcceptMutex::new().unwrap();
    let handle = mutex.lock_handle(WorkerId::from_slot(7));
    drop(mutex);
    assert_eq!(shared_mappings(), 1, "the handle keeps the lock");
    drop(handle);
    assert_eq!(shared_mappings(), 0);

    let scoreboard = Scoreboard::<3>::new(100, 0).unwrap();
    assert_eq!(shared_mappings(), 1);
    let group = WorkerGroup::new(Policy::least_loaded(), 100).unwrap();
    let group = group.with_scoreboard(&scoreboard);
    let member = group.join(WorkerId::from_slot(7));
    let all = shared_mappings();
    drop((group, scoreboard));
    assert_eq!(shared_mappings(), all, "the member keeps its group");
    drop(member);
    assert_eq!(shared_mappings(), 0);
}
