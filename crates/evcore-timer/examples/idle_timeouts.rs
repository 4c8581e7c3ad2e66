//! Idle timeouts with a timer queue alone; a channel of events stands for the poller.
//!
//! Three connections may each be idle for 20 ms. Connection 1 is active at first, so its timer is
//! re-armed again and again. With `Lazy`, each re-arm is one store.

use std::sync::mpsc;
use std::thread;
use std::time::{Duration, Instant};

use evcore_timer::{Lazy, Timer, TimerTable, TimerWheel};

const IDLE: Duration = Duration::from_millis(20);

/// Limits how long a connection may be idle. Each connection has only this timer.
const IDLE_TIMER: Timer = Timer::new(0);

fn main() {
    let (sender, events) = mpsc::channel::<u32>();
    let client = sender.clone();
    thread::spawn(move || (0..1_000).try_for_each(|_| client.send(1)));

    let start = Instant::now();
    let mut timers = TimerTable::new(Lazy::new(TimerWheel::new()), 1, 0);
    let mut last_active = [start; 3];
    let mut closed = Vec::new();
    for connection in 0..3 {
        timers.arm(connection, IDLE_TIMER, 0, IDLE);
    }
    // One turn: wait for an event or the next deadline, handle the event, handle expired timers.
    while !timers.is_empty() {
        let wait = Duration::from_nanos(timers.due_at_ns()).saturating_sub(start.elapsed());
        let event = events.recv_timeout(wait);
        let now_ns = elapsed_ns(start);
        // An event of a closed connection is stale.
        if let Some(connection) = event.ok().filter(|id| !closed.contains(id)) {
            last_active[connection as usize] = Instant::now();
            timers.arm(connection, IDLE_TIMER, now_ns, IDLE);
        }
        timers.begin_phase(now_ns);
        while let Some((connection, ..)) = timers.pop_expired(&mut 256) {
            println!("connection {connection} was idle for {IDLE:?}: closed");
            let idle = last_active[connection as usize].elapsed();
            assert!(idle >= IDLE, "too early");
            closed.push(connection);
        }
    }
    closed.sort_unstable();
    assert_eq!(closed, [0, 1, 2], "each connection is closed once");
}

/// The current time of the timers' clock.
fn elapsed_ns(start: Instant) -> u64 {
    u64::try_from(start.elapsed().as_nanos()).expect("it does not run for 584 years")
}

#[test]
fn each_connection_is_closed_once_and_not_early() {
    main();
}
