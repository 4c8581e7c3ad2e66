//! Measures idle workers, late workers (a request blocks them), new workers, killed workers with
//! idle clients, and workers that a reload replaces.

use std::collections::BTreeMap;
use std::fs;
use std::io;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use rustix::process::Signal;

use super::bursts;
use super::patterns::{self, jain};
use crate::client::Client;
use crate::cpus::become_client;
use crate::load::Load;
use crate::pace;
use crate::process;
use crate::report::Report;
use crate::run::{Run, each};
use crate::server::{self, Program, Server};
use crate::whole::{ms, run_load};

const WORKERS: usize = 4;

/// Number of new clients while a worker is late, and their rate per second.
const CLIENTS: u32 = 400;
const CLIENTS_A_SECOND: f64 = 250.0;

/// The request that makes a worker late: it blocks for 50 ms.
const LATE: &str = "/block/50";

/// Number of connections that stay open while a worker is replaced, and the time within which they
/// should be spread evenly.
const OPEN: usize = 400;
const EVEN_WITHIN: Duration = Duration::from_secs(1);

/// Numbers of busy and of idle clients of a server that is reloaded, and number of reloads.
const BUSY: usize = 50;
const IDLE: usize = 50;
const RELOADS: usize = 3;

/// Time in which a server comes to rest. It is longer than the time without a client after which
/// the workers of a group sleep without a limit.
const SETTLE: Duration = Duration::from_millis(5_000);

pub(crate) fn measure(run: &Run, report: &mut Report) {
    let parts = ["idle", "late", "replaced", "killed", "reload"];
    let [idle, late, replaced, killed, reload] = parts.map(|part| {
        let mut programs = server::programs(run, report, part);
        programs.iter_mut().for_each(Program::use_all_cpus);
        programs
    });
    become_client();
    at_rest(run, &idle, report);
    run.rounds("workers", || {
        for (programs, what) in [
            (
                &late,
                late_worker as fn(&Server, &Run, &mut Report) -> io::Result<()>,
            ),
            (&replaced, new_worker),
            (&killed, kill_with_idle),
            (&reload, reloads),
        ] {
            for program in programs {
                eprintln!("workers: {}", program.name);
                let Some(server) = report.or_absent(&program.name, program.start(WORKERS)) else {
                    continue;
                };
                let measured = what(&server, run, report);
                report.or_absent(&program.name, measured);
            }
        }
    });
}

/// Counts the wakes of all servers at the same time, while no client comes. Some clients have come
/// and left before.
fn at_rest(run: &Run, programs: &[Program], report: &mut Report) {
    let servers = programs.iter();
    let servers =
        servers.filter_map(|program| report.or_absent(&program.name, program.start(WORKERS)));
    let servers: Vec<Server> = servers.collect();
    for server in &servers {
        for _ in 0..8 * WORKERS {
            let answer = Client::connect(server.address).and_then(|mut client| client.worker());
            report.or_absent(&server.name, answer);
        }
    }
    pace::pause(SETTLE);
    let before: Vec<u64> = servers.iter().map(Server::sleeps).collect();
    let time = ms(run, 10_000);
    pace::pause(time);
    for (server, before) in servers.iter().zip(before) {
        let wakes = each(server.sleeps() - before, WORKERS) / time.as_secs_f64();
        report.add("idle", &server.name, "a worker", wakes);
    }
}

/// Measures how long new clients wait for their first answer while a worker is late, and how many
/// of them the late worker accepts.
fn late_worker(server: &Server, run: &Run, report: &mut Report) -> io::Result<()> {
    let undisturbed = first_answers(server);
    let mut blocker = Client::connect(server.address)?;
    let pid = blocker.worker()?;
    let (over, accepted) = (AtomicBool::new(false), || accepted_by(server, run, pid));
    let before = accepted()?;
    let late = thread::scope(|scope| {
        let blocking = scope.spawn(|| {
            while !over.load(Ordering::Relaxed) {
                blocker.ask(LATE).and_then(|()| blocker.answer())?;
            }
            io::Result::Ok(())
        });
        let late = first_answers(server);
        over.store(true, Ordering::Relaxed);
        blocking.join().expect("it does not panic").map(|()| late)
    })?;
    let mut add = |column, value| report.add("late", &server.name, column, value);
    add("clients of the late worker", each(accepted()? - before, 1));
    add("p99, ms", late / 1e6);
    add("p99, to undisturbed", late / undisturbed);
    Ok(())
}

/// The 99th percentile of the time until the first answer, in ns, for clients that come at a fixed
/// rate.
fn first_answers(server: &Server) -> f64 {
    let load = Load::new(server.address.into(), "/worker", CLIENTS);
    let mut load = load.expect("a descriptor is left");
    load.closes = true;
    load.timeout = pace::PATIENCE;
    let time = Duration::from_secs_f64(f64::from(CLIENTS) / CLIENTS_A_SECOND);
    run_load(&mut load, CLIENTS_A_SECOND, time);
    each(load.latencies.value_at_quantile(0.99), 1)
}

/// Number of clients that a worker has accepted. `httpd` reports this number, and nginx logs the
/// worker's process id for each client.
fn accepted_by(server: &Server, run: &Run, pid: u32) -> io::Result<u64> {
    server.wait_until_idle();
    let log = server::folder(run).join(format!("{}.pids", server.name));
    if let Ok(pids) = fs::read_to_string(log) {
        let pid = pid.to_string();
        return Ok(pids.lines().filter(|logged| *logged == pid).count() as u64);
    }
    let workers = bursts::workers(server).map_err(|error| io::Error::other(error.to_string()))?;
    let found = workers.iter().find(|(known, _)| *known == u64::from(pid));
    found.map_or(
        Err(io::Error::other("the worker has gone")),
        |(_, accepted)| Ok(*accepted),
    )
}

/// Adds to the report how evenly the open connections are spread over the workers: a second after
/// clients with uneven lifetimes have come and gone, and a second after a worker was killed. The
/// clients of the killed worker connect again.
fn new_worker(server: &Server, run: &Run, report: &mut Report) -> io::Result<()> {
    let mut left = patterns::left_of_uneven(server, run);
    pace::pause(EVEN_WITHIN);
    report.add(
        "open",
        &server.name,
        "uneven lifetimes",
        open_index(&mut left)?,
    );
    drop(left);
    let mut clients: Vec<Client> = Vec::new();
    let mut workers = Vec::new();
    for _ in 0..OPEN {
        let mut client = Client::connect(server.address)?;
        workers.push(client.worker()?);
        clients.push(client);
    }
    let killed = workers[0];
    process::signal(killed, Signal::KILL);
    let began = Instant::now();
    pace::until(|| !server.pids().contains(&killed) && server.is_whole());
    let lost = clients
        .iter_mut()
        .zip(&workers)
        .filter(|(_, pid)| **pid == killed);
    for (client, _) in lost {
        *client = connected_again(server)?;
    }
    pace::pause(EVEN_WITHIN.saturating_sub(began.elapsed()));
    report.add(
        "open",
        &server.name,
        "a new worker",
        open_index(&mut clients)?,
    );
    Ok(())
}

fn open_index(clients: &mut [Client]) -> io::Result<f64> {
    let mut shares = BTreeMap::new();
    for client in clients {
        *shares.entry(client.worker()?).or_insert(0_u64) += 1;
    }
    let shares: Vec<u64> = shares.into_values().collect();
    Ok(jain(&shares, WORKERS))
}

/// Connects a client, which tries once more if its worker dies.
fn connected_again(server: &Server) -> io::Result<Client> {
    let mut client = Client::connect(server.address)?;
    match client.worker() {
        Ok(_) => Ok(client),
        Err(_) => {
            client = Client::connect(server.address)?;
            client.worker().map(|_| client)
        }
    }
}

/// Kills a worker while all clients are idle, and adds the number of clients that have lost their
/// connections.
fn kill_with_idle(server: &Server, _: &Run, report: &mut Report) -> io::Result<()> {
    let mut clients: Vec<Client> = Vec::new();
    for _ in 0..OPEN {
        let mut client = Client::connect(server.address)?;
        client.worker()?;
        clients.push(client);
    }
    let killed = clients[0].worker()?;
    server.wait_until_idle();
    process::signal(killed, Signal::KILL);
    pace::until(|| !server.pids().contains(&killed) && server.is_whole());
    let lost = clients
        .iter_mut()
        .filter_map(|client| client.worker().err());
    let lost = each(lost.count() as u64, 1);
    report.add("killed", &server.name, "idle clients lost", lost);
    Ok(())
}

/// Reloads the server. Adds the number of clients that had to connect again, and the time until the
/// old workers ended.
fn reloads(server: &Server, _: &Run, report: &mut Report) -> io::Result<()> {
    let over = AtomicBool::new(false);
    let mut idle = Vec::new();
    for _ in 0..IDLE {
        let mut client = Client::connect(server.address)?;
        client.worker()?;
        idle.push(client);
    }
    let (reconnects, longest) = thread::scope(|scope| {
        let busy = scope.spawn(|| busy_clients(server, &over));
        let mut longest = Duration::ZERO;
        for _ in 0..RELOADS {
            let old = server.pids();
            let began = Instant::now();
            process::signal(server.master(), Signal::HUP);
            let gone = || old.iter().all(|pid| !server.pids().contains(pid));
            pace::until(|| gone() && server.is_whole());
            longest = longest.max(began.elapsed());
            pace::pause(Duration::from_millis(200));
        }
        over.store(true, Ordering::Relaxed);
        (busy.join().expect("it does not panic"), longest)
    });
    let lost = idle
        .iter_mut()
        .filter_map(|client| client.worker().err())
        .count();
    let each_reload = |clients: usize| each(clients as u64, RELOADS);
    let mut add = |column, value| report.add("reload", &server.name, column, value);
    add("busy clients that connect again", each_reload(reconnects?));
    add("idle clients that are closed", each_reload(lost));
    add("old workers, ms", longest.as_secs_f64() * 1e3);
    Ok(())
}

/// Runs clients that take turns: each sends its request after the response to the previous client's
/// request. Returns how often a client had to connect again.
fn busy_clients(server: &Server, over: &AtomicBool) -> io::Result<usize> {
    let clients = (0..BUSY).map(|_| Client::connect(server.address));
    let mut clients: Vec<Client> = clients.collect::<io::Result<_>>()?;
    let mut reconnects = 0;
    while !over.load(Ordering::Relaxed) {
        for client in &mut clients {
            if client.worker().is_err() {
                reconnects += 1;
                *client = Client::connect(server.address)?;
            }
        }
    }
    Ok(reconnects)
}
