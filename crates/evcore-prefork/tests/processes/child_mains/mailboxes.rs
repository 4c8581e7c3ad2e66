//! Workers that give their clients to each other.
//!
//! A client sends commands of one line. The answer to each command is the slot and the process id
//! of the client's worker. `who` does nothing else. After `give 1` the worker gives all its clients
//! to slot 1. After `die` the worker kills itself when the next batch arrives.
//!
//! A worker that gets a graceful stop gives its clients to its successor. Clients that the
//! successor does not take stay with the worker until they leave.

use std::{
    env, fs,
    io::{Read, Write},
    net::{TcpListener, TcpStream},
    os::{
        fd::{AsFd, BorrowedFd},
        unix::net::UnixStream,
    },
};

use evcore_handover::{Answer, Connection, Mailbox, Receiver, Sender};
use evcore_prefork::{DO_NOT_RESTART, INHERITED, Stop, Supervisor, Worker, inherited};
use rustix::{
    event::{PollFd, PollFlags, poll},
    process::{Signal, getpid, kill_process},
};

use super::logging;

pub(super) fn run_main(name: &str) -> bool {
    match name {
        "mailboxes" => serve_as_processes(2, 1),
        "mailboxes, then fewer workers" => serve_as_processes(if is_new() { 1 } else { 3 }, 1),
        "mailboxes, then more workers" => serve_as_processes(if is_new() { 4 } else { 2 }, 1),
        "mailboxes, then another version" => serve_as_processes(2, if is_new() { 2 } else { 1 }),
        "mailboxes of threads" => {
            let listener = listener();
            let outcome = logging(2).mailboxes().run_threads(move |worker| {
                Server::new(worker, listener.try_clone().unwrap(), 1).run()
            });
            println!("outcome {:?}", outcome.unwrap());
        }
        "descriptors of mailboxes" => count_descriptors(),
        "mailboxes, then none" => drops_mailboxes_at_upgrade(),
        _ => return false,
    }
    true
}

fn is_new() -> bool {
    env::var_os(INHERITED).is_some()
}

fn listener() -> TcpListener {
    let inherited = inherited().unwrap().into_iter().next();
    let listener = match inherited {
        Some(descriptor) => TcpListener::from(descriptor),
        None => TcpListener::bind("127.0.0.1:0").unwrap(),
    };
    listener.set_nonblocking(true).unwrap();
    println!("listens {}", listener.local_addr().unwrap());
    listener
}

fn serve_as_processes(workers: usize, version: u32) {
    let listener = listener();
    let supervisor = logging(workers).mailboxes().inherit(&listener).unwrap();
    super::run(supervisor, move |worker| {
        Server::new(worker, listener.try_clone().unwrap(), version).run()
    });
}

fn count_descriptors() {
    let open = || fs::read_dir("/proc/self/fd").unwrap().count();
    let before = open();
    super::run(Supervisor::new(3).mailboxes(), |_| {
        println!("more in the worker: {}", open() - before);
        DO_NOT_RESTART
    });
    println!("more afterwards: {}", open() - before);
}

/// A binary with mailboxes and, after the upgrade, one without. The new worker prints the number of
/// inherited mailbox descriptors that are open in its process.
fn drops_mailboxes_at_upgrade() {
    let Some(numbers) = env::var_os("EVCORE_MAILBOXES") else {
        return serve_as_processes(2, 1);
    };
    let numbers = numbers.into_string().unwrap();
    let links = numbers
        .split(',')
        .map(|number| format!("/proc/self/fd/{number}"));
    // A closed number may be reused, so the links are compared. The old binary keeps the mailboxes
    // open, so no other file has the same link.
    let inherited: Vec<_> = links
        .map(|link| (fs::read_link(&link).unwrap(), link))
        .collect();
    super::run(logging(1), move |worker| {
        let is_open = |(file, link): &&(_, _)| fs::read_link(link).is_ok_and(|now| now == *file);
        let open = inherited.iter().filter(is_open).count();
        println!("of {} inherited are open: {open}", inherited.len());
        super::serve(worker)
    });
}

struct Server {
    worker: Worker,
    version: u32,
    wake: UnixStream,
    listener: Option<TcpListener>,
    /// The slot's mailbox, and the mailboxes of predecessors until this worker stops.
    mailboxes: Vec<Mailbox>,
    receivers: Vec<Receiver>,
    senders: Vec<Sender>,
    clients: Vec<TcpStream>,
    dies: bool,
}

impl Server {
    fn new(worker: Worker, listener: TcpListener, version: u32) -> Self {
        let (wake, write) = UnixStream::pair().unwrap();
        write.set_nonblocking(true).unwrap();
        worker.wake_fd(&write).unwrap();
        let ends = worker.mailboxes().unwrap();
        let open =
            |end: BorrowedFd<'_>| Mailbox::from_fd(end.try_clone_to_owned().unwrap(), version);
        let mailboxes = [ends.of_slot()].into_iter().chain(ends.of_predecessors());
        Self {
            mailboxes: mailboxes.map(open).collect(),
            worker,
            version,
            wake,
            listener: Some(listener),
            receivers: Vec::new(),
            senders: Vec::new(),
            clients: Vec::new(),
            dies: false,
        }
    }

    fn run(mut self) -> i32 {
        self.worker.ready();
        println!("ready {} {}", self.worker.index(), self.worker.pid());
        while self.worker.stop() != Some(Stop::Fast) {
            if self.worker.stop().is_some() && self.listener.take().is_some() {
                self.mailboxes.truncate(1);
                self.give(None);
            }
            let is_idle = self.clients.is_empty() && self.senders.is_empty();
            if self.worker.stop().is_some() && is_idle {
                break;
            }
            self.wait();
            self.accept();
            self.take();
            self.read_answers();
            self.answer_clients();
        }
        0
    }

    fn wait(&self) {
        let mut entries = vec![PollFd::new(&self.wake, PollFlags::IN)];
        let mut add = |fd| entries.push(PollFd::from_borrowed_fd(fd, PollFlags::IN));
        self.listener.iter().map(AsFd::as_fd).for_each(&mut add);
        self.mailboxes.iter().map(AsFd::as_fd).for_each(&mut add);
        self.receivers.iter().map(AsFd::as_fd).for_each(&mut add);
        self.senders.iter().map(AsFd::as_fd).for_each(&mut add);
        self.clients.iter().map(AsFd::as_fd).for_each(&mut add);
        let _ = poll(&mut entries, None);
        if !entries[0].revents().is_empty() {
            let _ = (&self.wake).read(&mut [0; 64]);
        }
    }

    fn accept(&mut self) {
        while let Some(Ok((stream, _))) = self.listener.as_ref().map(TcpListener::accept) {
            stream.set_nonblocking(true).unwrap();
            self.clients.push(stream);
        }
    }

    fn take(&mut self) {
        for mailbox in &mut self.mailboxes {
            loop {
                match mailbox.next_receiver() {
                    Ok(Some(receiver)) => self.receivers.push(receiver),
                    Ok(None) => break,
                    Err(error) => println!("refused {error}"),
                }
            }
        }
        let (clients, dies) = (&mut self.clients, self.dies);
        self.receivers.retain_mut(|receiver| {
            loop {
                match receiver.receive() {
                    Ok(Some(_)) if dies => kill_process(getpid(), Signal::KILL).unwrap(),
                    Ok(Some(batch)) => {
                        let connections = batch.accept().unwrap_or_default().into_iter();
                        let streams = connections.map(|one| TcpStream::from(one.descriptor));
                        clients.extend(streams);
                    }
                    Ok(None) => return true,
                    Err(_) => return false,
                }
            }
        });
    }

    fn give(&mut self, slot: Option<usize>) {
        let ends = self.worker.mailboxes().unwrap();
        let end = match slot {
            Some(slot) => ends.to_slot(slot).unwrap(),
            None => {
                let successor = self.worker.successor();
                ends.to_successor(successor.expect("another worker serves"))
            }
        };
        let mut sender = Sender::open(end, self.version).unwrap();
        let clients = self.clients.drain(..);
        let mut connections = clients
            .map(|stream| Connection::new(stream, *b""))
            .collect();
        sender.send(&mut connections).unwrap();
        assert!(
            connections.is_empty(),
            "the clients fit into the sixteen batches that a sender takes"
        );
        self.senders.push(sender);
    }

    fn read_answers(&mut self) {
        for mut sender in std::mem::take(&mut self.senders) {
            let ended = loop {
                match sender.next_answer() {
                    Ok(Some(Answer::Acknowledged { .. })) => {}
                    Ok(Some(answer)) => panic!("{answer:?}"),
                    Ok(None) => break false,
                    Err(error) => {
                        println!("back {error}");
                        break true;
                    }
                }
            };
            if ended {
                let back = sender.take_back().into_iter();
                let streams = back.map(|connection| TcpStream::from(connection.descriptor));
                self.clients.extend(streams);
            } else if sender.unacknowledged() > 0 {
                self.senders.push(sender);
            }
        }
    }

    fn answer_clients(&mut self) {
        let (mut gives_to, mut dies) = (None, false);
        let me = format!("{} {}\n", self.worker.slot(), self.worker.pid());
        self.clients.retain_mut(|client| {
            let mut bytes = [0; 64];
            let length = match client.read(&mut bytes) {
                Ok(0) => return false,
                Ok(length) => length,
                Err(error) => return error.kind() == std::io::ErrorKind::WouldBlock,
            };
            let words = std::str::from_utf8(&bytes[..length]).unwrap();
            match words.split_whitespace().collect::<Vec<_>>()[..] {
                ["who"] => {}
                ["give", slot] => gives_to = Some(slot.parse().unwrap()),
                ["die"] => dies = true,
                ref other => panic!("{other:?}"),
            }
            client.write_all(me.as_bytes()).is_ok()
        });
        self.dies |= dies;
        if gives_to.is_some() {
            self.give(gives_to);
        }
    }
}
