//! Answers each line of a client. If the line has a slash, it is a file's path, and the answer is
//! the file's content. Otherwise the line is a host's name, and the answer is the host's addresses.
//! The command is `offload 127.0.0.1:7007 4 1000`. The program sends any file to any client, so do
//! not run it in public.
//!
//! Resolving and reading block, so 4 threads do that work. The loop serves the other clients
//! meanwhile. A client has one job at a time. If there are 1,000 jobs already, the answer is
//! `busy`.
use evcore::{Connections, EdgeStream, EventLoop, Listener, Step, Token, pool};
use std::{env, error::Error, fs::File, io::ErrorKind, io::Read, io::Result, net::ToSocketAddrs};

type Pool = pool::Pool<Token, Vec<u8>>;
const LONGEST: u16 = 32 * 1024; // bytes of a line, and of a file's content

/// Finds an answer. It blocks, so a thread of the pool runs it.
fn find(line: &str) -> Result<Vec<u8>> {
    if line.contains('/') {
        let (mut file, mut content) = (File::open(line)?.take(LONGEST.into()), Vec::new());
        return file.read_to_end(&mut content).map(|_| content);
    }
    let addresses = (line, 0).to_socket_addrs()?;
    let ips: Vec<_> = addresses.map(|addr| addr.ip().to_string()).collect();
    Ok((ips.join(" ") + "\n").into_bytes())
}

#[derive(Default)]
struct Client {
    lines: Vec<u8>,   // bytes that have arrived and are not handled yet
    answers: Vec<u8>, // answers that are not sent yet
    waits: bool,      // true until the job of this client has a result
}

impl Client {
    /// Sends answers and reads lines, until a call would block or the client waits for a job. The
    /// end of the stream is returned as an error.
    fn serve(&mut self, io: &mut EdgeStream, ev: &mut EventLoop, pool: &mut Pool) -> Result<()> {
        loop {
            while !self.answers.is_empty() {
                let sent = io.send(ev, &self.answers)?;
                self.answers.drain(..sent);
            }
            if self.waits {
                return Ok(()); // later lines are read when the result has come
            } else if let Some(end) = self.lines.iter().position(|byte| *byte == b'\n') {
                let line: Vec<u8> = self.lines.drain(..=end).collect();
                let line = String::from_utf8_lossy(line.trim_ascii()).into_owned();
                let job = move || find(&line).unwrap_or_else(|e| format!("failed: {e}\n").into());
                match pool.submit(io.token(), job) {
                    Ok(()) => self.waits = true,
                    Err(_full) => self.answers.extend(b"busy\n"),
                }
            } else {
                self.lines.reserve(4096);
                if io.recv_buf(ev, &mut self.lines)? == 0 || self.lines.len() > LONGEST.into() {
                    return Err(ErrorKind::UnexpectedEof.into());
                }
            }
        }
    }
}

fn main() -> std::result::Result<(), Box<dyn Error>> {
    let mut args = env::args().skip(1);
    let mut next = || args.next().ok_or("usage: offload ADDRESS THREADS JOBS");
    let listener = Listener::bind(next()?)?;
    let threads = next()?.parse()?;
    let limit = next()?.parse()?;
    eprintln!("listening on {}", listener.local_addr());
    let mut ev = EventLoop::builder().listener(listener).build()?;
    let handle = ev.handle();
    let mut pool = Pool::new(threads, limit, move || handle.wake())?;
    let mut clients = Connections::new();
    let mut due = Vec::new(); // the clients to serve after a step
    while ev.wait()? {
        while let Some(step) = ev.next_step() {
            match step {
                // If this fails, the stream is dropped, which closes it.
                Step::Accepted(new) => _ = clients.add(&mut ev, new.stream, Client::default()),
                Step::Ready(token, ready) => {
                    clients.ready(token, ready).expect("open");
                    due.push(token);
                }
                Step::Woken => {
                    while let Some((token, result)) = pool.next_result() {
                        if let Some((_, client)) = clients.get_mut(token) {
                            client.waits = false;
                            client.answers = result.unwrap_or_else(|_| b"it panicked\n".to_vec());
                            due.push(token);
                        }
                    }
                }
                // This program gets none of these.
                Step::Expired(..) | Step::Evict(_) | Step::ShuttingDown => {}
            }
            for token in due.drain(..) {
                let (stream, client) = clients.get_mut(token).expect("open");
                let result = client.serve(stream, &mut ev, &mut pool);
                if result.is_err_and(|error| error.kind() != ErrorKind::WouldBlock) {
                    clients.close(&mut ev, token); // the result of its job is dropped
                }
            }
        }
    }
    Ok(())
}
