//! The CPUs: the first one for servers and the last one for clients, so that neither waits for the
//! other.

use std::sync::OnceLock;

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity};

/// Descriptors that are not watched: the standard ones, and the peers' own.
const OTHERS: usize = 100;

/// The first and the last of the CPUs that this thread could use at first. They are the same if
/// there is only one.
pub(crate) fn cpus() -> [usize; 2] {
    static CPUS: OnceLock<[usize; 2]> = OnceLock::new();
    *CPUS.get_or_init(|| {
        let usable = usable();
        [usable[0], usable[usable.len() - 1]]
    })
}

/// The CPUs that this thread may use now: at least one.
pub(crate) fn usable() -> Vec<usize> {
    let set = sched_getaffinity(None).expect("a process may ask where it may run");
    let cpus = 0..CpuSet::MAX_CPU;
    cpus.filter(|cpu| set.is_set(*cpu)).collect()
}

/// Keeps this thread, and whatever it starts from now on, on the CPU of the clients.
pub(crate) fn become_client() {
    most_descriptors();
    let mut set = CpuSet::new();
    set.set(cpus()[1]);
    // If it is refused, the figures have more noise.
    let _ = sched_setaffinity(None, &set);
}

/// Raises the limit on descriptors as far as possible, and returns how many sockets the process can
/// have.
pub(crate) fn most_descriptors() -> usize {
    let maximum = getrlimit(Resource::Nofile).maximum;
    let current = maximum;
    // If it is refused, the limit stays as it was.
    let _ = setrlimit(Resource::Nofile, Rlimit { current, maximum });
    let most = getrlimit(Resource::Nofile).current.unwrap_or(u64::MAX);
    usize::try_from(most).map_or(usize::MAX, |most| most.saturating_sub(OTHERS))
}
