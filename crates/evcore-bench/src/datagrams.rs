//! Datagrams: DNS questions, answered by the example `udp` and by a bare loop in C, each on one
//! core.

use std::io::{self, ErrorKind};
use std::net::UdpSocket;
use std::time::{Duration, Instant};

use crate::cpus::become_client;
use crate::pace;
use crate::report::Report;
use crate::run::Run;
use crate::server::{self, Program};
use crate::whole::ms;

/// Number of questions that are under way at a time.
const UNDER_WAY: u32 = 64;
/// Time after which a question counts as lost. (The kernel drops datagrams that it has no room
/// for.)
const LOST_AFTER: Duration = Duration::from_millis(200);
/// A DNS question for the address of `example.org`.
const QUESTION: &[u8] = b"\x12\x34\x01\0\0\x01\0\0\0\0\0\0\x07example\x03org\0\0\x01\0\x01";

pub(crate) fn measure(run: &Run, report: &mut Report) {
    let programs = server::programs(run, report, "udp");
    become_client();
    run.rounds("datagrams", || {
        for program in &programs {
            let answers = answers_a_second(program, ms(run, 500));
            if let Some(answers) = report.or_absent(&program.name, answers) {
                report.add("answers", &program.name, "one core", answers / 1e3);
            }
        }
    });
}

/// Number of answers per second, with 64 questions under way.
fn answers_a_second(program: &Program, time: Duration) -> io::Result<f64> {
    let server = program.launch(0)?;
    let client = UdpSocket::bind("127.0.0.1:0")?;
    client.connect(server.address)?;
    client.set_read_timeout(Some(LOST_AFTER))?;
    let mut answer = [0; 512];
    let serves = || client.send(QUESTION).is_ok() && client.recv(&mut answer).is_ok();
    if !pace::until(serves) {
        return Err(io::Error::other("it does not serve"));
    }
    let (mut answers, mut due) = (0_u32, UNDER_WAY);
    let began = Instant::now();
    while began.elapsed() < time {
        for _ in 0..due {
            client.send(QUESTION)?;
        }
        due = match client.recv(&mut answer) {
            Ok(_) => {
                answers += 1;
                1
            }
            Err(error) if error.kind() == ErrorKind::WouldBlock => UNDER_WAY,
            Err(error) => return Err(error),
        };
    }
    Ok(f64::from(answers) / time.as_secs_f64())
}
