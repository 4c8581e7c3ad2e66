//! Resolves host names on the threads of a pool, for an event loop that uses mio.
//!
//! `cargo run -p evcore-pool --example resolve_with_mio -- localhost:80 127.0.0.1:443`

use std::{env, error::Error, net::ToSocketAddrs};

use evcore_pool::Pool;
use mio::{Events, Poll, Token, Waker};

/// The token of the waker's events. The ids of the jobs are tokens, too. They are not registered
/// with mio, so a job may have this token as well.
const WOKEN: Token = Token(0);

fn main() -> Result<(), Box<dyn Error>> {
    let (mut poll, mut events) = (Poll::new()?, Events::with_capacity(16));
    let waker = Waker::new(poll.registry(), WOKEN)?;
    let wake = move || waker.wake().expect("the kernel takes a wake-up");
    let mut pool = Pool::new(4, 1_000, wake)?;
    let names: Vec<String> = env::args().skip(1).collect();
    for (n, name) in names.iter().cloned().enumerate() {
        let job = move || {
            name.to_socket_addrs()
                .map(|found| found.collect::<Vec<_>>())
        };
        let submitted = pool.submit(Token(n), job);
        submitted.map_err(|_job| "more than 1,000 names")?;
    }
    while !pool.is_empty() {
        poll.poll(&mut events, None)?;
        // A program with other sources does this for events whose token is `WOKEN`.
        while let Some((Token(n), result)) = pool.next_result() {
            match result {
                Ok(Ok(addresses)) => println!("{}: {addresses:?}", names[n]),
                Ok(Err(error)) => println!("{}: {error}", names[n]),
                Err(_panic) => println!("{}: the lookup panicked", names[n]),
            }
        }
    }
    Ok(())
}
