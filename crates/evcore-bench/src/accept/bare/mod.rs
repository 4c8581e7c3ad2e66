//! Servers over epoll and nothing else: the ways to share a listener that need no lock.

mod listener;
mod worker;

use std::process::Stdio;

use super::launch::{Launch, this_program};
use super::server::Server;

pub(crate) use self::worker::serve;

/// How the workers of a bare server share.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Sharing {
    /// One listener, level-triggered: all are woken.
    Shared,
    /// One listener, `EPOLLEXCLUSIVE`: one is woken, mostly the same.
    Exclusive,
    /// The same, and a worker that has accepted 16 goes behind the others, as in nginx since 1.21.6.
    Readded,
    /// A listener each, among which the kernel chooses by the client's address.
    ReusePort,
}

impl Sharing {
    const ALL: [(&'static str, Sharing); 4] = [
        ("shared", Sharing::Shared),
        ("exclusive", Sharing::Exclusive),
        ("readded", Sharing::Readded),
        ("reuseport", Sharing::ReusePort),
    ];

    /// As the argument of a worker.
    fn word(self) -> &'static str {
        let found = Self::ALL.iter().find(|(_, sharing)| *sharing == self);
        found.expect("all are listed").0
    }

    fn of(word: &str) -> Option<Sharing> {
        let found = Self::ALL.iter().find(|(other, _)| *other == word);
        found.map(|(_, sharing)| *sharing)
    }
}

/// Starts workers, each of which has its listener as its standard input.
///
/// # Errors
///
/// What the system refuses.
pub(super) fn start(sharing: Sharing, launch: Launch, workers: usize) -> Result<Server, String> {
    let listeners = listener::listeners(sharing, workers);
    let (address, listeners) = listeners.map_err(|error| format!("listening: {error}"))?;
    let program = this_program();
    let mut started = Vec::new();
    for listener in listeners {
        let mut command = launch.command(program.get_program());
        command
            .args(["bare", sharing.word()])
            .stdin(Stdio::from(listener));
        match command.spawn() {
            Ok(child) => started.push(child),
            // Those that are started end with this value.
            Err(error) => {
                drop(Server::of_workers(started, address));
                return Err(format!("starting a worker: {error}"));
            }
        }
    }
    Server::of_workers(started, address).ready()
}
