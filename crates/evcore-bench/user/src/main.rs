//! libevent's benchmark, built as a user of `evcore` builds a program, with the default release
//! profile: `evcore-user plain|timer ACTIVE EVENTS`.
//!
//! Bytes go round a ring of 200 socket pairs, `ACTIVE` bytes at a time, until `EVENTS` bytes were
//! read. Before that, a connection and a timer of the loop have ended, as in a loop that has run
//! for some time.

use std::env;
use std::error::Error;
use std::os::unix::net::UnixStream;
use std::time::Duration;

use evcore::clock::Clock;
use evcore::{Budgets, EventLoop, Interest, Mode, Step, Timer, TokenMap};

use c_clock::CClock;
use ring_of_pairs::{Pairs, Ring};

#[allow(dead_code, reason = "the benchmark counts readings as well")]
#[path = "../../src/pollers/c_clock.rs"]
mod c_clock;
#[allow(dead_code, reason = "the benchmark has idle rings as well")]
#[path = "../../src/pollers/ring_of_pairs.rs"]
mod ring_of_pairs;

const PAIRS: usize = 200;

/// Maximum number of events of a wait, as in the benchmark.
const BATCH: usize = 1024;

fn begin_and_end_some(ev: &mut EventLoop) -> Result<(), Box<dyn Error>> {
    let (near, _far) = UnixStream::pair()?;
    let mut ended = TokenMap::new();
    let token = ended.add(ev, near, Interest::READ, Mode::Level)?;
    ended.close(ev, token);
    let sleep = ev.add_unwatched()?;
    ev.arm(sleep, Timer::READ, Duration::ZERO);
    ev.wait()?;
    while ev.next_step().is_some() {}
    ev.remove(sleep);
    Ok(())
}

fn main() -> Result<(), Box<dyn Error>> {
    let arguments: Vec<_> = env::args().skip(1).collect();
    let [kind, active, events] = &arguments[..] else {
        return Err("evcore-user plain|timer ACTIVE EVENTS".into());
    };
    let has_timers = kind == "timer";
    let pairs = Pairs::open(PAIRS);
    let builder = EventLoop::builder().clock(Clock::with_source(CClock));
    let builder = builder.budgets(Budgets {
        batch: BATCH,
        ..Budgets::default()
    });
    let mut ev = builder.build()?;
    let mut tokens = Vec::new();
    for fd in &pairs.near {
        let token = ev.add(fd, Interest::READ, Mode::Level)?;
        if has_timers {
            ev.arm(token, Timer::READ, Duration::from_secs(10));
        }
        tokens.push(token);
    }
    begin_and_end_some(&mut ev)?;
    let first = tokens[0].index();
    let mut ring = Ring::start(&pairs, active.parse()?, events.parse()?);
    while !ring.is_over() {
        ev.wait()?;
        while let Some(step) = ev.next_step() {
            if let Step::Ready(token, _) = step {
                ring.serve((token.index() - first) as usize);
                if has_timers {
                    ev.arm(token, Timer::READ, ring.delay());
                }
            }
        }
    }
    Ok(())
}
