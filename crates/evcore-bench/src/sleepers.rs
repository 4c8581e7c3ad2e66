//! Sleeping tasks: the memory of each, and the time to wake all of them.

use std::cell::Cell;
use std::rc::Rc;
use std::time::Duration;

use tokio::task::LocalSet;

use crate::memory::heap;
use crate::report::Report;
use crate::run::{Run, cpu_ns, each};

const TASKS: usize = 100_000;

/// The time until the deadline of all tasks. They must all sleep by then.
const WAIT: Duration = Duration::from_secs(3);

pub(crate) fn measure(run: &Run, report: &mut Report) {
    let count = run.scaled(TASKS);
    run.rounds("sleepers", || {
        let mut evcore = evcore_async::Runtime::new().expect("a poller");
        let figures = evcore.block_on(on_evcore(count)).expect("it ends");
        add(report, "evcore-async", figures);
        drop(evcore);
        let tokio = tokio::runtime::Builder::new_current_thread()
            .enable_time()
            .build();
        let figures = LocalSet::new().block_on(&tokio.expect("a poller"), on_tokio(count));
        add(report, "tokio", figures);
    });
}

fn add(report: &mut Report, peer: &str, [bytes, wake_ns]: [f64; 2]) {
    report.add("sleepers", peer, "bytes", bytes);
    report.add("wake", peer, "ns", wake_ns);
}

/// Runs tasks that sleep until the same time. Returns the bytes of each task, and the CPU time in
/// ns that it takes to wake and end it.
macro_rules! sleepers {
    ($count:expr, $now:expr, $spawn:path, $sleep_until:path, $yield_now:path) => {{
        let (asleep, ended) = (Rc::new(Cell::new(0)), Rc::new(Cell::new(0)));
        let deadline = $now + WAIT;
        let before = heap();
        for _ in 0..$count {
            let (asleep, ended) = (Rc::clone(&asleep), Rc::clone(&ended));
            drop($spawn(async move {
                asleep.set(asleep.get() + 1);
                $sleep_until(deadline).await;
                ended.set(ended.get() + 1);
            }));
        }
        while asleep.get() < $count {
            $yield_now().await;
        }
        let bytes = each(heap() - before, $count);
        assert_eq!(ended.get(), 0, "no task has ended before all sleep");
        let began = cpu_ns();
        while ended.get() < $count {
            $sleep_until(deadline).await;
            $yield_now().await;
        }
        [bytes, each(cpu_ns() - began, $count)]
    }};
}

async fn on_evcore(count: usize) -> [f64; 2] {
    use evcore_async::{now, sleep_until, spawn_local, yield_now};
    sleepers!(count, now(), spawn_local, sleep_until, yield_now)
}

async fn on_tokio(count: usize) -> [f64; 2] {
    use tokio::task::{spawn_local, yield_now};
    use tokio::time::{Instant, sleep_until};
    sleepers!(count, Instant::now(), spawn_local, sleep_until, yield_now)
}
