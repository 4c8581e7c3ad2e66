//! An echo server that is generic over its listener, and keeps a log of its steps.

use std::{
    io::{self, ErrorKind},
    time::Duration,
};

use evcore::{
    Acceptor, Connections, EdgeStream, EventLoop, Step, Timer, Transport, poller::Source,
};

const IDLE: Duration = Duration::from_secs(60);

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Bug {
    None,
    /// The server panics at this request.
    PanicsAt(u32),
    /// The server answers this request in capital letters.
    ShoutsAt(u32),
    /// After this request, the server ignores the next `Step::Ready`. It neither receives nor
    /// rearms. So if the backend has no edge triggering, the connection gets no further
    /// `Step::Ready`.
    LosesRearmAt(u32),
    /// The server closes the connection of this request.
    HangsUpAt(u32),
}

#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Log {
    /// Each step, with the time of its turn.
    pub(crate) steps: Vec<String>,
    pub(crate) requests: u32,
    pub(crate) sent: Vec<u8>,
    /// Number of connections that were closed, except by timeouts.
    pub(crate) closed: u32,
    pub(crate) lost_rearm: bool,
}

/// Serves until a wait fails, or until `is_done` holds after a turn.
pub(crate) fn serve<L>(
    ev: &mut EventLoop<L>,
    log: &mut Log,
    bug: Bug,
    mut is_done: impl FnMut(&Log) -> bool,
) -> Result<(), evcore::Error>
where
    L: Acceptor<Stream: Transport + Source>,
{
    let mut server = Server {
        conns: Connections::new(),
        bug,
    };
    while !is_done(log) {
        ev.wait()?;
        let now = ev.clock().monotonic_ns();
        let date = ev.clock().http_date().as_str().to_owned();
        while let Some(step) = ev.next_step() {
            log.steps.push(format!("{now} {date} {}", name_of(&step)));
            server.handle(ev, step, log);
        }
    }
    Ok(())
}

fn name_of<S>(step: &Step<S>) -> String {
    match step {
        Step::Accepted(new) => format!("Accepted {} from {}", new.listener, new.peer),
        Step::Ready(token, ready) => format!("Ready {token} {ready:?}"),
        Step::Expired(token, timer) => format!("Expired {token} {timer:?}"),
        Step::Woken => "Woken".to_owned(),
        Step::ShuttingDown => "ShuttingDown".to_owned(),
        Step::Evict(token) => format!("Evict {token}"),
    }
}

struct Server<S> {
    /// The connections, each with the bytes that are not sent yet.
    conns: Connections<Vec<u8>, S>,
    bug: Bug,
}

impl<S: Transport + Source> Server<S> {
    fn handle<L: Acceptor<Stream = S>>(
        &mut self,
        ev: &mut EventLoop<L>,
        step: Step<S>,
        log: &mut Log,
    ) {
        match step {
            Step::Accepted(new) => {
                if let Ok(token) = self.conns.add(ev, new.stream, Vec::new()) {
                    ev.arm(token, Timer::READ, IDLE);
                }
            }
            Step::Ready(token, ready) => {
                let bug = self.bug;
                let Some((stream, unsent)) = self.conns.ready(token, ready) else {
                    return;
                };
                let progress = progress(ev, stream, unsent, bug, log);
                ev.arm(token, Timer::READ, IDLE);
                if progress.is_err_and(|error| error.kind() != ErrorKind::WouldBlock) {
                    self.conns.close(ev, token);
                    log.closed += 1;
                }
            }
            Step::Expired(token, _) => {
                self.conns.close(ev, token);
            }
            _ => {}
        }
    }
}

/// Returns whether the bug `LosesRearmAt` occurs now. It occurs once.
fn is_rearm_lost(bug: Bug, log: &mut Log) -> bool {
    let is_now = matches!(bug, Bug::LosesRearmAt(request) if request <= log.requests);
    is_now && !std::mem::replace(&mut log.lost_rearm, true)
}

/// Receives and sends until a call would block. Any other error ends the connection.
fn progress<L: Acceptor<Stream = S>, S: Transport + Source>(
    ev: &mut EventLoop<L>,
    stream: &mut EdgeStream<S>,
    unsent: &mut Vec<u8>,
    bug: Bug,
    log: &mut Log,
) -> io::Result<()> {
    if is_rearm_lost(bug, log) {
        return Ok(());
    }
    loop {
        while !unsent.is_empty() {
            let sent = stream.send(ev, unsent)?;
            log.sent.extend(unsent.drain(..sent));
        }
        let mut buffer = [0; 16];
        let received = stream.recv(ev, &mut buffer)?;
        if received == 0 {
            return Err(ErrorKind::UnexpectedEof.into());
        }
        for byte in &buffer[..received] {
            log.requests += 1;
            assert_ne!(bug, Bug::PanicsAt(log.requests), "planted");
            if bug == Bug::HangsUpAt(log.requests) {
                return Err(ErrorKind::UnexpectedEof.into());
            }
            let shouts = bug == Bug::ShoutsAt(log.requests);
            unsent.push(if shouts {
                byte.to_ascii_uppercase()
            } else {
                *byte
            });
        }
    }
}
