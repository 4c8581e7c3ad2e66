//! The server under test: it answers each line with the process id of its worker and the line.
//!
//! The bytes of an unfinished line are the state of a connection. A line that begins with `stay`
//! makes its connection stay in its worker, until a line begins with `go`.

use std::{env, io, io::ErrorKind};

use evcore::{Accepted, Connections, EventLoop, Step, poller::BackendKind};
use evcore_prefork::INHERITED;
use evcore_serve::{Server, Worker};

/// The first argument of the server's process.
pub(super) const FLAG: &str = "--serve-lines";

/// Serves with the arguments that follow the flag: an address, the number of workers, each worker's
/// limit of connections, a poller, and two versions of the state, for the first binary and for
/// later ones.
pub(super) fn serve(arguments: &[String]) -> io::Result<()> {
    let [address, workers, connections, poller, versions @ ..] = arguments else {
        panic!("{arguments:?}");
    };
    let is_new = env::var_os(INHERITED).is_some();
    let version: u32 = number(&versions[usize::from(is_new)]);
    let (connections, kind): (u32, BackendKind) = (number(connections), poller.parse().unwrap());
    let server = Server::new(number(workers)).bind(address.as_str())?;
    for listener in server.listeners() {
        eprintln!("listening on {}", listener.local_addr());
    }
    server
        .handover(version)
        .event_loop(move |builder| builder.connections(connections).poller(kind))
        .on_event(|event| eprintln!("{event}"))
        .run(work)?;
    Ok(())
}

fn number<N: std::str::FromStr<Err: std::fmt::Debug>>(text: &str) -> N {
    text.parse().expect("a number")
}

#[derive(Default)]
struct Client {
    line: Vec<u8>,
    stays: bool,
}

type Clients = Connections<Client>;

fn work(mut worker: Worker) -> evcore::Result<()> {
    let mut clients = Clients::new();
    while worker.next_turn()? {
        while let Some(step) = worker.next_step() {
            handle(step, &mut worker.ev, &mut clients);
        }
        worker.hand_over(&mut clients, |_, client| {
            (!client.stays).then(|| std::mem::take(&mut client.line))
        });
        while let Some(arrival) = worker.next_arrival() {
            let line = arrival.state;
            let stays = false;
            clients.insert(arrival.stream, Client { line, stays });
        }
    }
    let moves = worker.moves();
    eprintln!(
        "worker ends: {} handed over, {} arrived, {} taken back",
        moves.handed_over, moves.arrived, moves.taken_back
    );
    Ok(())
}

fn handle(step: Step, ev: &mut EventLoop, clients: &mut Clients) {
    match step {
        Step::Accepted(Accepted { stream, .. }) => _ = clients.add(ev, stream, Client::default()),
        Step::Ready(token, ready) => {
            let (stream, client) = clients.ready(token, ready).expect("it is open");
            let mut buffer = [0; 1024];
            let ended = loop {
                match stream.recv(ev, &mut buffer) {
                    Ok(0) => break true,
                    Ok(n) => client.line.extend_from_slice(&buffer[..n]),
                    Err(error) => break error.kind() != ErrorKind::WouldBlock,
                }
                while let Some(end) = client.line.iter().position(|byte| *byte == b'\n') {
                    let line: Vec<u8> = client.line.drain(..=end).collect();
                    client.stays |= line.starts_with(b"stay");
                    client.stays &= !line.starts_with(b"go");
                    let mut answer = format!("{} ", std::process::id()).into_bytes();
                    answer.extend(line);
                    // The socket has room: lines are short, and a client reads each answer before
                    // it ends its next line.
                    assert_eq!(stream.send(ev, &answer).ok(), Some(answer.len()));
                }
            };
            if ended {
                clients.close(ev, token);
            }
        }
        Step::Expired(token, _) | Step::Evict(token) => _ = clients.close(ev, token),
        Step::Woken | Step::ShuttingDown => {}
    }
}
