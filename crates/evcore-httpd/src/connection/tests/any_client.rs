//! A property test of a connection: the client and the server act in any order.

use std::time::Duration;

use evcore::Timer;
use proptest::prelude::*;

use super::{BODIES, Fixture, get};
use crate::timers::{RECEIVE, SEND};

#[derive(Clone, Debug)]
enum Op {
    Send(String),
    Receive(usize),
    SetSlow(bool),
    ShutDown,
    Expire(Timer),
    Evict,
    Stop,
    Advance(Duration),
    OthersHold(usize),
}

fn request() -> impl Strategy<Value = String> {
    prop_oneof![
        8 => Just(get("/")),
        4 => Just(get("/bytes/16384")),
        4 => Just(get("/bytes/200000")),
        4 => Just(get("/sleep/1000")),
        2 => Just(get("/nothing")),
        2 => Just(get("/status").replace("GET", "HEAD")),
        1 => Just("GET / HTTP/1.0\r\n\r\n".to_owned()),
        1 => Just("GARBAGE\r\n".to_owned()),
        1 => Just("\r\n\n".to_owned()),
        1 => Just("GET /sleep/1 HTTP/1.0\r\n\r\n".to_owned()),
        4 => (0..100_000usize).prop_map(|n| format!(
            "POST /echo HTTP/1.1\r\nHost: t\r\nContent-Length: {n}\r\n\r\n{}",
            "x".repeat(n)
        )),
        2 => (1..100usize).prop_map(|n| format!(
            "POST /echo HTTP/1.1\r\nHost: t\r\nTransfer-Encoding: chunked\r\n\r\n\
             {n:x}\r\n{}\r\n0\r\n\r\n",
            "x".repeat(n)
        )),
        1 => Just(
            "POST /echo HTTP/1.1\r\nHost: t\r\nExpect: 100-continue\r\nContent-Length: 1\r\n\r\n"
                .to_owned()
        ),
        1 => Just(
            "POST / HTTP/1.1\r\nHost: t\r\nExpect: 100-continue\r\nContent-Length: 1\r\n\r\n"
                .to_owned()
        ),
    ]
}

fn ops() -> impl Strategy<Value = Vec<Op>> {
    let requests = prop::collection::vec(request(), 1..40).prop_map(|all| all.concat());
    let sends = (requests, 0..2_000usize).prop_map(|(mut text, part)| {
        // Half of the sends are cut short, so that the next send may come while a request is
        // incomplete.
        text.truncate(text.len() * part.min(1_000) / 1_000);
        Op::Send(text)
    });
    let timer = prop_oneof![Just(RECEIVE), Just(SEND)];
    let op = prop_oneof![
        8 => sends,
        4 => (0..300_000usize).prop_map(Op::Receive),
        2 => Just(Op::Receive(100_000_000)),
        1 => any::<bool>().prop_map(Op::SetSlow),
        3 => timer.prop_map(Op::Expire),
        1 => Just(Op::ShutDown),
        1 => Just(Op::Evict),
        1 => Just(Op::Stop),
        1 => (0..1500_u64).prop_map(|ms| Op::Advance(Duration::from_millis(ms))),
        2 => (0..=BODIES).prop_map(Op::OthersHold),
        1 => Just(Op::OthersHold(BODIES)),
    ];
    prop::collection::vec(op, 1..20)
}

proptest! {
    #[test]
    fn invariants_hold_for_any_client(ops in ops()) {
        let mut fixture = Fixture::new();
        for op in ops {
            match op {
                Op::Send(text) => fixture.send(&text),
                Op::Receive(n) => fixture.receive(n),
                Op::SetSlow(is_slow) => fixture.client.is_slow = is_slow,
                Op::ShutDown => fixture.shut_down(),
                Op::Expire(timer) => {
                    fixture.expire(timer);
                }
                Op::Evict => fixture.evict(),
                Op::Stop => fixture.stop(),
                Op::Advance(time) => fixture.advance(time),
                Op::OthersHold(bytes) => fixture.others_hold(bytes),
            }
        }
    }
}
