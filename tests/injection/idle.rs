//! Idle processes do not use the processor.

use std::{
    fs,
    process::Command,
    time::{Duration, Instant},
};

use evcore_tests::Server;

use super::wait::wait_for;

const SHARE: f64 = 0.02;

/// The intervals of attempts, in milliseconds. After an attempt in which the server was too busy, a
/// longer one follows, because the server may have had work left.
const INTERVALS_MS: [u32; 3] = [300, 1000, 3000];

/// Asserts that the server does not spin. One connection waits for a timer meanwhile.
pub(super) fn assert_idle(server: &Server) {
    let mut client = server.connect();
    let mut used = 0.0;
    for interval in INTERVALS_MS {
        let mut pids = server.worker_pids();
        pids.push(server.pid());
        let (before, begun) = (cpu_time(&pids), Instant::now());
        assert_eq!(client.get(&format!("/sleep/{interval}")).status, 200);
        let cpu = cpu_time(&pids).saturating_sub(before);
        used = cpu.as_secs_f64() / begun.elapsed().as_secs_f64();
        if used < SHARE {
            return;
        }
    }
    panic!("an idle server uses {used} of a processor");
}

/// Returns the processor time of processes, with all their threads.
fn cpu_time(pids: &[u32]) -> Duration {
    let threads = pids.iter().flat_map(|pid| {
        let tasks = fs::read_dir(format!("/proc/{pid}/task")).expect("no process ends here");
        tasks.filter_map(|task| fs::read_to_string(task.ok()?.path().join("schedstat")).ok())
    });
    let times = threads.map(|stat| {
        let time = stat.split_whitespace().next();
        time.and_then(|ns| ns.parse::<u64>().ok())
            .expect("nanoseconds")
    });
    Duration::from_nanos(times.sum())
}

#[test]
fn a_process_that_spins_uses_time() {
    let mut spin = Command::new("sh");
    let mut spin = spin.args(["-c", "while :; do :; done"]).spawn().unwrap();
    let used = || cpu_time(&[spin.id()]) > Duration::from_millis(20);
    wait_for("its time is counted", used);
    spin.kill().unwrap();
    spin.wait().unwrap();
}
