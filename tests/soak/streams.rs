//! Streams whose bytes are verified, to an upstream that sends them back.
//!
//! iperf3 gives up if one of its streams ends. These streams connect again, and count their early
//! ends.

use std::{
    io::{self, Read, Write},
    net::{SocketAddr, TcpStream},
    sync::mpsc::{self, Receiver},
    thread,
    time::{Duration, Instant},
};

use evcore_tests::PATIENCE;

/// Number of bytes in a piece. They are enough that the proxy moves them by `splice`. They also fit
/// into the kernel's buffers, because a stream reads only after it has sent the whole piece.
const PIECE: usize = 64 * 1024;

#[derive(Debug, Default)]
pub(super) struct Report {
    /// The data that was sent and came back, in MiB.
    pub(super) mib: usize,
    /// Number of streams that ended before the time was over.
    pub(super) ended: u64,
}

pub(super) fn start(server: SocketAddr, streams: usize, seconds: usize) -> Receiver<Report> {
    let (sender, receiver) = mpsc::channel();
    thread::spawn(move || {
        let over = Instant::now() + Duration::from_secs(seconds as u64);
        let run = |_| thread::spawn(move || run(server, over));
        let runs: Vec<_> = (0..streams).map(run).collect();
        let mut all = Report::default();
        for run in runs {
            let (pieces, ended) = run.join().expect("all bytes are those that were sent");
            all.mib += (pieces * PIECE) >> 20;
            all.ended += ended;
        }
        let _ = sender.send(all);
    });
    receiver
}

/// Returns the number of pieces that came back, and of streams that ended early.
fn run(server: SocketAddr, over: Instant) -> (usize, u64) {
    let (mut pieces, mut ended) = (0, 0);
    while Instant::now() < over {
        let mut stream = TcpStream::connect(server).expect("the master has the listener");
        stream.set_read_timeout(Some(PATIENCE)).expect("a time");
        stream.set_write_timeout(Some(PATIENCE)).expect("a time");
        while Instant::now() < over {
            match pass(&mut stream, pieces) {
                Ok(()) => pieces += 1,
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => panic!("it hangs"),
                Err(_) => {
                    ended += 1;
                    break;
                }
            }
        }
    }
    (pieces, ended)
}

fn pass(stream: &mut TcpStream, number: usize) -> io::Result<()> {
    let mut piece = vec![number.to_le_bytes()[0]; PIECE];
    piece[..8].copy_from_slice(&(number as u64).to_le_bytes());
    stream.write_all(&piece)?;
    let mut back = vec![0; PIECE];
    stream.read_exact(&mut back)?;
    assert!(back == piece, "other bytes than were sent");
    Ok(())
}
