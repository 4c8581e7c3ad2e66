//! An echo server of four worker processes, which share one listener:
//!
//!     cargo run --release --example prefork_echo -- 127.0.0.1:7007
//!
//! `kill -HUP` replaces the workers. `kill -QUIT` stops them when their clients have gone, or after
//! 30 seconds. Ctrl-C and `kill` stop them at once. The signals are for the first process.

use std::{env, error::Error, io, time::Duration};

use evcore::balancer::{Policy, WorkerGroup, WorkerId};
use evcore::{Connections, EdgeStream, EventLoop, Listener, Step, Timer};
use evcore_prefork::{Supervisor, Worker};

const WORKERS: usize = 4;
const IDLE: Timer = Timer::new(0); // each connection has the timers 0 and 1, for any purpose
const IDLE_TIMEOUT: Duration = Duration::from_secs(60); // then a client that is silent is closed
const STOP_TIMEOUT: Duration = Duration::from_secs(30); // QUIT waits for silent clients: none is marked by `set_idle`

fn main() -> Result<(), Box<dyn Error>> {
    // Opened before the fork: all workers accept from it, and a reload does not close it.
    let listener = Listener::bind(env::args().nth(1).ok_or("listen where?")?)?;
    eprintln!("listening on {}", listener.local_addr());
    // Longer than a worker's own timeout, so it ends only a worker that is stuck.
    let supervisor = Supervisor::new(WORKERS).stop_timeout(STOP_TIMEOUT * 2);
    // Memory that the workers share: a place for each that may live at once, old and new ones. The
    // policy decides which of them listen: here those with the fewest clients (not within one burst).
    let group = WorkerGroup::new(Policy::least_loaded(), supervisor.slots())?;
    let outcome = supervisor
        .on_ready(|worker| eprintln!("{worker} serves"))
        .on_exit(|exit| {
            // A worker that was killed may have held the group's lock.
            group.release_dead(WorkerId::from_slot(exit.worker.slot));
            eprintln!("{exit}");
        })
        .on_reload(|reload| eprintln!("reload: {reload}"))
        // Each worker gets its own duplicate of the listener, and the group that all share.
        .run(|worker| match serve(&worker, listener, &group) {
            Ok(()) => 0,
            Err(error) => {
                eprintln!("worker {}: {error}", worker.index());
                1 // the supervisor starts another worker
            }
        })?;
    eprintln!("stopped: {outcome:?}");
    Ok(())
}

/// A worker: serves until it has to stop. An error means that its loop cannot go on.
fn serve(worker: &Worker, listener: Listener, group: &WorkerGroup) -> Result<(), Box<dyn Error>> {
    let mut clients = Connections::new();
    let mut ev = EventLoop::builder()
        .listener(listener)
        .group(group.join(WorkerId::from_slot(worker.slot())))
        .build()?;
    // A signal wakes the loop, so `stop_within` below is called as soon as its value changes.
    worker.wake_fd(ev.handle())?;
    // During a reload, the old workers stop when all new ones have come this far.
    worker.ready();
    // QUIT closes the listener, and TERM ends this at once, also after QUIT.
    while ev.next_turn(worker.stop_within(STOP_TIMEOUT))? {
        while let Some(step) = ev.next_step() {
            handle(step, &mut ev, &mut clients);
        }
        while let Some(error) = ev.take_listener_error() {
            eprintln!("worker {}: {error}", worker.index()); // it accepts again later
        }
    }
    Ok(())
}

/// The clients of a worker, each with the bytes that are not sent back yet.
type Clients = Connections<(EdgeStream, Vec<u8>)>;

fn handle(step: Step, ev: &mut EventLoop, clients: &mut Clients) {
    let (token, stays) = match step {
        Step::Accepted(new) => {
            let Ok(stream) = EdgeStream::add(ev, new.stream) else {
                return; // it is dropped, which closes it
            };
            let token = stream.token();
            clients.insert(token, (stream, Vec::new()));
            (token, true)
        }
        Step::Ready(token, ready) => {
            let (stream, rest) = clients.get_mut(token).expect("it is open");
            stream.on_ready(ready);
            let failed = echo(stream, rest, ev).err();
            let blocks = |error: io::Error| error.kind() == io::ErrorKind::WouldBlock;
            (token, failed.is_none_or(blocks))
        }
        Step::Expired(token, _) | Step::Evict(token) => (token, false),
        Step::Woken => return, // a signal: the loop above looks
    };
    if stays {
        ev.arm(token, IDLE, IDLE_TIMEOUT);
    } else {
        clients.close(ev, token);
    }
}

/// Sends back what arrives until a call would block. That is an error, and so is the end.
fn echo(stream: &mut EdgeStream, rest: &mut Vec<u8>, ev: &mut EventLoop) -> io::Result<()> {
    let mut buffer = [0; 16 * 1024];
    loop {
        // Backpressure: while the client does not read, nothing is read from it.
        if rest.is_empty() {
            match stream.recv(ev, &mut buffer)? {
                0 => return Err(io::ErrorKind::UnexpectedEof.into()),
                n => rest.extend_from_slice(&buffer[..n]),
            }
        }
        rest.drain(..stream.send(ev, rest)?); // perhaps not all of it
    }
}
