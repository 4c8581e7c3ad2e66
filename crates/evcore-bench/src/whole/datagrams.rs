//! The example `udp` on the first CPU, and a client that has 64 questions under way on the last.

use std::error::Error;
use std::io::{self, ErrorKind};
use std::net::{SocketAddr, UdpSocket};
use std::path::Path;
use std::process::Stdio;
use std::time::{Duration, Instant};

use super::servers;
use crate::accept::launch::Launch;
use crate::accept::listening_address;
use crate::report::Report;
use crate::run::Run;

const UDP: &str = "udp";
const ANSWERS: &str = "answers";
const UNDER_WAY: u32 = 64;
/// The kernel drops datagrams that it has no room for.
const LOST_AFTER: Duration = Duration::from_millis(200);

/// One question of DNS: for the address of `example.org`.
const QUESTION: &[u8] = b"\x12\x34\x01\0\0\x01\0\0\0\0\0\0\x07example\x03org\0\0\x01\0\x01";

/// Measures how many questions are answered.
pub(crate) fn measure(run: &Run, report: &mut Report) {
    report.table(
        ANSWERS,
        "Answered datagrams",
        "thousand/s",
        "Questions of DNS that the example `udp` answers in a second of wall-clock time. It receives \
         and sends each datagram by a call of its own.",
    );
    let program = match servers::example(run, "evcore", UDP) {
        Ok(program) => program,
        Err(error) => return report.absent(UDP, &error.to_string()),
    };
    let launch = Launch::beside_this_thread();
    let time = Duration::from_millis(if run.quick { 100 } else { 500 });
    run.rounds("datagrams", || match serve(launch, &program, time) {
        Ok(answers) => {
            let a_second = f64::from(answers) / time.as_secs_f64();
            report.add(ANSWERS, UDP, "one core", a_second / 1e3);
        }
        Err(error) => report.absent(UDP, &error.to_string()),
    });
}

fn serve(launch: Launch, program: &Path, time: Duration) -> Result<u32, Box<dyn Error>> {
    let mut command = launch.command(program);
    command.args(["127.0.0.1:0", "192.0.2.1"]);
    let mut server = command.stderr(Stdio::piped()).spawn()?;
    let address = listening_address(server.stderr.take().expect("it was just set"));
    let answers = address.map(|address| answers(address, time));
    server.kill()?;
    server.wait()?;
    Ok(answers??)
}

/// How many answers come in this time.
fn answers(server: SocketAddr, time: Duration) -> io::Result<u32> {
    let client = UdpSocket::bind("127.0.0.1:0")?;
    client.connect(server)?;
    client.set_read_timeout(Some(LOST_AFTER))?;
    let (mut answers, mut under_way, mut answer) = (0, 0_u32, [0; 512]);
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
