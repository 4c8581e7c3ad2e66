//! One worker: its loop over epoll, which follows the plans of the balancer.

use std::io::{self, ErrorKind, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::time::{Duration, Instant};
use std::{collections::HashMap, mem, os::fd::OwnedFd};

use evcore_balancer::{Balancer, Inputs, Leadership, Load, Member};
use rustix::event::epoll::{self, CreateFlags, EventData, EventFlags};
use rustix::{buffer::spare_capacity, event::Timespec};

const LISTENER: u64 = 0;
const NOTIFIER: u64 = 1;
const PAUSE: Duration = Duration::from_millis(500);

/// A connection, and the bytes that it has received and not sent back yet.
type Connection = (TcpStream, Vec<u8>);

/// Serves until the system refuses something without which this worker cannot go on.
pub(crate) fn work(
    listener: &TcpListener,
    member: &Member,
    mut balancer: Balancer,
) -> io::Result<()> {
    let epoll = epoll::create(CreateFlags::CLOEXEC)?;
    if let Some(fd) = member.notify_fd() {
        epoll::add(&epoll, fd, EventData::new_u64(NOTIFIER), EventFlags::IN)?;
    }
    let mut connections = HashMap::<u64, Connection>::new();
    let (mut last_id, mut is_registered, mut events) = (NOTIFIER, false, Vec::with_capacity(256));
    let (started, mut resumes_at) = (Instant::now(), Duration::ZERO);
    let (mut accepted, mut may_have_left_clients) = (0, false);
    loop {
        let now = started.elapsed();
        let active = u32::try_from(connections.len()).unwrap_or(u32::MAX);
        let capacity = if now < resumes_at { 0 } else { 1024 };
        let load = Load { active, capacity };
        let inputs = Inputs {
            now,
            load,
            accepted: mem::take(&mut accepted),
            may_have_left_clients: mem::take(&mut may_have_left_clients),
            notified: member.is_notified(),
            exclusive: true, // by EPOLLEXCLUSIVE
            in_group: true,
        };
        let plan = balancer.plan(&inputs, || member.try_lock(), || member.sync(load));

        // Follow the plan, in this order.
        if plan.leadership == Leadership::Release {
            member.step_down();
        }
        if is_registered && (!plan.listening || plan.register_again) {
            epoll::delete(&epoll, listener)?;
            is_registered = false;
        }
        if plan.listening && !is_registered {
            let mut flags = EventFlags::IN;
            flags.set(EventFlags::EXCLUSIVE, plan.exclusive);
            let data = EventData::new_u64(LISTENER);
            if let Err(error) = epoll::add(&epoll, listener, data, flags) {
                eprintln!("{} pauses: {error}", member.id());
                (resumes_at, may_have_left_clients) = (now + PAUSE, true);
                member.unlock();
                continue; // the next plan steps down and notifies another worker
            }
            is_registered = true;
        }
        if plan.leadership == Leadership::Acquire {
            member.lead();
        }
        if let Some(peer) = plan.notify {
            member.notify(peer);
        }

        let pause = resumes_at.checked_sub(now).filter(|left| !left.is_zero());
        let wait = plan.wait_at_most.into_iter().chain(pause).min();
        let wait = wait.and_then(|wait| Timespec::try_from(wait).ok());
        events.clear();
        match epoll::wait(&epoll, spare_capacity(&mut events), wait.as_ref()) {
            Err(error) if error.kind() == ErrorKind::Interrupted => {}
            waited => drop(waited?),
        }
        let ids: Vec<u64> = events.iter().map(|event| event.data.u64()).collect();

        // Accept first, and release the lock before any handler runs.
        if ids.contains(&LISTENER) {
            may_have_left_clients = true;
            for _ in 0..plan.accepts_at_most.unwrap_or(64) {
                match listener.accept() {
                    Ok((stream, _)) => {
                        (accepted, last_id) = (accepted + 1, last_id + 1);
                        let connection = (stream, Vec::new());
                        if register(&epoll, last_id, &connection).is_ok() {
                            connections.insert(last_id, connection);
                        }
                    }
                    Err(error) if error.kind() == ErrorKind::ConnectionAborted => {}
                    Err(error) if error.kind() == ErrorKind::WouldBlock => {
                        may_have_left_clients = false;
                        break;
                    }
                    Err(error) => {
                        eprintln!("{} pauses: {error}", member.id()); // out of descriptors, perhaps
                        resumes_at = started.elapsed() + PAUSE;
                        break;
                    }
                }
            }
        }
        member.unlock();
        for id in ids {
            if id == NOTIFIER {
                member.clear_notifier();
            } else if let Some(connection) = connections.get_mut(&id) {
                let echoed = echo(&epoll, id, connection);
                if echoed.is_err_and(|error| error.kind() != ErrorKind::WouldBlock) {
                    connections.remove(&id); // epoll forgets a descriptor that is closed
                }
            }
        }
    }
}

const EDGES: EventFlags = EventFlags::ET.union(EventFlags::IN).union(EventFlags::OUT);

fn register(epoll: &OwnedFd, id: u64, (stream, _): &Connection) -> io::Result<()> {
    stream.set_nonblocking(true)?;
    Ok(epoll::add(epoll, stream, EventData::new_u64(id), EDGES)?)
}

/// Echoes until a call would block. After 16 calls other clients have their turn: epoll reports an
/// edge once, and `modify` makes it report what is still ready.
fn echo(epoll: &OwnedFd, id: u64, (stream, unsent): &mut Connection) -> io::Result<()> {
    let mut buffer = [0; 4096];
    for _ in 0..16 {
        while !unsent.is_empty() {
            unsent.drain(..stream.write(unsent)?); // perhaps not all of them
        }
        match stream.read(&mut buffer)? {
            0 => return Err(ErrorKind::UnexpectedEof.into()),
            n => unsent.extend_from_slice(&buffer[..n]),
        }
    }
    Ok(epoll::modify(epoll, stream, EventData::new_u64(id), EDGES)?)
}
