//! A worker that really has no descriptor left to accept with.
//!
//! The limit belongs to the whole process, so this test has a process of its own.

#![cfg(target_os = "linux")] // other systems may check the limit at another moment of `accept`

use std::{fs::File, net::TcpStream, time::Duration};

use evcore::{
    EventLoop, Interest, Listener, Mode, Step, TokenMap,
    clock::{Clock, ManualTimeSource},
};
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

/// Calls a function while this process cannot open anything.
fn without_descriptors<T>(call: impl FnOnce() -> T) -> T {
    let before = getrlimit(Resource::Nofile);
    let none = Rlimit {
        current: Some(0),
        ..before
    };
    setrlimit(Resource::Nofile, none).unwrap();
    let result = call();
    setrlimit(Resource::Nofile, before).unwrap();
    result
}

/// Makes a turn that does not sleep, because a wake-up ends its wait. Returns the number of
/// accepted clients.
fn accepted(ev: &mut EventLoop) -> usize {
    ev.handle().wake();
    ev.wait().unwrap();
    let steps = std::iter::from_fn(|| ev.next_step());
    steps
        .filter(|step| matches!(step, Step::Accepted(_)))
        .count()
}

/// Waits for the loop to listen. Then makes a turn in which the waiting clients cannot be accepted.
fn runs_out(ev: &mut EventLoop, pauses: u64) {
    while !ev.stats().listening {
        assert_eq!(accepted(ev), 0);
    }
    assert_eq!(without_descriptors(|| accepted(ev)), 0);
    assert_eq!(ev.stats().accept_pauses, pauses);
}

#[test]
fn accepting_pauses_until_a_timeout_or_a_closed_descriptor() {
    let time = ManualTimeSource::new();
    let listener = Listener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().tcp().unwrap();
    let mut ev = EventLoop::builder()
        .listener(listener)
        .clock(Clock::with_source(time.clone()))
        .build()
        .unwrap();
    let file = File::open("/dev/zero").unwrap();
    let mut served = TokenMap::new();
    let can_be_polled = served.add(&mut ev, file, Interest::NONE, Mode::Level);
    let token = can_be_polled.unwrap();

    accepted(&mut ev);
    let _clients = [(); 2].map(|()| TcpStream::connect(address).unwrap());
    runs_out(&mut ev, 1);
    // The clients still wait. The listener is not watched, so they do not make the loop spin.
    assert_eq!(accepted(&mut ev), 0);
    assert!(!ev.stats().listening);
    assert_eq!(ev.stats().accept_pauses, 1, "it does not even try");

    time.advance(Duration::from_millis(499));
    assert_eq!(accepted(&mut ev), 0);
    assert_eq!(accepted(&mut ev), 0);
    time.advance(Duration::from_millis(1));
    assert_eq!(accepted(&mut ev), 2);

    let _client = TcpStream::connect(address).unwrap();
    runs_out(&mut ev, 2);
    assert_eq!(accepted(&mut ev), 0);
    assert!(served.close(&mut ev, token));
    assert_eq!(
        accepted(&mut ev),
        1,
        "a descriptor was closed, and no time has passed"
    );
}
