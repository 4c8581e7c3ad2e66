use std::cell::Cell;

use super::*;
use crate::Address;

/// A stream that counts its calls.
#[derive(Debug, Default)]
struct Fake {
    data: Cell<usize>,
    room: Cell<usize>,
    calls: Cell<u32>,
}

impl Fake {
    fn take(&self, left: &Cell<usize>, wanted: usize) -> io::Result<usize> {
        self.calls.set(self.calls.get() + 1);
        let taken = left.get().min(wanted);
        left.set(left.get() - taken);
        if taken == 0 {
            return Err(ErrorKind::WouldBlock.into());
        }
        Ok(taken)
    }
}

impl Transport for Fake {
    fn recv(&self, buffer: &mut [u8]) -> io::Result<usize> {
        self.take(&self.data, buffer.len())
    }
    fn send(&self, bytes: &[u8]) -> io::Result<usize> {
        self.take(&self.room, bytes.len())
    }
    fn shutdown_write(&self) -> io::Result<()> {
        Ok(())
    }
    fn peer_addr(&self) -> io::Result<Address> {
        Err(ErrorKind::Unsupported.into())
    }
    fn take_error(&self) -> io::Result<Option<io::Error>> {
        Ok(None)
    }
}

#[derive(Default)]
struct Loop {
    turn: u64,
    rearmed: Vec<Side>,
    resumed: u32,
}

impl EdgeLoop for Loop {
    type Token = u8;

    fn turn(&self) -> u64 {
        self.turn
    }
    fn rearm(&mut self, token: u8, side: Side) {
        assert_eq!(token, 7);
        self.rearmed.push(side);
    }
    fn resume(&mut self, token: u8) {
        assert_eq!(token, 7);
        self.resumed += 1;
    }
}

/// A stream that is reported as readable and writable, but not as ending.
fn ready(data: usize, room: usize) -> (EdgeStream<Fake, u8>, Loop) {
    let (data, room) = (Cell::new(data), Cell::new(room));
    let fake = Fake {
        data,
        room,
        ..Fake::default()
    };
    let mut stream = EdgeStream::new(fake, 7);
    stream.on_edges(Edges {
        readable: true,
        writable: true,
        ending: false,
    });
    (stream, Loop::default())
}

fn assert_blocks<R>(result: &io::Result<R>) {
    assert!(would_block(result), "the call does not block");
}

#[test]
fn a_stream_blocks_without_a_call_until_the_first_report() {
    let (mut ev, mut stream) = (Loop::default(), EdgeStream::new(Fake::default(), 7));
    assert_blocks(&stream.recv(&mut ev, &mut [0; 8]));
    assert_blocks(&stream.send(&mut ev, b"data"));
    assert_eq!(stream.get_ref().calls.get(), 0);
    assert!(ev.rearmed.is_empty());
}

#[test]
fn a_short_read_drains_a_stream_and_a_full_one_does_not() {
    let (mut stream, mut ev) = ready(8 + 3, 0);
    assert_eq!(stream.recv(&mut ev, &mut [0; 8]).unwrap(), 8);
    assert!(stream.is_readable() && ev.rearmed.is_empty());
    assert_eq!(stream.recv(&mut ev, &mut [0; 8]).unwrap(), 3);
    assert!(!stream.is_readable());
    assert_eq!(ev.rearmed, [Side::Read]);
    assert_blocks(&stream.recv(&mut ev, &mut [0; 8]));
    assert_eq!(stream.get_ref().calls.get(), 2);
}

#[test]
fn a_short_read_after_a_reported_end_drains_nothing() {
    let (mut stream, mut ev) = ready(3, 0);
    stream.on_edges(Edges {
        ending: true,
        ..Edges::default()
    });
    assert_eq!(stream.recv(&mut ev, &mut [0; 8]).unwrap(), 3);
    assert!(stream.is_readable(), "the end has no report of its own");
    assert!(ev.rearmed.is_empty());
}

#[test]
fn a_short_write_fills_a_stream() {
    let (mut stream, mut ev) = ready(0, 5);
    let buffers = [IoSlice::new(b"abc"), IoSlice::new(b"defg")];
    assert_eq!(stream.send_vectored(&mut ev, &buffers).unwrap(), 5);
    assert!(!stream.is_writable() && stream.is_readable());
    assert_eq!(ev.rearmed, [Side::Write]);
}

#[test]
fn after_32_calls_in_a_turn_a_stream_goes_on_in_the_next() {
    let (mut stream, mut ev) = ready(100, 0);
    for _ in 0..CALLS_MAX {
        assert_eq!(stream.recv(&mut ev, &mut [0; 1]).unwrap(), 1);
    }
    assert_blocks(&stream.recv(&mut ev, &mut [0; 1]));
    assert_eq!(stream.get_ref().calls.get(), 32);
    assert_eq!((ev.resumed, ev.rearmed.len()), (1, 0));
    ev.turn += 1;
    assert_eq!(stream.recv(&mut ev, &mut [0; 1]).unwrap(), 1);
}

#[test]
fn a_side_that_has_used_its_calls_leaves_the_other_side_its_own() {
    let (mut stream, mut ev) = ready(100, 5);
    for _ in 0..3 {
        while stream.recv(&mut ev, &mut [0; 1]).is_ok() {}
        assert_eq!(stream.send(&mut ev, b"a").unwrap(), 1);
        ev.turn += 1;
    }
}
