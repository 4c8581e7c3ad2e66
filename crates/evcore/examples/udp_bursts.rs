//! Sends back datagrams, many with one call, as QUIC does:
//!
//!     cargo run --release --example udp_bursts -- 127.0.0.1:4433
//!
//! quinn-udp makes the calls. With GRO one call receives up to 64 datagrams of a client as one
//! buffer, and with GSO one call sends such a buffer. With `--one` the standard library receives
//! and sends each datagram by a call of its own. `cargo xtask bench datagrams` compares the two
//! modes.
use evcore::{EventLoop, Interest, Mode, Step};
use quinn_udp::{RecvMeta, Transmit, UdpSocketState};
use std::{env, error::Error, io, io::ErrorKind, io::IoSliceMut, net::UdpSocket};

/// Maximum number of receive calls in one turn, which is one iteration of the loop. It is limited,
/// because the loop's other sources wait meanwhile.
const CALLS: usize = 64;
const LARGEST: usize = 64 * 1024;

/// Sends back datagrams, until a receive would block or the calls of this turn are used up.
fn echo_bursts(
    state: &UdpSocketState,
    socket: &UdpSocket,
    buffer: &mut [u8; LARGEST],
) -> io::Result<()> {
    for _ in 0..CALLS {
        let mut received = [RecvMeta::default()];
        state.recv(socket.into(), &mut [IoSliceMut::new(buffer)], &mut received)?;
        let [burst] = received;
        let transmit = Transmit {
            destination: burst.addr,
            ecn: burst.ecn,
            contents: &buffer[..burst.len],
            segment_size: (burst.len > burst.stride).then_some(burst.stride),
            src_ip: None,
        };
        lose(state.try_send(socket.into(), &transmit))?;
    }
    Ok(()) // level-triggered: remaining datagrams are reported again
}

fn echo_one_by_one(socket: &UdpSocket, buffer: &mut [u8; LARGEST]) -> io::Result<()> {
    for _ in 0..CALLS {
        let (length, peer) = socket.recv_from(buffer)?;
        lose(socket.send_to(&buffer[..length], peer).map(drop))?;
    }
    Ok(())
}

/// Loses an answer for which the socket has no room, as the network may lose a datagram.
fn lose(sent: io::Result<()>) -> io::Result<()> {
    match sent {
        Err(error) if error.kind() == ErrorKind::WouldBlock => Ok(()),
        sent => sent,
    }
}

fn main() -> Result<(), Box<dyn Error>> {
    let mut args = env::args().skip(1);
    let socket = UdpSocket::bind(args.next().ok_or("usage: udp_bursts ADDRESS [--one]")?)?;
    socket.set_nonblocking(true)?;
    let is_one_by_one = args.next().is_some_and(|option| option == "--one");
    // `UdpSocketState::new` switches GRO on, so it is called only in the mode that uses it.
    let state = (!is_one_by_one).then(|| UdpSocketState::new((&socket).into()));
    let state = state.transpose()?;
    let mut ev = EventLoop::builder().build()?;
    ev.add(&socket, Interest::READ, Mode::Level)?;
    eprintln!("listening on {}", socket.local_addr()?);
    let mut buffer = Box::new([0; LARGEST]);
    while ev.wait()? {
        while let Some(step) = ev.next_step() {
            let Step::Ready(..) = step else { continue };
            let echoed = match &state {
                Some(state) => echo_bursts(state, &socket, &mut buffer),
                None => echo_one_by_one(&socket, &mut buffer),
            };
            match echoed {
                Err(error) if error.kind() != ErrorKind::WouldBlock => eprintln!("{error}"),
                _ => {}
            }
        }
    }
    Ok(())
}
