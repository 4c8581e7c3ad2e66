//! The first CPU for servers and the last one for clients, so that neither waits for the other.

use std::sync::OnceLock;

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity};

/// Descriptors that are left for other purposes.
const OTHERS: usize = 100;

/// The first and the last of the CPUs that this thread could use at the first call; the same if
/// there is only one.
pub(crate) fn cpus() -> [usize; 2] {
    static CPUS: OnceLock<[usize; 2]> = OnceLock::new();
    *CPUS.get_or_init(|| {
        let usable = usable();
        [usable[0], usable[usable.len() - 1]]
    })
}

pub(crate) fn usable() -> Vec<usize> {
    let set = sched_getaffinity(None).expect("a process may ask where it may run");
    let cpus = 0..CpuSet::MAX_CPU;
    cpus.filter(|cpu| set.is_set(*cpu)).collect()
}

/// Moves this thread, and the threads and processes that it starts from now on, to the CPU of the
/// clients. Raises the limit on descriptors.
pub(crate) fn become_client() {
    most_descriptors();
    let mut set = CpuSet::new();
    set.set(cpus()[1]);
    // If the kernel refuses this, the figures have more noise.
    let _ = sched_setaffinity(None, &set);
}

/// Raises the limit on descriptors as far as possible, and returns how many sockets a measurement
/// can open.
pub(crate) fn most_descriptors() -> usize {
    let maximum = getrlimit(Resource::Nofile).maximum;
    let current = maximum;
    // If the kernel refuses this, the limit stays as it was.
    let _ = setrlimit(Resource::Nofile, Rlimit { current, maximum });
    let most = getrlimit(Resource::Nofile).current.unwrap_or(u64::MAX);
    usize::try_from(most).map_or(usize::MAX, |most| most.saturating_sub(OTHERS))
}
