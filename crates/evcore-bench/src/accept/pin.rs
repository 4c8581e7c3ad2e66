//! Servers on the first CPU, clients on the last: so neither waits for the other's.

use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity};

/// Keeps this thread, which has the clients, on the last of its CPUs, and returns the first, which
/// is for the servers. The same one if there is no other.
pub(super) fn part() -> usize {
    let usable = usable();
    let (first, last) = (usable[0], usable[usable.len() - 1]);
    to(last);
    first
}

/// Keeps this thread, and whatever it starts from now on, on one CPU.
pub(super) fn to(cpu: usize) {
    let mut set = CpuSet::new();
    set.set(cpu);
    // Where it is refused, the figures have more noise; nothing else.
    let _ = sched_setaffinity(None, &set);
}

/// The CPUs that this process may use, ascending; one at least.
fn usable() -> Vec<usize> {
    let set = sched_getaffinity(None).expect("a process may ask where it may run");
    (0..CpuSet::MAX_CPU)
        .filter(|cpu| set.is_set(*cpu))
        .collect()
}
