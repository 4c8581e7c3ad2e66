//! Bursts of datagrams like those of QUIC. The example `udp_bursts` sends them back: once with a
//! call for each datagram, and once with GSO and GRO by quinn-udp.

use std::io::{self, ErrorKind, IoSliceMut};
use std::net::UdpSocket;
use std::time::{Duration, Instant};

use quinn_udp::{RecvMeta, Transmit, UdpSocketState};

use crate::cpus::become_client;
use crate::pace;
use crate::process;
use crate::report::Report;
use crate::run::{Run, each};
use crate::server::{self, Program};
use crate::whole::ms;

/// Bytes of a QUIC datagram, and number of datagrams in a burst, which is a client's initial
/// window.
const DATAGRAM: usize = 1_200;
const BURST: usize = 10;

/// Number of bursts that are under way at a time.
const UNDER_WAY: usize = 4;

/// Time after which the datagrams under way count as lost.
const LOST_AFTER: Duration = Duration::from_millis(200);

pub(crate) fn measure(run: &Run, report: &mut Report) {
    let programs = server::programs(run, report, "udp bursts");
    become_client();
    run.rounds("bursts of datagrams", || {
        for program in &programs {
            let cost = cost_of_a_datagram(program, ms(run, 500));
            if let Some([ns, rate]) = report.or_absent(&program.name, cost) {
                report.add("udp burst", &program.name, "CPU, ns", ns);
                report.add("udp burst", &program.name, "thousand/s", rate / 1e3);
            }
        }
    });
}

/// Nanoseconds of the server's CPU for a datagram that it sends back, and such datagrams per
/// second.
fn cost_of_a_datagram(program: &Program, time: Duration) -> io::Result<[f64; 2]> {
    let server = program.launch(0)?;
    let socket = UdpSocket::bind("127.0.0.1:0")?;
    socket.connect(server.address)?;
    socket.set_read_timeout(Some(LOST_AFTER))?;
    let mut answer = [0; DATAGRAM];
    let serves = || socket.send(&[7; DATAGRAM]).is_ok() && socket.recv(&mut answer).is_ok();
    if !pace::until(serves) {
        return Err(io::Error::other("it does not serve"));
    }
    let state = UdpSocketState::new((&socket).into())?;
    // `UdpSocketState` has made the socket non-blocking, but this client blocks.
    socket.set_nonblocking(false)?;
    let burst = Transmit {
        destination: server.address,
        ecn: None,
        contents: &[7; BURST * DATAGRAM],
        segment_size: Some(DATAGRAM),
        src_ip: None,
    };
    let mut buffer = vec![0; 64 * 1024];
    let (mut received, mut under_way) = (0, 0);
    let pid = server.pids()[0];
    let (before, began) = (process::cpu_ns(pid), Instant::now());
    while began.elapsed() < time {
        while under_way + BURST <= UNDER_WAY * BURST {
            state.send((&socket).into(), &burst)?;
            under_way += BURST;
        }
        let mut got = [RecvMeta::default()];
        match state.recv(
            (&socket).into(),
            &mut [IoSliceMut::new(&mut buffer)],
            &mut got,
        ) {
            Ok(_) => {
                let datagrams = got[0].len.div_ceil(DATAGRAM);
                received += datagrams;
                under_way = under_way.saturating_sub(datagrams);
            }
            Err(error) if error.kind() == ErrorKind::WouldBlock => under_way = 0,
            Err(error) => return Err(error),
        }
    }
    let cpu_ns = process::cpu_ns(pid)[1] - before[1];
    Ok([
        each(cpu_ns, received),
        received as f64 / began.elapsed().as_secs_f64(),
    ])
}
