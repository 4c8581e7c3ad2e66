//! A worker that cleans up, after its loop has ended, for longer than the hang timeout. The test is
//! its own `main`, because a server of processes needs a process with one thread.

use std::io::{Read, Write};
use std::os::unix::net::UnixStream;
use std::{env, process::ExitCode, time::Duration};

use evcore_serve::{Event, Server, Worker, prefork::Outcome};
use rustix::process::{Signal, getppid, kill_process};

const INTERVAL: Duration = Duration::from_millis(10);
/// The worker cleans up for this many intervals.
const INTERVALS: usize = 100;
const HANG_TIMEOUT: Duration = Duration::from_millis(500);

fn main() -> ExitCode {
    let arguments: Vec<String> = env::args().skip(1).collect();
    let name = "a_worker_that_cleans_up_after_its_last_turn_does_not_hang";
    let test: fn() = a_worker_that_cleans_up_after_its_last_turn_does_not_hang;
    evcore_testing::run_named_tests([(name, test)], &arguments)
}

fn a_worker_that_cleans_up_after_its_last_turn_does_not_hang() {
    let (mut master, mut worker_end) = UnixStream::pair().unwrap();
    let server = Server::new(1)
        .hang_timeout(HANG_TIMEOUT)
        // The write fails once the worker has ended.
        .on_interval(INTERVAL, move || _ = master.write_all(b"t"))
        .on_event(|event| assert!(!matches!(event, Event::Hung(..)), "{event}"));
    let outcome = server.run(move |mut worker: Worker| {
        kill_process(getppid().unwrap(), Signal::QUIT).unwrap();
        while worker.next_turn()? {
            while worker.next_step().is_some() {}
        }
        worker_end.read_exact(&mut [0; INTERVALS])?;
        Ok::<_, std::io::Error>(())
    });
    assert!(matches!(outcome.unwrap(), Outcome::Stopped(_)));
}
