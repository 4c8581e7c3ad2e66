//! Answers each DNS question for an address with the same address:
//!
//!     cargo run --release --example udp -- 127.0.0.1:5300 192.0.2.1
//!     dig -p 5300 @127.0.0.1 example.org
//!
//! The server keeps no state for a client. A malformed question gets FORMERR. A response, or a
//! message shorter than a header, gets no answer. Extensions (EDNS) are ignored.
//! `cargo xtask bench datagrams` measures this server.
use evcore::{EventLoop, Interest, Mode, Step};
use std::net::{Ipv4Addr, SocketAddr, UdpSocket};
use std::{env, error::Error, io, io::ErrorKind};

/// The longest message over UDP, in bytes. The buffer has one byte more, so that a longer message
/// is noticed.
const LONGEST: usize = 512;
const HEADER: usize = 12;
const NAME_MAX: usize = 255;
const LABEL_MAX: usize = 63;
/// Maximum number of datagrams that one iteration of the loop receives. It is limited, because the
/// loop's other sources wait meanwhile.
const DATAGRAMS: usize = 64;

/// The bits of a header's byte 2: a response, the opcode, an authoritative answer, and recursion
/// desired.
const RESPONSE: u8 = 0x80;
const OPCODE: u8 = 0x78;
const AUTHORITATIVE: u8 = 0x04;
const RECURSION_DESIRED: u8 = 0x01;

/// A response code of RFC 1035, for a response without an answer section.
#[derive(Clone, Copy)]
enum Refusal {
    FormatError = 1,
    NotImplemented = 4,
    Refused = 5,
}

/// Returns the end of the question, and whether it is for an address.
fn parse(message: &[u8]) -> Result<(usize, bool), Refusal> {
    if message[2] & OPCODE != 0 {
        return Err(Refusal::NotImplemented);
    }
    if message.len() > LONGEST || message[4..6] != [0, 1] {
        return Err(Refusal::FormatError); // truncated, or not exactly one question
    }
    let mut end = HEADER;
    loop {
        let label = usize::from(*message.get(end).ok_or(Refusal::FormatError)?);
        end += 1 + label;
        if label > LABEL_MAX || end - HEADER > NAME_MAX {
            return Err(Refusal::FormatError); // no compression pointers in a question
        }
        if label == 0 {
            break;
        }
    }
    let kind = message.get(end..end + 4).ok_or(Refusal::FormatError)?;
    match kind {
        [0, 1 | 255, 0, 1 | 255] => Ok((end + 4, true)), // type A or ANY, class IN or ANY
        [_, _, 0, 1 | 255] => Ok((end + 4, false)),
        _ => Err(Refusal::Refused),
    }
}

/// Turns a message of this length into its answer, and returns the answer's length, or `None` if
/// the message gets no answer.
fn answer(buffer: &mut [u8], length: usize, address: Ipv4Addr) -> Option<usize> {
    // An answer to a response could begin an endless exchange between two servers.
    if length < HEADER || buffer[2] & RESPONSE != 0 {
        return None;
    }
    let (mut end, code, records) = match parse(&buffer[..length]) {
        Ok((end, asks_for_address)) => (end, 0, u8::from(asks_for_address)),
        Err(refusal) => (HEADER, refusal as u8, 0),
    };
    buffer[2] = RESPONSE | buffer[2] & (OPCODE | RECURSION_DESIRED);
    if code == 0 {
        buffer[2] |= AUTHORITATIVE;
    }
    buffer[3] = code;
    buffer[4..HEADER].copy_from_slice(&[0, u8::from(end > HEADER), 0, records, 0, 0, 0, 0]);
    if records > 0 {
        // The record: the name at byte 12, type A, class IN, for 60 seconds, 4 bytes.
        let record = [0xc0, 12, 0, 1, 0, 1, 0, 0, 0, 60, 0, 4];
        for part in [&record[..], &address.octets()] {
            buffer[end..end + part.len()].copy_from_slice(part);
            end += part.len();
        }
    }
    Some(end)
}

struct Responder {
    socket: UdpSocket,
    address: Ipv4Addr,
    buffer: [u8; LONGEST + 1],
    unsent: Option<(usize, SocketAddr)>, // an answer in the buffer, and the client
}

impl Responder {
    /// Receives and answers some datagrams, until a call would block.
    fn serve(&mut self) -> io::Result<()> {
        for _ in 0..DATAGRAMS {
            if self.unsent.is_none() {
                let (length, peer) = self.socket.recv_from(&mut self.buffer)?;
                let answer = answer(&mut self.buffer, length, self.address);
                self.unsent = answer.map(|length| (length, peer));
            }
            if let Some((length, peer)) = self.unsent {
                match self.socket.send_to(&self.buffer[..length], peer) {
                    Err(error) if error.kind() == ErrorKind::WouldBlock => return Err(error),
                    _ => self.unsent = None, // an error concerns only this client
                }
            }
        }
        Ok(()) // level-triggered: remaining datagrams are reported again
    }
}

fn main() -> Result<(), Box<dyn Error>> {
    let mut args = env::args().skip(1);
    let mut next = || args.next().ok_or("usage: udp ADDRESS ANSWERED_ADDRESS");
    let socket = UdpSocket::bind(next()?)?;
    socket.set_nonblocking(true)?;
    let address = next()?.parse()?;
    let mut ev = EventLoop::builder().build()?;
    let token = ev.add(&socket, Interest::READ, Mode::Level)?;
    eprintln!("listening on {}", socket.local_addr()?);
    let mut responder = Responder {
        socket,
        address,
        buffer: [0; LONGEST + 1],
        unsent: None,
    };
    while ev.wait()? {
        while let Some(step) = ev.next_step() {
            let Step::Ready(..) = step else { continue };
            match responder.serve() {
                Err(error) if error.kind() != ErrorKind::WouldBlock => eprintln!("{error}"),
                _ => {}
            }
            // While an answer waits for room, no further question is received.
            let interest = responder.unsent.map_or(Interest::READ, |_| Interest::WRITE);
            ev.modify(token, interest)?;
        }
    }
    Ok(())
}
