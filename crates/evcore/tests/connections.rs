//! `Connections`: one call adds a connection, one call ends it, and a stale token finds nothing.

use std::{
    io::{ErrorKind, Read, Write},
    os::{fd::OwnedFd, unix::net::UnixStream},
};

use evcore::{Connections, Error, EventLoop, Ready, Step, Stream};

fn pair() -> (UnixStream, Stream) {
    let (near, far) = UnixStream::pair().unwrap();
    (near, Stream::from(OwnedFd::from(far)))
}

#[test]
fn a_stream_that_the_loop_refuses_is_closed_and_takes_no_slot() {
    let mut ev = EventLoop::builder().connections(1).build().unwrap();
    let mut conns = Connections::new();
    let (_first, far) = pair();
    let token = conns.add(&mut ev, far, 1).unwrap();
    let (mut refused, far) = pair();
    assert!(matches!(
        conns.add(&mut ev, far, 2),
        Err(Error::Full { limit: 1 })
    ));
    assert_eq!(refused.read(&mut [0; 1]).unwrap(), 0, "it is closed");
    assert_eq!((conns.len(), ev.stats().active), (1, 1));
    assert!(conns.close(&mut ev, token));
    let (_third, far) = pair();
    assert!(conns.add(&mut ev, far, 3).is_ok());
}

#[test]
fn a_stale_token_finds_nothing() {
    let mut ev = EventLoop::builder().build().unwrap();
    let mut conns = Connections::new();
    let (_near, far) = pair();
    let old = conns.add(&mut ev, far, "old").unwrap();
    let (stream, value) = conns.remove(&mut ev, old).unwrap();
    assert_eq!(value, "old");
    let new = conns.add(&mut ev, stream, "new").unwrap();
    assert_eq!(new.index(), old.index());
    assert!(conns.ready(old, Ready::READABLE).is_none());
    assert!(conns.get(old).is_none() && conns.get_mut(old).is_none());
    assert!(!conns.close(&mut ev, old) && conns.remove(&mut ev, old).is_none());
    assert!(conns.contains(new) && conns.len() == 1);
}

#[test]
fn two_connections_are_lent_at_once_in_the_requested_order() {
    let mut ev = EventLoop::builder().build().unwrap();
    let mut conns = Connections::new();
    let (mut near, far) = pair();
    let (mut other_near, other_far) = pair();
    let (ended_near, ended_far) = pair();
    let a = conns.add(&mut ev, far, 'a').unwrap();
    let b = conns.add(&mut ev, other_far, 'b').unwrap();
    let ended = conns.add(&mut ev, ended_far, 'c').unwrap();
    conns.close(&mut ev, ended);
    drop(ended_near);
    assert!(conns.get_disjoint_mut([a, a]).is_none());
    assert!(conns.get_disjoint_mut([a, ended]).is_none());
    assert!(conns.get_disjoint_mut([ended, a]).is_none());
    let [(_, first), (_, second)] = conns.get_disjoint_mut([b, a]).unwrap();
    assert_eq!((*first, *second), ('b', 'a'));

    near.write_all(b"hello").unwrap();
    ev.wait().unwrap();
    while let Some(Step::Ready(token, ready)) = ev.next_step() {
        conns.ready(token, ready).unwrap();
    }
    let [(from, _), (to, _)] = conns.get_disjoint_mut([a, b]).unwrap();
    let mut buffer = [0; 16];
    let received = from.recv(&mut ev, &mut buffer).unwrap();
    assert_eq!(to.send(&mut ev, &buffer[..received]).unwrap(), 5);
    assert_eq!(other_near.read(&mut buffer).unwrap(), 5);
}

#[test]
fn retain_closes_the_other_connections() {
    let mut ev = EventLoop::builder().build().unwrap();
    let mut conns = Connections::new();
    let (nears, fars): (Vec<_>, Vec<_>) = (0..3).map(|_| pair()).unzip();
    for (number, far) in fars.into_iter().enumerate() {
        conns.add(&mut ev, far, number).unwrap();
    }
    conns.retain(&mut ev, |_, (_, number)| *number == 1);
    let left: Vec<usize> = conns.iter().map(|(_, (_, number))| *number).collect();
    assert_eq!(left, [1]);
    for (number, mut near) in nears.into_iter().enumerate() {
        near.set_nonblocking(true).unwrap();
        let read = near.read(&mut [0; 1]).map_err(|error| error.kind());
        let expected = if number == 1 {
            Err(ErrorKind::WouldBlock)
        } else {
            Ok(0)
        };
        assert_eq!(read, expected);
    }
    for (_, (stream, number)) in conns.iter_mut() {
        assert!(!stream.is_readable());
        *number += 1;
    }
    assert_eq!(ev.stats().active, 1);
}
