//! Workers with descriptor stores, which keep the idle connections of a worker that dies.
//!
//! A client sends commands of one line. The answer to each command is the process id of the
//! client's worker. `who` does nothing else. After `hold` the connection is busy until the next
//! command. `return` makes the worker return. `exit` makes it end without returning.

use std::{
    io::{Read, Write},
    net::{TcpListener, TcpStream},
    os::{
        fd::{AsFd, AsRawFd, BorrowedFd},
        unix::net::UnixStream,
    },
    process,
    sync::atomic::Ordering::Release,
};

use evcore_handover::{Answer, Connection, Mailbox, Receiver, Sender};
use evcore_prefork::{Kept, Stop, Worker};
use rustix::event::{PollFd, PollFlags, Timespec, poll};

use super::logging;

pub(super) fn run_main(name: &str) -> bool {
    match name {
        "descriptor store" => serve(2),
        "one descriptor store" => serve(1),
        _ => return false,
    }
    true
}

fn serve(workers: usize) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    listener.set_nonblocking(true).unwrap();
    println!("listens {}", listener.local_addr().unwrap());
    let captured = OfTheMaster(process::id());
    let supervisor = logging(workers)
        .descriptor_store(move |kept| {
            let _ = &captured;
            hand_on(kept)
        })
        .on_kept(|worker, counts| println!("kept {} {counts}", super::name(worker)));
    super::run(supervisor, move |worker| {
        let listener = listener.try_clone().unwrap();
        Server::new(worker, listener).run()
    });
}

/// A value of the master, whose process id it has. A store must not drop its copy: if this were a
/// descriptor, its number could be that of another one by then.
struct OfTheMaster(u32);

impl Drop for OfTheMaster {
    fn drop(&mut self) {
        assert_eq!(
            process::id(),
            self.0,
            "it was dropped outside of the master"
        );
    }
}

/// Sends the connections to the successor, and if it dies, to the next one. Gives up after 20
/// seconds without an answer.
fn hand_on(kept: Kept) -> usize {
    let successor = kept.to_successor().try_clone_to_owned().unwrap();
    let idle = kept.descriptors.into_iter();
    let mut idle: Vec<_> = idle.map(|fd| Connection::new(fd, *b"")).collect();
    let count = idle.len();
    let patience = Timespec {
        tv_sec: 20,
        tv_nsec: 0,
    };
    while !idle.is_empty() {
        // This fails if the master, which holds the receiving end, has ended.
        let Ok(mut sender) = Sender::open(&successor, 1) else {
            return 0;
        };
        while !idle.is_empty() || sender.unacknowledged() > 0 {
            let _ = sender.send(&mut idle);
            let mut entry = [PollFd::new(&sender, PollFlags::IN)];
            if poll(&mut entry, Some(&patience)) == Ok(0) {
                return 0;
            }
            if read_answers(&mut sender).is_err() {
                break;
            }
        }
        idle.extend(sender.take_back());
    }
    count
}

fn read_answers(sender: &mut Sender) -> evcore_handover::Result<()> {
    while let Some(answer) = sender.next_answer()? {
        assert!(matches!(answer, Answer::Acknowledged { .. }), "{answer:?}");
    }
    Ok(())
}

struct Server {
    worker: Worker,
    wake: UnixStream,
    listener: TcpListener,
    mailboxes: Vec<Mailbox>,
    receivers: Vec<Receiver>,
    clients: Vec<TcpStream>,
}

impl Server {
    fn new(worker: Worker, listener: TcpListener) -> Self {
        let (wake, write) = UnixStream::pair().unwrap();
        write.set_nonblocking(true).unwrap();
        worker.wake_fd(&write).unwrap();
        assert!(worker.descriptor_store_error().is_none());
        let open = |end: BorrowedFd<'_>| Mailbox::from_fd(end.try_clone_to_owned().unwrap(), 1);
        let mailboxes = worker.mailboxes().unwrap().of_predecessors().map(open);
        Self {
            mailboxes: mailboxes.collect(),
            worker,
            wake,
            listener,
            receivers: Vec::new(),
            clients: Vec::new(),
        }
    }

    fn mark(&self, client: &TcpStream, is_idle: bool) {
        let number = usize::try_from(client.as_raw_fd()).unwrap();
        self.worker.idle_marks().unwrap()[number].store(if is_idle { 1 } else { 2 }, Release);
    }

    fn run(mut self) -> i32 {
        self.worker.ready();
        println!("ready {} {}", self.worker.index(), self.worker.pid());
        while self.worker.stop() != Some(Stop::Fast) {
            if self.worker.stop().is_some() {
                // This server hands no clients over at a stop, so they end with the worker.
                return 0;
            }
            self.wait();
            while let Ok((client, _)) = self.listener.accept() {
                client.set_nonblocking(true).unwrap();
                self.clients.push(client);
            }
            self.take();
            if self.answer_clients() {
                return 0;
            }
        }
        0
    }

    fn wait(&self) {
        let mut entries = vec![PollFd::new(&self.wake, PollFlags::IN)];
        let mut add = |fd| entries.push(PollFd::from_borrowed_fd(fd, PollFlags::IN));
        add(self.listener.as_fd());
        self.mailboxes.iter().map(AsFd::as_fd).for_each(&mut add);
        self.receivers.iter().map(AsFd::as_fd).for_each(&mut add);
        self.clients.iter().map(AsFd::as_fd).for_each(&mut add);
        let _ = poll(&mut entries, None);
        if !entries[0].revents().is_empty() {
            let _ = (&self.wake).read(&mut [0; 64]);
        }
    }

    fn take(&mut self) {
        for mailbox in &mut self.mailboxes {
            while let Ok(Some(receiver)) = mailbox.next_receiver() {
                self.receivers.push(receiver);
            }
        }
        let mut receivers = std::mem::take(&mut self.receivers);
        receivers.retain_mut(|receiver| {
            loop {
                match receiver.receive() {
                    Ok(Some(batch)) => {
                        for one in batch.accept().unwrap_or_default() {
                            let client = TcpStream::from(one.descriptor);
                            self.mark(&client, true);
                            self.clients.push(client);
                        }
                    }
                    Ok(None) => return true,
                    Err(_) => return false,
                }
            }
        });
        self.receivers = receivers;
    }

    /// Returns whether a client has sent `return`.
    fn answer_clients(&mut self) -> bool {
        let mut returns = false;
        let me = format!("{}\n", self.worker.pid());
        let mut clients = std::mem::take(&mut self.clients);
        clients.retain_mut(|client| {
            let mut bytes = [0; 64];
            if client
                .peek(&mut bytes)
                .is_err_and(|error| error.kind() == std::io::ErrorKind::WouldBlock)
            {
                return true;
            }
            self.mark(client, false);
            let Ok(length @ 1..) = client.read(&mut bytes) else {
                return false;
            };
            client.write_all(me.as_bytes()).unwrap();
            match std::str::from_utf8(&bytes[..length]).unwrap().trim() {
                "who" => self.mark(client, true),
                "hold" => {}
                "return" => returns = true,
                "exit" => process::exit(7),
                other => panic!("{other:?}"),
            }
            true
        });
        self.clients = clients;
        returns
    }
}
