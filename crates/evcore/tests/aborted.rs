//! Connections that are lost before they can be accepted. Each counts as the loss of one client.
//! Thousands of losses in a row are a failure of the listener.

use std::{
    cell::Cell,
    io::Write,
    os::{fd::AsFd, fd::BorrowedFd, unix::net::UnixStream},
    rc::Rc,
    time::Duration,
};

use evcore::{
    Acceptor, Builder, Error, EventLoop, Step,
    clock::{Clock, ManualTimeSource},
    net::{self, Accept},
};

/// A listener that stays readable, and loses connections.
#[derive(Debug)]
struct Losing {
    readable: UnixStream,
    _writer: UnixStream,
    script: Rc<Script>,
}

#[derive(Debug, Default)]
struct Script {
    calls: Cell<u32>,
    /// Number of calls that lose a connection. After them comes one client, and then none.
    losses: Cell<u32>,
}

impl AsFd for Losing {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.readable.as_fd()
    }
}

impl Acceptor for Losing {
    type Stream = UnixStream;

    fn accept(&self) -> Result<Accept<UnixStream>, net::Error> {
        let calls = self.script.calls.get() + 1;
        self.script.calls.set(calls);
        Ok(match self.script.losses.get() {
            losses if calls <= losses => Accept::Aborted,
            losses if calls == losses + 1 => {
                let (client, _) = UnixStream::pair().unwrap();
                Accept::Connection(client, ([127, 0, 0, 1], 1).into())
            }
            _ => Accept::WouldBlock,
        })
    }
}

fn losing(losses: u32) -> (EventLoop<Losing>, Rc<Script>, ManualTimeSource) {
    let (readable, mut writer) = UnixStream::pair().unwrap();
    writer.write_all(b"x").unwrap();
    let (script, time) = (Rc::new(Script::default()), ManualTimeSource::new());
    script.losses.set(losses);
    let listener = Losing {
        readable,
        _writer: writer,
        script: Rc::clone(&script),
    };
    let clock = Clock::with_source(time.clone());
    let ev = Builder::default().listener(listener).clock(clock).build();
    (ev.unwrap(), script, time)
}

/// Runs one iteration of the loop, which a wake-up keeps from sleeping. Returns the number of
/// accepted clients.
fn turn(ev: &mut EventLoop<Losing>) -> usize {
    ev.handle().wake();
    ev.wait().unwrap();
    let steps = std::iter::from_fn(|| ev.next_step());
    steps
        .filter(|step| matches!(step, Step::Accepted(_)))
        .count()
}

#[test]
fn a_backlog_of_lost_connections_delays_no_other_client() {
    let (mut ev, _, _) = losing(5_000);
    while turn(&mut ev) == 0 {
        assert!(ev.stats().listening);
    }
    assert_eq!((ev.stats().aborted, ev.stats().accepted), (5_000, 1));
    assert_eq!(ev.stats().listener_errors, 0);
}

#[test]
fn a_listener_that_only_loses_connections_is_suspended() {
    let (mut ev, script, time) = losing(u32::MAX);
    while ev.stats().listener_errors == 0 {
        assert_eq!(turn(&mut ev), 0);
    }
    let error = ev.listeners().take_error().unwrap();
    assert!(matches!(error.source, Error::Aborted { .. }), "{error}");
    let calls = script.calls.get();
    assert_eq!(ev.stats().aborted, u64::from(calls));
    for _ in 0..3 {
        turn(&mut ev);
        assert!(!ev.stats().listening);
    }
    assert_eq!(
        script.calls.get(),
        calls,
        "a suspended listener is not tried"
    );

    // From now on, accepting succeeds.
    script.losses.set(calls);
    time.advance(Duration::from_millis(500));
    while turn(&mut ev) == 0 {}
    assert_eq!(ev.stats().accepted, 1);
}
