//! Measures the evenness and the wake-ups of each policy except `Off`, in a model of the kernel's
//! order of wake-ups (`model/mod.rs`). `evcore-bench` measures the real kernel:
//! `cargo xtask bench accept`.

use std::num::NonZeroU32;
use std::time::Duration;

use evcore_balancer::Policy;

mod model;

use model::{Phase, Server};

const CONNECTIONS: u32 = 1_000;

#[derive(Clone, Copy, Debug, PartialEq)]
enum Pattern {
    OneAtATime,
    Bursts,
    /// One at a time. When half of the clients have connected, all connections of two workers end.
    UnevenClosing,
}

/// Returns the lowest Jain index of ten runs, and the highest number of wake-ups per connection.
fn measure(policy: Policy, workers: u32, pattern: Pattern) -> (f64, f64) {
    let runs = (0..10).map(|seed| {
        let mut server = Server::new(policy, workers, seed);
        server.pass(1_000);
        let burst = if pattern == Pattern::Bursts { 64 } else { 1 };
        while server.taken < CONNECTIONS {
            server.connect(burst.min(CONNECTIONS - server.taken));
            if pattern == Pattern::UnevenClosing && server.taken == CONNECTIONS / 2 {
                server.close_connections_of(0);
                server.close_connections_of(1);
            }
        }
        (
            server.jain(),
            f64::from(server.wakes) / f64::from(CONNECTIONS),
        )
    });
    runs.fold((1.0, 0.0), |(jain, wakes), (j, w)| {
        (f64::min(jain, j), f64::max(wakes, w))
    })
}

const PATTERNS: [Pattern; 3] = [Pattern::OneAtATime, Pattern::Bursts, Pattern::UnevenClosing];

#[test]
fn least_loaded_is_even_with_few_extra_wake_ups() {
    for workers in [4, 8] {
        for pattern in PATTERNS {
            let (jain, wakes) = measure(Policy::least_loaded(), workers, pattern);
            assert!(jain >= 0.99, "{workers} workers, {pattern:?}: {jain}");
            assert!(wakes <= 1.25, "{workers} workers, {pattern:?}: {wakes}");
        }
    }
}

#[test]
fn a_first_burst_is_spread_evenly_if_wake_ups_take_a_millisecond() {
    for workers in [2, 4] {
        for clients in [40, 400] {
            for seed in 0..20 {
                let mut server = Server::new(Policy::least_loaded(), workers, seed);
                server.pass(1_000);
                server.wake_us = [200, 1_000];
                server.connect(clients);
                let (jain, wakes) = (server.jain(), f64::from(server.wakes));
                let wakes = wakes / f64::from(clients);
                println!("| {workers} | {clients} | {seed} | {jain:.4} | {wakes:.3} |");
                assert!(jain >= 0.95, "{workers} workers, {clients} clients: {jain}");
            }
        }
    }
}

#[test]
fn a_stopped_worker_delays_only_the_first_burst() {
    let mut server = Server::new(Policy::least_loaded(), 2, 0);
    server.pass(1_000);
    server.wake_us = [10_000_000, 10_000_001];
    let stopped = Phase::Waking {
        until: 10_000_000_000,
    };
    // Worker 0 registered first, so the kernel wakes it for the first client, but it is stopped.
    server.workers[0].phase = stopped;
    server.workers[1].phase = Phase::Accepting { until: server.now };
    let mut took_us = |clients| {
        let before = server.now;
        server.workers[1].phase = Phase::Accepting { until: before };
        server.connect(clients);
        server.now - before
    };
    // Accepting and serving 400 clients takes 6 ms.
    let took_us = [took_us(400), took_us(400)];
    assert!((14_000..=18_000).contains(&took_us[0]), "{took_us:?}");
    assert!(took_us[1] <= 7_000, "{took_us:?}");
}

#[test]
fn a_lock_that_is_handed_over_spreads_evenly() {
    for workers in [4, 8] {
        for pattern in PATTERNS {
            let (jain, wakes) = measure(Policy::mutex(), workers, pattern);
            println!("| mutex | {workers} | {pattern:?} | {jain:.4} | {wakes:.3} |");
            assert!(jain >= 0.97, "{workers} workers, {pattern:?}: {jain}");
            assert!(wakes <= 1.25, "{workers} workers, {pattern:?}: {wakes}");
        }
    }
}

#[test]
fn exclusive_is_even_unless_connections_end_unevenly() {
    for workers in [4, 8] {
        for pattern in [Pattern::OneAtATime, Pattern::Bursts] {
            let (jain, _) = measure(Policy::exclusive(), workers, pattern);
            assert!(jain >= 0.97, "{workers} workers, {pattern:?}: {jain}");
        }
        let (jain, _) = measure(Policy::exclusive(), workers, Pattern::UnevenClosing);
        assert!(
            jain < 0.97,
            "Exclusive stayed even although connections ended unevenly, so LeastLoaded would not \
             be needed: {jain}"
        );
    }
}

/// If workers do not register again, the model is as unfair as the kernel.
#[test]
fn bare_exclusive_registrations_are_unfair() {
    let bare = Policy::Exclusive {
        readd_every: NonZeroU32::MAX,
        delay: Duration::from_secs(3600),
    };
    let (jain, _) = measure(bare, 4, Pattern::OneAtATime);
    assert!(jain < 0.5, "{jain}");
}

/// With `--nocapture` this prints the table from which the default slack was chosen.
#[test]
fn every_slack_is_even_and_a_wider_one_wakes_less() {
    let mut wakes_before = f64::MAX;
    println!(
        "| slack | workers | pattern | Jain, least of 10 | wake-ups for a connection, most of 10 |"
    );
    println!("|---|---|---|---|---|");
    for slack in [1, 2, 4, 6, 8] {
        let mut wakes_most = 0.0_f64;
        for workers in [4, 8] {
            for pattern in PATTERNS {
                let policy = Policy::LeastLoaded {
                    slack,
                    delay: Policy::DEFAULT_DELAY,
                };
                let (jain, wakes) = measure(policy, workers, pattern);
                println!("| {slack} | {workers} | {pattern:?} | {jain:.4} | {wakes:.3} |");
                assert!(jain >= 0.99);
                wakes_most = wakes_most.max(wakes);
            }
        }
        assert!(wakes_most < wakes_before);
        wakes_before = wakes_most;
    }
}
