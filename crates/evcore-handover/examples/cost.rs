//! Measures the cost of a handover, by which one process gives its connections to another. Compares
//! it with the cost of an `accept` in the same run.
//!
//! `cargo run --release -p evcore-handover --example cost -- 3000`
//!
//! The argument is the number of clients in each round. A round measures the time of three parts:
//! `accept` with a registration in an epoll set; the sender's part (remove from the set, send, read
//! the answers, close); and the receiver's part (receive, register, acknowledge). For several sizes
//! of a batch, the program prints the medians of the rounds in nanoseconds of CPU time per
//! connection, with the least and the greatest.

#[cfg(target_os = "linux")]
fn main() -> Result<(), Box<dyn std::error::Error>> {
    let count = std::env::args()
        .nth(1)
        .map_or(Ok(3_000), |word| word.parse())?;
    linux::run(count)
}

#[cfg(not(target_os = "linux"))]
fn main() {
    println!("connections are handed over on Linux only");
}

#[cfg(target_os = "linux")]
mod linux {
    use std::{
        error::Error,
        net::{TcpListener, TcpStream},
        os::fd::{AsFd, AsRawFd, OwnedFd},
        time::Duration,
    };

    use evcore_handover::{BATCH_CONNECTIONS_MAX, Connection, Mailbox, Receiver, Sender};
    use rustix::{
        event::epoll::{self, CreateFlags, EventData, EventFlags},
        time::{ClockId, clock_gettime},
    };

    const ROUNDS: usize = 15;

    const CASES: [(usize, usize); 5] = [
        (1, 0),
        (16, 0),
        (64, 0),
        (BATCH_CONNECTIONS_MAX, 0),
        (BATCH_CONNECTIONS_MAX, 200),
    ];

    type Result<T = ()> = std::result::Result<T, Box<dyn Error>>;

    pub(super) fn run(count: usize) -> Result {
        for (size, bytes) in CASES {
            let mut times = [const { Vec::new() }; 3];
            for _ in 0..ROUNDS {
                let round = round(count, size, bytes)?;
                for (times, time) in times.iter_mut().zip(round) {
                    times.push(time.as_nanos() / count as u128);
                }
            }
            println!("batches of {size}, {bytes} bytes of state:");
            for (what, times) in ["accept", "send", "receive"].into_iter().zip(&mut times) {
                times.sort_unstable();
                let (least, median, most) = (times[0], times[ROUNDS / 2], times[ROUNDS - 1]);
                println!("  {what:8} {median:5} ({least} to {most})");
            }
        }
        Ok(())
    }

    /// The CPU time of this thread, so that other processes do not count.
    fn now() -> Duration {
        let time = clock_gettime(ClockId::ThreadCPUTime);
        time.try_into().expect("it is positive")
    }

    fn watch(set: &OwnedFd, source: impl AsFd) -> Result {
        let data = EventData::new_u64(source.as_fd().as_raw_fd().unsigned_abs().into());
        epoll::add(set, source, data, EventFlags::IN | EventFlags::ET)?;
        Ok(())
    }

    fn round(count: usize, size: usize, bytes: usize) -> Result<[Duration; 3]> {
        let (theirs, ours) = (
            epoll::create(CreateFlags::CLOEXEC)?,
            epoll::create(CreateFlags::CLOEXEC)?,
        );
        let (mut clients, mut connections, mut accept) = (Vec::new(), Vec::new(), Duration::ZERO);
        let listener = TcpListener::bind("127.0.0.1:0")?;
        while connections.len() < count {
            // At most as many as the backlog holds.
            for _ in 0..100.min(count - connections.len()) {
                clients.push(TcpStream::connect(listener.local_addr()?)?);
            }
            let start = now();
            while connections.len() < clients.len() {
                let stream = listener.accept()?.0;
                watch(&theirs, &stream)?;
                connections.push(Connection::new(stream, vec![0; bytes]));
            }
            accept += now() - start;
        }
        let [send, receive] = hand_over(connections, size, &theirs, &ours)?;
        Ok([accept, send, receive])
    }

    fn hand_over(
        mut connections: Vec<Connection>,
        size: usize,
        theirs: &OwnedFd,
        ours: &OwnedFd,
    ) -> Result<[Duration; 2]> {
        let (address, mut mailbox) = Mailbox::pair(1)?;
        let mut sender = Sender::open(&address, 1)?;
        let mut receiver = mailbox.next_receiver()?.ok_or("no sender")?;
        let (mut arrived, mut times) = (Vec::new(), [Duration::ZERO; 2]);
        while !connections.is_empty() {
            let start = now();
            let first = connections.len() - size.min(connections.len());
            let mut batch = connections.split_off(first);
            for connection in &batch {
                epoll::delete(theirs, connection)?;
            }
            sender.send(&mut batch)?;
            let sent = now();
            receive(&mut receiver, ours, &mut arrived)?;
            let received = now();
            while sender.next_answer()?.is_some() {}
            times[0] += sent - start + (now() - received);
            times[1] += received - sent;
            assert!(batch.is_empty());
        }
        Ok(times)
    }

    fn receive(receiver: &mut Receiver, set: &OwnedFd, arrived: &mut Vec<Connection>) -> Result {
        while let Some(batch) = receiver.receive()? {
            for connection in batch.connections() {
                watch(set, connection)?;
            }
            arrived.extend(batch.accept()?);
        }
        Ok(())
    }
}
