//! CPU time a request, beside nginx: user mode and kernel, from `/proc/PID/stat`.

use std::fs;
use std::path::Path;

use super::{serving::Serving, wrk};
use crate::Result;
use crate::workspace::Workspace;

const ROUNDS: usize = 5;
const CONNECTIONS: u32 = 64;
const SECONDS: u32 = 5;

/// The kernel's clock tick, 100 a second on Linux, in microseconds.
const TICK_US: f64 = 10_000.0;

/// Microseconds a request.
#[derive(Clone, Copy, Debug)]
struct Cost {
    user: f64,
    system: f64,
}

impl Cost {
    fn whole(self) -> f64 {
        self.user + self.system
    }
}

pub(super) fn run(httpd: &Path, workspace: &Workspace) -> Result {
    println!(
        "\nCPU a request: wrk -t1 -c{CONNECTIONS} -d{SECONDS}s, one worker on CPU 0, \
         {ROUNDS} rounds in turn"
    );
    let ours = Serving::httpd(httpd, &["--workers", "1"], true)?;
    let theirs = Serving::nginx(&workspace.target_dir.join("xtask/nginx"))?;
    let mut costs = [Vec::new(), Vec::new()];
    for _ in 0..ROUNDS {
        for (serving, costs) in [&ours, &theirs].into_iter().zip(&mut costs) {
            costs.push(cost(serving)?);
        }
    }
    let [ours, theirs] = costs;
    print("httpd", &ours);
    print("nginx", &theirs);
    let ratio = |of: fn(Cost) -> f64| median(&ours, of) / median(&theirs, of);
    println!(
        "  httpd / nginx: {:.2} in user mode, {:.2} in all",
        ratio(|cost| cost.user),
        ratio(Cost::whole)
    );
    Ok(())
}

fn cost(serving: &Serving) -> Result<Cost> {
    let worker = serving.worker()?;
    let before = ticks(worker)?;
    let report = wrk::run(&serving.address, CONNECTIONS, SECONDS)?;
    let after = ticks(worker)?;
    #[expect(clippy::cast_precision_loss, reason = "far below 2^52")]
    let each = |n: usize| (after[n] - before[n]) as f64 * TICK_US / report.requests as f64;
    Ok(Cost {
        user: each(0),
        system: each(1),
    })
}

/// User and system time of a process, in ticks.
fn ticks(pid: u32) -> Result<[u64; 2]> {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat"))?;
    // Behind the name, which may hold anything: state is the 3rd field, the times 14 and 15.
    let fields: Vec<_> = stat
        .rsplit(')')
        .next()
        .unwrap_or("")
        .split_whitespace()
        .collect();
    match fields[..] {
        [_, _, _, _, _, _, _, _, _, _, _, user, system, ..] => Ok([user.parse()?, system.parse()?]),
        _ => Err(format!("not a stat line: {stat}").into()),
    }
}

fn print(name: &str, costs: &[Cost]) {
    let column = |of: fn(Cost) -> f64| {
        let sorted = sorted(costs, of);
        let (least, most) = (sorted[0], sorted[sorted.len() - 1]);
        format!("{:.2} us ({least:.2} to {most:.2})", median(costs, of))
    };
    let (user, system) = (column(|cost| cost.user), column(|cost| cost.system));
    println!("  {name}: user {user}, system {system}");
}

fn median(costs: &[Cost], of: fn(Cost) -> f64) -> f64 {
    let sorted = sorted(costs, of);
    sorted[sorted.len() / 2]
}

fn sorted(costs: &[Cost], of: fn(Cost) -> f64) -> Vec<f64> {
    let mut values: Vec<_> = costs.iter().map(|cost| of(*cost)).collect();
    values.sort_by(f64::total_cmp);
    values
}
