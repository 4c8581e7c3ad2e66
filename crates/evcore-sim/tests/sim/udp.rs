//! UDP sockets: arrivals, and a program's reaction to loss, duplicates and disorder.

use std::{collections::BTreeSet, io::ErrorKind, net::SocketAddr, time::Duration};

use evcore::{EventLoop, Interest, Mode, Step};
use evcore_sim::{Fault, Faults, Probability, Sim, SimConfig, SimListener, SimUdpSocket, check};

const MS: Duration = Duration::from_millis(1);

fn server_address() -> SocketAddr {
    SocketAddr::from(([10, 0, 0, 1], 53))
}

fn client(sim: &Sim) -> SimUdpSocket {
    let address = SocketAddr::from(([10, 0, 0, 2], 0));
    sim.process().bind_udp(address).expect("a free port")
}

fn server(sim: &Sim) -> SimUdpSocket {
    let bound = sim.process().bind_udp(server_address());
    bound.expect("nothing else is bound there")
}

fn drain(socket: &SimUdpSocket) -> Vec<u32> {
    let (mut numbers, mut buffer) = (Vec::new(), [0; 4]);
    loop {
        match socket.recv_from(&mut buffer) {
            Ok((length, _)) => {
                assert_eq!(length, 4);
                numbers.push(u32::from_be_bytes(buffer));
            }
            Err(error) => {
                assert_eq!(error.kind(), ErrorKind::WouldBlock);
                return numbers;
            }
        }
    }
}

/// Sends numbers under a frequent fault, and returns those that arrive.
fn arrivals(seed: u64, fault: Option<Fault>) -> Vec<u32> {
    let sim = Sim::new(seed);
    let often = |fault| Faults::none().with(fault, Probability::one_in(3));
    sim.set_faults(fault.map_or(Faults::none(), often));
    let (server, client) = (server(&sim), client(&sim));
    for number in 0..100_u32 {
        let sent = client.send_to(&number.to_be_bytes(), server_address());
        assert_eq!(sent.expect("it is sent"), 4);
    }
    sim.run_for(Duration::from_secs(5));
    drain(&server)
}

#[test]
fn without_faults_every_datagram_arrives_once_and_in_order() {
    for seed in 0..10 {
        assert_eq!(arrivals(seed, None), (0..100).collect::<Vec<_>>());
    }
}

#[test]
fn the_trace_names_the_processes_of_a_datagram() {
    let sim = Sim::new(7);
    sim.record_trace();
    let (server, client) = (server(&sim), client(&sim));
    client
        .send_to(&[0, 0, 0, 7], server_address())
        .expect("it is sent");
    sim.run_for(Duration::from_secs(1));
    assert_eq!(drain(&server), [7]);
    let lines = sim.trace_lines().join("\n");
    for line in [
        "process 1 sends a datagram of 4 bytes by UDP socket 1",
        "process 0 receives a datagram of 4 bytes at UDP socket 0",
    ] {
        assert!(lines.contains(line), "{lines}");
    }
}

#[test]
fn each_datagram_fault_does_what_its_name_says() {
    let lost = arrivals(7, Some(Fault::DatagramLoss));
    assert!(
        (40..95).contains(&lost.len()) && lost.is_sorted(),
        "{lost:?}"
    );

    let doubled = arrivals(7, Some(Fault::DatagramDuplicate));
    assert!(doubled.len() > 105 && doubled.is_sorted(), "{doubled:?}");

    let late = arrivals(7, Some(Fault::DatagramDelay));
    assert!(late.len() == 100 && !late.is_sorted(), "{late:?}");
    assert_eq!(late.iter().collect::<BTreeSet<_>>().len(), 100);
}

#[test]
fn a_datagram_without_a_socket_or_without_room_is_lost() {
    let sim = Sim::new(7);
    sim.set_config(SimConfig {
        socket_buffer: 10,
        ..SimConfig::default()
    });
    let client = client(&sim);
    client
        .send_to(b"nobody", server_address())
        .expect("it is sent");
    sim.run_for(MS);
    let server = server(&sim);
    for number in 0..5_u32 {
        let sent = client.send_to(&number.to_be_bytes(), server_address());
        sent.expect("it is sent");
    }
    sim.run_for(MS);
    assert_eq!(drain(&server), [0, 1]);
}

#[test]
fn a_datagram_is_cut_to_the_buffer_and_bounded() {
    let sim = Sim::new(7);
    let (server, client) = (server(&sim), client(&sim));
    client.send_to(b"question", server_address()).expect("sent");
    client.send_to(b"", server_address()).expect("sent");
    sim.run_for(MS);
    let mut buffer = [0; 4];
    let from = client.local_addr().expect("it is bound");
    assert_eq!(server.recv_from(&mut buffer).expect("arrived"), (4, from));
    assert_eq!(&buffer, b"ques");
    assert_eq!(server.recv_from(&mut buffer).expect("arrived"), (0, from));
    assert!(client.send_to(&[0; 65_508], server_address()).is_err());
}

#[test]
fn an_address_is_bound_once_and_free_after_a_close() {
    let sim = Sim::new(7);
    let first = server(&sim);
    let refused = sim.process().bind_udp(server_address());
    assert_eq!(refused.expect_err("in use").kind(), ErrorKind::AddrInUse);
    drop(first);
    let _again = server(&sim);
    let (one, other) = (client(&sim), client(&sim));
    assert_ne!(
        one.local_addr().expect("bound"),
        other.local_addr().expect("bound")
    );
}

/// A server that answers each number with its square. Its registration is edge-triggered.
struct Responder {
    ev: EventLoop<SimListener>,
    socket: SimUdpSocket,
}

impl Responder {
    fn new(sim: &Sim) -> Self {
        let process = sim.process();
        let mut ev = process.builder().build().expect("a loop");
        let socket = process.bind_udp(server_address()).expect("a free address");
        let added = ev.add(&socket, Interest::READ, Mode::Edge);
        added.expect("a fresh descriptor");
        Self { ev, socket }
    }

    fn turn(&mut self, time: Duration) {
        let timer = self.ev.add_unwatched().expect("there is room");
        self.ev.arm(timer, evcore::Timer::READ, time);
        self.ev.wait().expect("a turn");
        while let Some(step) = self.ev.next_step() {
            if let Step::Ready(token, _) = step {
                self.answer();
                self.ev.rearm(token, Interest::READ);
            }
        }
        self.ev.remove(timer);
    }

    fn answer(&self) {
        let mut buffer = [0; 4];
        while let Ok((_, from)) = self.socket.recv_from(&mut buffer) {
            let number = u32::from_be_bytes(buffer);
            let answer = (number * number).to_be_bytes();
            let sent = self.socket.send_to(&answer, from);
            sent.expect("the process lives");
        }
    }
}

/// The client repeats each question until it has an answer.
#[test]
fn a_client_that_repeats_has_every_answer_despite_faults() {
    let mut faults = [0; 3];
    let name = "a_client_that_repeats_has_every_answer_despite_faults";
    let seeds = check(name, 0..100, |sim| {
        sim.set_faults(Faults::all().without(Fault::ClockJump));
        let (mut responder, client) = (Responder::new(sim), client(sim));
        let mut unanswered: BTreeSet<u32> = (0..20).collect();
        for _ in 0..50 {
            for number in &unanswered {
                let sent = client.send_to(&number.to_be_bytes(), server_address());
                sent.expect("the process lives");
            }
            for _ in 0..5 {
                responder.turn(100 * MS);
            }
            for square in drain(&client) {
                assert!(square.isqrt().pow(2) == square, "{square} answers nothing");
                unanswered.remove(&square.isqrt());
            }
        }
        assert!(unanswered.is_empty(), "{unanswered:?} have no answer");
        let kinds = [
            Fault::DatagramLoss,
            Fault::DatagramDuplicate,
            Fault::DatagramDelay,
        ];
        for (count, fault) in faults.iter_mut().zip(kinds) {
            *count += sim.fault_count(fault);
        }
    });
    assert!(seeds < 100 || !faults.contains(&0), "{faults:?}");
}
