//! The child mains: servers under test, each of which a test starts by its name.

mod blocked_signals;
#[cfg(target_os = "linux")]
mod descriptor_store;
#[cfg(target_os = "linux")]
mod mailboxes;
mod reload;
pub(crate) mod terminal;
mod threads;
mod upgrade;

use std::{
    cell::Cell,
    env,
    io::Read,
    num::NonZeroU32,
    os::unix::net::UnixStream,
    panic::{self, AssertUnwindSafe},
    process::Command,
    thread,
    time::Duration,
};

#[cfg(target_os = "linux")]
use evcore_prefork::{Affinity, Cpus};
use evcore_prefork::{
    CANNOT_START, DO_NOT_RESTART, Error, Stop, Successor, Supervisor, Worker, WorkerInfo,
};
use rustix::process::{Pid, Signal, kill_process, test_kill_process};

use crate::server_process::MAIN_FLAG;

pub(crate) fn run_main(name: &str) {
    terminal::take_if_passed();
    match name {
        "serve" => run(logging(3), serve),
        "finish" => run(logging(1), finish),
        "linger" => run(logging(1), linger),
        "ignores stops" => run(
            logging(1).stop_timeout(Duration::from_millis(50)),
            never_end,
        ),
        "hangs at first" => hangs_at_first(),
        "fail at first" => fail_at_first(),
        "first refuses" => run(logging(2), |worker| match worker.index().get() {
            0 => DO_NOT_RESTART,
            _ => serve(worker),
        }),
        "all refuse" => run(logging(2), |_| DO_NOT_RESTART),
        "first cannot start" => first_cannot_start(),
        "none can start" => run(logging(2), |_| CANNOT_START),
        "signalled at birth" => signalled_at_birth(),
        "requested stop" => run(
            Supervisor::new(2).on_exit(|exit| println!("ended {:?} {exit}", exit.stop)),
            serve,
        ),
        "panicking hook" => panicking_hook(),
        "bystander" => bystander(),
        "exit with 7" => std::process::exit(7),
        "twice" => (0..2).for_each(|_| run(logging(1), serve)),
        "wrong" => wrong(),
        "nested" => run(logging(1), |_| {
            run(Supervisor::new(1), serve);
            DO_NOT_RESTART
        }),
        "solo" => {
            serve(Worker::solo().unwrap());
        }
        "solo signalling itself" => solo_signalling_itself(),
        #[cfg(target_os = "linux")]
        "descriptors" => descriptors(),
        #[cfg(target_os = "linux")]
        "another user" => run(logging(2), |worker| {
            no_forks::be_nobody();
            serve(worker)
        }),
        #[cfg(target_os = "linux")]
        "pinned" => pinned(),
        #[cfg(target_os = "linux")]
        "no first fork" => no_forks::at_first(),
        #[cfg(target_os = "linux")]
        "no fork for a while" => no_forks::for_a_while(),
        #[cfg(target_os = "linux")]
        "no socket pair for a while" => no_socket_pair_for_a_while(),
        #[cfg(target_os = "linux")]
        "no wait" => no_wait(),
        "in the background" => {
            terminal::pass_to_another();
            run(logging(1), finish);
        }
        other => {
            let known = blocked_signals::run_main(other)
                || reload::run_main(other)
                || upgrade::run_main(other)
                || threads::run_main(other);
            #[cfg(target_os = "linux")]
            let known = known || mailboxes::run_main(other) || descriptor_store::run_main(other);
            assert!(known, "no child main is called {other:?}");
        }
    }
}

/// A supervisor that prints a line for each call of a hook.
fn logging<'a>(workers: usize) -> Supervisor<'a> {
    Supervisor::new(workers)
        .on_start(|worker| println!("started {}", name(worker)))
        .on_start_error(|worker, error| println!("not started {} {error}", worker.index))
        .on_ready(|worker| println!("serves {}", name(worker)))
        .on_stuck(|worker| println!("stuck {}", name(worker)))
        .on_exit(|exit| println!("ended {} {}", name(&exit.worker), exit.cause))
        .on_reload(|reload| println!("reload {reload:?}"))
        .on_reopen(|| println!("reopened in the master"))
        .on_upgrade(|upgrade| println!("upgrade {upgrade}"))
}

fn name(worker: &WorkerInfo) -> String {
    match worker.pid {
        Some(pid) => format!("{} {pid}", worker.index),
        None => worker.index.to_string(),
    }
}

fn run(supervisor: Supervisor<'_>, work: impl FnMut(Worker) -> i32) {
    match supervisor.run(work) {
        Ok(outcome) => println!("outcome {outcome:?}"),
        Err(error) => println!("error {error}"),
    }
}

/// Runs a worker that works for longer than the hang timeout, and then a replacement that waits for
/// longer than this timeout.
fn hangs_at_first() {
    let forked = Cell::new(0);
    let supervisor = logging(1)
        .hang_timeout(Duration::from_millis(100))
        .on_hang(|worker, lasted| println!("hangs {} {}", name(worker), lasted.as_millis() >= 100))
        .on_start(|worker| {
            println!("started {}", name(worker));
            forked.set(forked.get() + 1);
        });
    run(supervisor, |worker| {
        let mut turns = Loop::new(worker);
        turns.worker.works();
        while forked.get() == 0 {
            thread::park();
        }
        turns.worker.waits();
        thread::park_timeout(Duration::from_millis(400));
        println!("waited");
        turns.until(Stop::Graceful);
        0
    });
}

struct Loop {
    worker: Worker,
    wake: UnixStream,
}

impl Loop {
    fn new(worker: Worker) -> Self {
        let turns = Self::silent(worker);
        // A process sends only the first of these reports. All of them would fill the pipe to the
        // master.
        (0..1_000).for_each(|_| turns.worker.ready());
        turns
    }

    fn silent(worker: Worker) -> Self {
        let (wake, write) = UnixStream::pair().unwrap();
        write.set_nonblocking(true).unwrap();
        worker.wake_fd(&write).unwrap();
        println!("ready {} {}", worker.index(), worker.pid());
        Self { worker, wake }
    }

    /// Waits for a stop that is at least this hard.
    fn until(&mut self, least: Stop) {
        let (mut bytes, mut reopen_count) = ([0; 8], 0);
        while self.worker.stop() < Some(least) {
            self.wake.read_exact(&mut bytes).unwrap();
            assert_eq!(u64::from_ne_bytes(bytes), 1);
            if self.worker.reopen_count() != reopen_count {
                reopen_count = self.worker.reopen_count();
                println!("reopened {}", self.worker.index());
            }
        }
        let (index, stop) = (self.worker.index(), self.worker.stop());
        let then = match self.worker.successor() {
            Some(Successor::Generation) => " for a newer generation",
            Some(Successor::Binary) => " for another binary",
            Some(Successor::Restart) => " for the next start",
            None => "",
        };
        println!("stops {index} {stop:?}{then}");
    }
}

fn serve(worker: Worker) -> i32 {
    Loop::new(worker).until(Stop::Graceful);
    0
}

/// A worker that finishes after its stop, when it has read a byte.
fn finish(worker: Worker) -> i32 {
    Loop::new(worker).until(Stop::Graceful);
    wait_for_a_byte();
    println!("finished");
    0
}

/// Reads a byte. The buffer of standard input is not used, because it would take the bytes of other
/// workers.
fn wait_for_a_byte() {
    let n = rustix::io::read(std::io::stdin(), &mut [0; 1]).unwrap();
    assert_eq!(n, 1);
}

fn linger(worker: Worker) -> i32 {
    let mut turns = Loop::new(worker);
    turns.until(Stop::Graceful);
    turns.until(Stop::Fast);
    0
}

fn never_end(worker: Worker) -> i32 {
    linger(worker);
    loop {
        thread::park();
    }
}

/// Makes each of the first three workers end as soon as it runs, each in another way.
fn fail_at_first() {
    let forked = Cell::new(0);
    let supervisor = logging(1).on_start(|worker| {
        println!("started {}", name(worker));
        forked.set(forked.get() + 1);
    });
    // A worker process has a copy of the count as it was at the fork.
    run(supervisor, |worker| match forked.get() {
        0 => 0,
        1 => 1,
        2 => {
            panic::set_hook(Box::new(|_| {}));
            panic!("for the test")
        }
        _ => serve(worker),
    });
}

fn first_cannot_start() {
    let forked = Cell::new(0);
    let supervisor = logging(2).on_start(|worker| {
        println!("started {}", name(worker));
        forked.set(forked.get() + 1);
    });
    run(supervisor, |worker| match forked.get() {
        0 => CANNOT_START,
        _ => serve(worker),
    });
}

/// Signals every worker as soon as it has a process id.
fn signalled_at_birth() {
    let quit = |worker: &WorkerInfo| signal(worker.pid.unwrap(), Signal::QUIT);
    let supervisor = Supervisor::new(200).on_start(quit);
    run(supervisor, |worker| {
        serve(worker);
        DO_NOT_RESTART
    });
}

fn panicking_hook() {
    panic::set_hook(Box::new(|_| {}));
    let first = Cell::new(None);
    let supervisor = logging(2).on_start(|worker| {
        assert_eq!(worker.index.get(), 0, "for the test");
        first.set(worker.pid);
    });
    let result = panic::catch_unwind(AssertUnwindSafe(|| run(supervisor, serve)));
    println!("panicked {}", result.is_err());
    let gone = test_kill_process(as_pid(first.get().unwrap())).is_err();
    println!("gone {gone}");
}

/// A child process of the application ends while the supervisor runs.
fn bystander() {
    let mut command = Command::new(env::current_exe().unwrap());
    let mut child = command.args([MAIN_FLAG, "exit with 7"]).spawn().unwrap();
    run(logging(1), serve);
    println!("bystander {}", child.wait().unwrap());
}

/// Prints the number of descriptors that are open in addition to those before the start: in each
/// worker, and after the end.
#[cfg(target_os = "linux")]
fn descriptors() {
    let open = || std::fs::read_dir("/proc/self/fd").unwrap().count();
    let before = open();
    let supervisor = Supervisor::new(3).inherit(std::io::stdout()).unwrap();
    run(supervisor, |_| {
        println!("more in the worker: {}", open() - before);
        DO_NOT_RESTART
    });
    println!("more afterwards: {}", open() - before);
}

#[cfg(target_os = "linux")]
fn pinned() {
    let affinity = Affinity::one_each(&Cpus::allowed().unwrap());
    run(Supervisor::new(3).affinity(affinity), |worker| {
        assert!(worker.affinity_error().is_none());
        println!("on {} {}", worker.index(), Cpus::allowed().unwrap());
        DO_NOT_RESTART
    });
}

/// Lowers the master's limit on descriptors once its worker runs, so that the master's `poll`
/// fails.
#[cfg(target_os = "linux")]
fn no_wait() {
    let supervisor = logging(1).on_start(|worker| {
        println!("started {}", name(worker));
        limit_descriptors(Some(0));
    });
    run(supervisor, finish);
}

/// Prevents new descriptors. This begins when a worker has died, and lasts until a start has
/// failed.
#[cfg(target_os = "linux")]
fn no_socket_pair_for_a_while() {
    use rustix::process::{Resource, getrlimit};

    let old = getrlimit(Resource::Nofile).current;
    let supervisor = logging(1)
        .on_exit(|_| limit_descriptors(Some(0)))
        .on_start_error(|worker, error| {
            println!("not started {} {error}", worker.index);
            limit_descriptors(old);
        });
    run(supervisor, serve);
}

#[cfg(target_os = "linux")]
fn limit_descriptors(current: Option<u64>) {
    use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

    let maximum = getrlimit(Resource::Nofile).maximum;
    setrlimit(Resource::Nofile, Rlimit { current, maximum }).unwrap();
}

fn wrong() {
    run(Supervisor::new(0), serve);
    run(Supervisor::new(10_000), serve);
    for workers in [0, 10_000] {
        threads::run(Supervisor::new(workers), serve);
    }
    threads::run(
        Supervisor::new(1).inherit(std::io::stdout()).unwrap(),
        serve,
    );
    #[cfg(target_os = "linux")]
    threads::run(Supervisor::new(1).descriptor_store(|_| 0), serve);
    let worker = Worker::solo().unwrap();
    assert!(matches!(Worker::solo(), Err(Error::InUse)));
    run(Supervisor::new(1), |_| DO_NOT_RESTART);
    let (_read, write) = UnixStream::pair().unwrap();
    println!("error {}", worker.wake_fd(&write).unwrap_err());
    // This comes last, because `/proc` may still show the thread for a moment after the join. In
    // this moment, another supervisor would be refused.
    let other = thread::spawn(|| run(Supervisor::new(1), |_| DO_NOT_RESTART));
    other.join().unwrap();
}

fn solo_signalling_itself() {
    let worker = Worker::solo().unwrap();
    let me = NonZeroU32::new(std::process::id()).unwrap();
    assert_eq!(worker.stop(), None);
    // A process with a single thread handles a signal to itself before kill returns.
    for (sent, seen) in [
        (Signal::QUIT, Stop::Graceful),
        (Signal::INT, Stop::Fast),
        (Signal::QUIT, Stop::Fast),
    ] {
        signal(me, sent);
        assert_eq!(worker.stop(), Some(seen));
    }
    // `Loop::new` calls `wake_fd` after the signals, so the descriptor is written to at once.
    Loop::new(worker).wake.read_exact(&mut [0; 8]).unwrap();
    println!("woken");
}

fn signal(pid: NonZeroU32, signal: Signal) {
    kill_process(as_pid(pid), signal).unwrap();
}

fn as_pid(pid: NonZeroU32) -> Pid {
    Pid::from_raw(i32::try_from(pid.get()).unwrap()).unwrap()
}

/// A limit on processes, by which the system refuses to fork. It does not apply to root.
#[cfg(target_os = "linux")]
mod no_forks {
    #![allow(unsafe_code, reason = "setuid, which rustix leaves out")]

    use super::{logging, run, serve};
    use rustix::process::{Resource, Rlimit, getrlimit, getuid, setrlimit};

    pub(super) fn at_first() {
        be_nobody();
        limit_processes(Some(0));
        run(logging(1), serve);
    }

    pub(super) fn for_a_while() {
        be_nobody();
        let old = getrlimit(Resource::Nproc).current;
        let supervisor = logging(1)
            .on_exit(|_| limit_processes(Some(0)))
            .on_start_error(|worker, _| {
                println!("not started {}", worker.index);
                limit_processes(old);
            });
        run(supervisor, serve);
    }

    pub(super) fn be_nobody() {
        if getuid().is_root() {
            // SAFETY: setuid takes a number, and the process has no other thread.
            assert_eq!(unsafe { libc::setuid(65534) }, 0);
        }
    }

    fn limit_processes(current: Option<u64>) {
        let maximum = getrlimit(Resource::Nproc).maximum;
        setrlimit(Resource::Nproc, Rlimit { current, maximum }).unwrap();
    }
}
