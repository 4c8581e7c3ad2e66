//! Idle timeouts with a timer queue alone; a channel of events stands for the poller.
//!
//! Three connections may each be idle for 20 ms. Connection 1 is active at first, so its timer is
//! re-armed again and again: with `Lazy` that is one store.

use std::sync::mpsc;
use std::thread;
use std::time::{Duration, Instant};

use evcore_timer::{Lazy, TimerQueue, TimerWheel};

const IDLE_MS: u64 = 20;

fn main() {
    let (sender, events) = mpsc::channel::<u32>();
    let client = sender.clone();
    thread::spawn(move || (0..1_000).try_for_each(|_| client.send(1)));

    let start = Instant::now();
    let mut timers = Lazy::new(TimerWheel::new());
    let mut last_active = [start; 3];
    let mut closed = Vec::new();
    for connection in 0..3 {
        timers.arm(connection, deadline(start));
    }
    // One turn: wait for an event or the next deadline, handle the event, handle expired timers.
    while let Some(next) = timers.next_deadline() {
        let wait = Duration::from_millis(next).saturating_sub(start.elapsed());
        let event = events.recv_timeout(wait);
        // An event of a connection that is closed already is stale.
        if let Some(connection) = event.ok().filter(|&id| timers.is_armed(id)) {
            last_active[connection as usize] = Instant::now();
            timers.arm(connection, deadline(start));
        }
        while let Some((connection, _)) = timers.pop_expired(elapsed_ms(start)) {
            println!("connection {connection} was idle for {IDLE_MS} ms: closed");
            let idle = last_active[connection as usize].elapsed();
            assert!(idle >= Duration::from_millis(IDLE_MS), "too early");
            closed.push(connection);
        }
    }
    closed.sort_unstable();
    assert_eq!(closed, [0, 1, 2], "each connection is closed once");
}

/// The present in ticks of a millisecond, rounded down.
fn elapsed_ms(start: Instant) -> u64 {
    u64::try_from(start.elapsed().as_millis()).expect("it does not run for 584 million years")
}

/// The tick of a timeout that starts now: one more, because the present is rounded down.
fn deadline(start: Instant) -> u64 {
    elapsed_ms(start) + IDLE_MS + 1
}

#[test]
fn each_connection_is_closed_once_and_not_early() {
    main();
}
