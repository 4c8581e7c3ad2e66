//! The roles of a process: it gives its clients away, or takes the clients of another process.
//!
//! The state of a connection is its number, in the order in which the clients have connected.

use std::{
    fs,
    io::{self, Read, Write},
    net::{TcpListener, TcpStream},
    os::fd::{AsFd, OwnedFd},
};

use evcore_handover::{Answer, Connection, Error, Mailbox, Receiver, Sender};
use rustix::{
    event::{PollFd, PollFlags, poll},
    process::{Signal, getpid, kill_process},
};

const VERSION: u32 = 1;

pub(crate) fn run(role: &str, words: &[String]) {
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    let stdin = io::stdin().as_fd().try_clone_to_owned().unwrap();
    match (role, words.as_slice()) {
        ("sender", [clients, size, death @ ..]) => {
            let (clients, size) = (clients.parse().unwrap(), size.parse().unwrap());
            SenderRole::new(clients, Death::new(death)).run(&stdin, size);
        }
        ("receiver", death) => ReceiverRole::new(stdin, Death::new(death)).run(),
        other => panic!("no role is called {other:?}"),
    }
}

/// The point at which this process kills itself: the n-th time that it does the named step.
struct Death {
    step: String,
    left: usize,
}

impl Death {
    fn new(words: &[&str]) -> Self {
        let [step, count] = words else {
            return Self {
                step: String::new(),
                left: 0,
            };
        };
        Self {
            step: (*step).to_owned(),
            left: count.parse().unwrap(),
        }
    }

    fn after(&mut self, step: &str) {
        if self.step == step {
            self.left -= 1;
            if self.left == 0 {
                kill_process(getpid(), Signal::KILL).unwrap();
            }
        }
    }
}

fn report(word: &str, numbers: impl IntoIterator<Item = usize>) {
    let mut line = word.to_owned();
    numbers
        .into_iter()
        .for_each(|number| line += &format!(" {number}"));
    line.push('\n');
    // One call writes the whole line, so that a kill leaves no half line before a whole one.
    let mut out = io::stdout().lock();
    out.write_all(line.as_bytes())
        .and_then(|()| out.flush())
        .unwrap();
}

fn open_descriptors() -> usize {
    fs::read_dir("/proc/self/fd").unwrap().count()
}

fn number(connection: &Connection) -> usize {
    std::str::from_utf8(&connection.state)
        .unwrap()
        .parse()
        .unwrap()
}

fn wait_for(fds: &[impl AsFd]) -> Vec<bool> {
    let entry = |fd| PollFd::new(fd, PollFlags::IN);
    let mut entries: Vec<_> = fds.iter().map(entry).collect();
    poll(&mut entries, None).unwrap();
    entries
        .iter()
        .map(|entry| !entry.revents().is_empty())
        .collect()
}

/// Answers each line with the name of this role, the client's number and the line, until all
/// clients have left.
fn serve(role: &str, connections: Vec<Connection>) {
    let stream = |connection: Connection| {
        let number = number(&connection);
        (number, TcpStream::from(connection.descriptor))
    };
    let mut streams: Vec<_> = connections.into_iter().map(stream).collect();
    while !streams.is_empty() {
        let ready = wait_for(&streams.iter().map(|(_, stream)| stream).collect::<Vec<_>>());
        let mut ready = ready.into_iter();
        streams
            .retain_mut(|(number, stream)| !ready.next().unwrap() || answer(role, *number, stream));
    }
}

fn answer(role: &str, number: usize, stream: &mut TcpStream) -> bool {
    let mut bytes = [0; 64];
    match stream.read(&mut bytes) {
        Ok(0) | Err(_) => false,
        Ok(length) => {
            let question = std::str::from_utf8(&bytes[..length]).unwrap();
            let answer = format!("{role} {number} {question}");
            stream.write_all(answer.as_bytes()).is_ok()
        }
    }
}

struct SenderRole {
    waiting: Vec<Connection>,
    death: Death,
}

impl SenderRole {
    fn new(clients: usize, death: Death) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        report("port", [usize::from(listener.local_addr().unwrap().port())]);
        let accept = |number: usize| {
            let (stream, _) = listener.accept().unwrap();
            Connection::new(stream, number.to_string())
        };
        let waiting = (0..clients).map(accept).collect();
        Self { waiting, death }
    }

    fn run(mut self, address: &OwnedFd, size: usize) {
        let before = open_descriptors() - self.waiting.len();
        let mut sender = Sender::open(address, VERSION).unwrap();
        report("opened", []);
        self.death.after("opened");
        let back = match self.give(&mut sender, size) {
            Ok(()) => Vec::new(),
            Err(Error::Ended) => sender.take_back(),
            Err(error) => panic!("{error}"),
        };
        report("back", back.iter().map(number));
        let mut mine = back;
        mine.append(&mut self.waiting);
        // If nothing was taken back, the channel is still open, with up to three descriptors.
        report("kept", mine.iter().map(number));
        let open = open_descriptors() - mine.len();
        assert!(open <= before + 3, "{open} of {before}");
        serve("sender", mine);
    }

    fn give(&mut self, sender: &mut Sender, size: usize) -> Result<(), Error> {
        while !self.waiting.is_empty() || sender.unacknowledged() > 0 {
            self.send_some(sender, size)?;
            wait_for(&[&sender]);
            while let Some(answer) = sender.next_answer()? {
                match answer {
                    Answer::Acknowledged { connections, .. } => {
                        report("acknowledged", [connections]);
                        self.death.after("acknowledged");
                    }
                    Answer::Refused { connections, .. } => self.waiting.extend(connections),
                    other => panic!("{other:?}"),
                }
            }
        }
        Ok(())
    }

    /// Sends clients in batches of this size, as far as there is room.
    fn send_some(&mut self, sender: &mut Sender, size: usize) -> Result<(), Error> {
        while !self.waiting.is_empty() {
            let rest = self.waiting.split_off(size.min(self.waiting.len()));
            let numbers: Vec<_> = self.waiting.iter().map(number).collect();
            let sent = sender.send(&mut self.waiting);
            self.waiting.extend(rest);
            let sent = sent?;
            if sent == 0 {
                break;
            }
            report("sent", numbers.into_iter().take(sent));
            self.death.after("sent");
        }
        Ok(())
    }
}

struct ReceiverRole {
    mailbox: Mailbox,
    death: Death,
}

impl ReceiverRole {
    fn new(mailbox: OwnedFd, death: Death) -> Self {
        Self {
            mailbox: Mailbox::from_fd(mailbox, VERSION),
            death,
        }
    }

    fn run(mut self) {
        let before = open_descriptors();
        wait_for(&[&self.mailbox]);
        let mut receiver = self.mailbox.next_receiver().unwrap().unwrap();
        report("claimed", []);
        self.death.after("claimed");
        let mut mine = Vec::new();
        loop {
            wait_for(&[&receiver]);
            match self.take(&mut receiver, &mut mine) {
                Ok(()) => {}
                Err(Error::Ended) => break,
                Err(error) => panic!("{error}"),
            }
        }
        drop(receiver);
        assert_eq!(open_descriptors(), before + mine.len());
        report("serves", mine.iter().map(number));
        serve("receiver", mine);
    }

    fn take(&mut self, receiver: &mut Receiver, mine: &mut Vec<Connection>) -> Result<(), Error> {
        while let Some(batch) = receiver.receive()? {
            report("received", batch.connections().iter().map(number));
            self.death.after("received");
            // Stands for a registration with a poller.
            poll_once(batch.connections());
            report("accepting", batch.connections().iter().map(number));
            self.death.after("registered");
            match batch.accept() {
                Ok(connections) => {
                    self.death.after("accepted");
                    report("accepted", connections.iter().map(number));
                    mine.extend(connections);
                }
                Err(taken_back) => report("lost", taken_back.connections.iter().map(number)),
            }
            self.death.after("reported");
        }
        Ok(())
    }
}

fn poll_once(connections: &[Connection]) {
    let entry = |connection| PollFd::new(connection, PollFlags::IN);
    let mut entries: Vec<_> = connections.iter().map(entry).collect();
    let now = rustix::event::Timespec::default();
    poll(&mut entries, Some(&now)).unwrap();
}
