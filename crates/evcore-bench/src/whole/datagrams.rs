//! The example `udp` on the first CPU, and a client that has 64 questions under way on the last.

use std::io::{self, ErrorKind};
use std::net::{SocketAddr, UdpSocket};
use std::time::{Duration, Instant};

use super::ms;
use crate::cpus::{become_client, cpus};
use crate::pace;
use crate::report::Report;
use crate::run::Run;
use crate::server::Program;
use crate::servers;

const UDP: &str = "udp";
const ANSWERS: &str = "answers";
const UNDER_WAY: u32 = 64;
/// The kernel drops datagrams that it has no room for.
const LOST_AFTER: Duration = Duration::from_millis(200);

/// One question of DNS: for the address of `example.org`.
const QUESTION: &[u8] = b"\x12\x34\x01\0\0\x01\0\0\0\0\0\0\x07example\x03org\0\0\x01\0\x01";

/// Measures how many questions are answered.
pub(crate) fn measure(run: &Run, report: &mut Report) {
    let words = |address: SocketAddr| vec![address.to_string(), "192.0.2.1".to_owned()];
    let program = servers::example(run, "evcore", UDP, words);
    let Some(program) = report.or_absent(UDP, program) else {
        return;
    };
    become_client();
    let time = ms(run, 500);
    run.rounds("datagrams", || {
        let answers = serve(&program, time).map_err(|error| error.to_string());
        if let Some(answers) = report.or_absent(UDP, answers) {
            let a_second = f64::from(answers) / time.as_secs_f64();
            report.add(ANSWERS, UDP, "one core", a_second / 1e3);
        }
    });
}

/// How many answers come in this time.
fn serve(program: &Program, time: Duration) -> io::Result<u32> {
    let server = program.launch(cpus()[0], 0)?;
    let client = UdpSocket::bind("127.0.0.1:0")?;
    client.connect(server.address)?;
    client.set_read_timeout(Some(LOST_AFTER))?;
    let mut answer = [0; 512];
    let mut serves = || client.send(QUESTION).is_ok() && client.recv(&mut answer).is_ok();
    if !pace::until(&mut serves) {
        return Err(io::Error::other("it does not serve"));
    }
    let (mut answers, mut under_way) = (0, 0_u32);
    let began = Instant::now();
    while began.elapsed() < time {
        while under_way < UNDER_WAY {
            client.send(QUESTION)?;
            under_way += 1;
        }
        match client.recv(&mut answer) {
            Ok(_) => (answers, under_way) = (answers + 1, under_way.saturating_sub(1)),
            Err(error) if error.kind() == ErrorKind::WouldBlock => under_way = 0,
            Err(error) => return Err(error),
        }
    }
    Ok(answers)
}
