//! Time spent, as the thread's CPU time: what others take of the machine is not in it.

use rustix::time::{ClockId, clock_gettime};

/// How many rounds there are: peers take turns in each.
pub(crate) const ROUNDS: usize = 5;

/// Nanoseconds that each of `operations` took of this thread's CPU time.
///
/// Costs two system calls, so `work` should last much longer.
pub(crate) fn ns_each(operations: usize, work: impl FnOnce()) -> f64 {
    let start = cpu_ns();
    work();
    #[expect(clippy::cast_precision_loss, reason = "far below 2^52")]
    let each = (cpu_ns() - start) as f64 / operations.max(1) as f64;
    each
}

fn cpu_ns() -> i64 {
    let time = clock_gettime(ClockId::ThreadCPUTime);
    time.tv_sec * 1_000_000_000 + time.tv_nsec
}
