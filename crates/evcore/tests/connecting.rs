//! Connecting in a loop: the result is a step, and a timer of the loop ends the wait for it.

#![cfg(target_os = "linux")] // here a full backlog keeps the client's connection in progress

use std::{net::TcpStream, time::Duration};

use evcore::{
    EdgeStream, EventLoop, Interest, Listener, Mode, Step, Stream, Timer, TokenMap,
    poller::BackendKind,
};

const CONNECT: Timer = Timer::WRITE;

/// A listener whose backlog is full, so that a client's connection stays in progress, and the
/// client that fills it.
fn deaf_listener() -> (Listener, TcpStream) {
    let listener = Listener::builder().backlog(0).bind("127.0.0.1:0").unwrap();
    let client = TcpStream::connect(listener.local_addr()).unwrap();
    (listener, client)
}

#[test]
fn a_connection_that_is_not_made_in_time_is_closed() {
    for kind in &BackendKind::usable() {
        let (listener, _client) = deaf_listener();
        let mut ev = EventLoop::builder().poller(*kind).build().unwrap();
        let mut upstreams = TokenMap::new();
        let stream = Stream::connect(listener.local_addr()).unwrap();
        let stream = EdgeStream::add(&mut ev, stream).unwrap();
        let token = stream.token();
        upstreams.insert(token, stream);
        ev.arm(token, CONNECT, Duration::from_millis(20));
        ev.wait().unwrap();
        let Some(Step::Expired(expired, timer)) = ev.next_step() else {
            panic!("{kind}: nothing else can happen");
        };
        assert_eq!((expired, timer), (token, CONNECT));
        assert!(upstreams.close(&mut ev, token));
        assert!(ev.next_step().is_none());
        assert_eq!(ev.stats().active, 0);
    }
}

#[test]
fn the_timer_of_a_connection_made_in_time_can_be_disarmed() {
    for kind in &BackendKind::usable() {
        let listener = Listener::bind("127.0.0.1:0").unwrap();
        let mut ev = EventLoop::builder().poller(*kind).build().unwrap();
        let mut upstreams = TokenMap::new();
        let stream = Stream::connect(listener.local_addr()).unwrap();
        // `Mode::Level` works as well, because the stream is watched for writing only until it is
        // connected.
        let token = upstreams
            .add(&mut ev, stream, Interest::WRITE, Mode::Level)
            .unwrap();
        ev.arm(token, CONNECT, Duration::from_secs(60));
        ev.wait().unwrap();
        let Some(Step::Ready(ready, _)) = ev.next_step() else {
            panic!("{kind}: the listener has room");
        };
        assert_eq!(ready, token);
        let stream = upstreams.get(token).unwrap();
        assert!(stream.take_error().unwrap().is_none());
        assert!(ev.disarm(token, CONNECT));
        ev.modify(token, Interest::READ).unwrap();
        assert_eq!(stream.send(b"hello").unwrap(), 5);
    }
}
