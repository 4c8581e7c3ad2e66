//! An echo server with a loop of its own, over epoll. Four threads share a listener, and the one
//! that has the accept lock listens.
//!
//! Run it with `cargo run -p evcore-balancer --example foreign_loop -- 127.0.0.1:0`.
#![cfg_attr(
    not(target_os = "linux"),
    allow(unused, reason = "without epoll, `serve` returns an error")
)]
use evcore_balancer::{Coordinator, Load, Member, Notifier, Policy, WorkerGroup, WorkerId};
use std::io::{self, ErrorKind, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::time::{Duration, Instant};
use std::{collections::HashMap, env, error::Error, thread};

const CAPACITY: u32 = 1024; // connections of each worker
const PAUSE: Duration = Duration::from_millis(500); // after a failed accept; also the longest wait

fn main() -> Result<(), Box<dyn Error>> {
    let listener = TcpListener::bind(env::args().nth(1).ok_or("usage: foreign_loop ADDRESS")?)?;
    listener.set_nonblocking(true)?;
    eprintln!("listening on {}", listener.local_addr()?);
    let group = WorkerGroup::new(Policy::mutex(), 4)?;
    thread::scope(|scope| {
        for id in (0..group.workers()).map(WorkerId::from_slot) {
            let (listener, group) = (&listener, &group);
            // A thread that ends or panics drops its membership, which frees the lock. If workers
            // are processes, the parent calls `group.release_dead(id)` for a dead one.
            scope.spawn(move || eprintln!("{id}: {:?}", serve(listener, group.join(id))));
        }
    });
    Ok(())
}

#[cfg(not(target_os = "linux"))]
fn serve(_: &TcpListener, _: Member) -> io::Result<()> {
    Err(ErrorKind::Unsupported.into())
}

/// Serves as a worker, until the system refuses a call that the worker needs.
#[cfg(target_os = "linux")]
fn serve(listener: &TcpListener, member: Member) -> io::Result<()> {
    use rustix::event::epoll::{self, CreateFlags, EventData, EventFlags as Flags};
    use rustix::{buffer::spare_capacity, event::Timespec, io::retry_on_intr};
    const LISTENER: EventData = EventData::new_u64(0);
    const NOTIFIER: EventData = EventData::new_u64(1); // higher numbers are connections

    let (nothing, read, write) = (Flags::empty(), Flags::IN, Flags::OUT);
    let epoll = epoll::create(CreateFlags::CLOEXEC)?;
    let id = member.id();
    let mut worker = Coordinator::new(None, Some(Box::new(member))).expect("it has a group");
    if let Some(Notifier::Descriptor(notifier)) = worker.notifier() {
        epoll::add(&epoll, notifier, NOTIFIER, read)?;
    }
    epoll::add(&epoll, listener, LISTENER, nothing)?;
    let accept = |key| {
        let (stream, _) = listener.accept()?;
        stream.set_nonblocking(true)?;
        epoll::add(&epoll, &stream, EventData::new_u64(key), read)?;
        io::Result::Ok((stream, Vec::new()))
    };
    let mut connections = HashMap::new();
    let (mut last_key, mut events) = (NOTIFIER.u64(), Vec::with_capacity(256));
    let (started, mut resumes_at) = (Instant::now(), Duration::ZERO);
    loop {
        let now = started.elapsed();
        let active = u32::try_from(connections.len()).unwrap_or(CAPACITY);
        let capacity = if now < resumes_at { 0 } else { CAPACITY };
        let now_ms = now.as_millis().try_into().unwrap_or(u64::MAX);
        let plan = worker.plan(now_ms, Load { active, capacity });
        // With `LeastLoaded`, a loop must follow all steps in the documentation of `Plan`, and set
        // `exclusive(true)` if it uses EPOLLEXCLUSIVE.
        let interest = if plan.listening { read } else { nothing };
        epoll::modify(&epoll, listener, LISTENER, interest)?;
        worker.publish(&plan);

        let wait = Timespec::try_from(plan.wait_at_most.unwrap_or(PAUSE).min(PAUSE)).ok();
        events.clear();
        retry_on_intr(|| epoll::wait(&epoll, spare_capacity(&mut events), wait.as_ref()))?;
        let ready: Vec<u64> = events.iter().map(|event| event.data.u64()).collect();

        // Accept first, and release the lock before any client is served.
        let mut clients_wait = ready.contains(&LISTENER.u64());
        for _ in 0..plan.accepts_at_most.unwrap_or(64) {
            match clients_wait.then(|| accept(last_key + 1)) {
                Some(Ok(connection)) => {
                    worker.on_accepted();
                    last_key += 1;
                    connections.insert(last_key, connection);
                }
                Some(Err(error)) if error.kind() == ErrorKind::ConnectionAborted => {}
                Some(Err(error)) if error.kind() == ErrorKind::WouldBlock => clients_wait = false,
                Some(Err(error)) => {
                    eprintln!("{id} pauses: {error}"); // perhaps out of descriptors
                    resumes_at = now + PAUSE;
                    break;
                }
                None => break,
            }
        }
        if clients_wait {
            worker.on_clients_left();
        }
        worker.release_lock();

        for key in ready {
            if key == NOTIFIER.u64() {
                worker.on_notified(false);
            } else if let Some((stream, unsent)) = connections.get_mut(&key) {
                let error = echo(stream, unsent).err();
                let interest = if unsent.is_empty() { read } else { write };
                epoll::modify(&epoll, &*stream, EventData::new_u64(key), interest)?;
                if error.is_some_and(|error| error.kind() != ErrorKind::WouldBlock) {
                    connections.remove(&key); // closed, and so no longer watched
                }
            }
        }
    }
}

/// Reads if nothing is unsent, and sends the bytes that the client takes.
fn echo(stream: &mut TcpStream, unsent: &mut Vec<u8>) -> io::Result<()> {
    if unsent.is_empty() {
        let mut buffer = [0; 16 * 1024];
        match stream.read(&mut buffer)? {
            0 => return Err(ErrorKind::UnexpectedEof.into()),
            n => unsent.extend_from_slice(&buffer[..n]),
        }
    }
    unsent.drain(..stream.write(unsent)?); // perhaps only a part
    Ok(())
}
