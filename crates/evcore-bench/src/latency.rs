//! Latency at half of the rate that saturates nginx, with enough requests for each quantile.

use std::time::Duration;

use crate::report::Report;
use crate::run::{Run, each};
use crate::server::{self, Server};
use crate::whole::{connect, ms, rounds, run_load, saturate};

/// The tables, with their quantiles.
const LATENCIES: [(&str, f64); 3] = [("p50", 0.5), ("p99", 0.99), ("p99.9", 0.999)];

/// Minimum number of requests that are slower than a quantile. With fewer, one stall of the machine
/// decides the quantile.
const SLOWER: f64 = 100.0;

/// Numbers of connections, each with the number of requests in a round. The requests are enough for
/// the highest quantile, except on one connection, where enough requests would take too long.
const LOADS: [(u32, f64); 3] = [(1, 10_500.0), (64, 105_000.0), (1024, 105_000.0)];

/// The server whose rate sets the load. If this server is missing, the rate of the first server
/// sets the load.
const MODEL: &str = "nginx";

pub(crate) fn measure(run: &Run, report: &mut Report) {
    let programs = server::programs(run, report, "latency");
    rounds("latency", &programs, run, report, |servers, report| {
        for load in LOADS {
            round(servers, load, run, report);
        }
    });
}

/// Loads the servers one after the other with the same rate, which is half of the rate that
/// saturates nginx in this round.
fn round(servers: &[Server], (connections, all): (u32, f64), run: &Run, report: &mut Report) {
    let model = servers.iter().find(|server| server.name == MODEL);
    let Some(model) = model.or(servers.first()) else {
        return;
    };
    let mut load = connect(model.address, connections, "/");
    let [.., saturating] = saturate(model, &mut load, run);
    drop(load);
    let rate = saturating / 2.0;
    let requests = if run.quick { all / 20.0 } else { all };
    for server in servers {
        let mut load = connect(server.address, connections, "/");
        run_load(&mut load, f64::INFINITY, ms(run, 100));
        run_load(&mut load, rate, Duration::from_secs_f64(requests / rate));
        for (table, quantile) in LATENCIES {
            if load.latencies.len() as f64 * (1.0 - quantile) < SLOWER {
                continue;
            }
            let us = each(load.latencies.value_at_quantile(quantile), 1_000);
            report.add(table, &server.name, &connections.to_string(), us);
        }
    }
}
