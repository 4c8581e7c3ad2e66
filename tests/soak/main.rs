//! Servers under load while their workers are killed or replaced. Only sessions of killed workers
//! are lost.
//!
//! Each load of this file lasts one second, and [`mixed`] lasts 10 seconds. The environment
//! variable `SOAK_SECONDS` changes both. A load of this file is repeated until all its runs
//! together have had at least [`A_SECOND`] kills or reloads for each second of one run. [`moves`]
//! and [`peers`] have variables of their own.
//!
//!     SOAK_SECONDS=60 cargo test --release -p evcore-tests --test soak -- \
//!         --nocapture --test-threads 1

#[cfg(target_os = "linux")]
mod descriptors;
#[cfg(target_os = "linux")]
mod mixed;
#[cfg(target_os = "linux")]
mod moves;
#[cfg(target_os = "linux")]
mod peers;
mod streams;
mod tools;
mod victim;

use std::{
    env,
    hash::{BuildHasher, RandomState},
    net::SocketAddr,
    process::Command,
    sync::mpsc::{Receiver, RecvTimeoutError},
    time::Duration,
};

use evcore_tests::{Server, eventually, example, prefork_echo};
use rustix::process::Signal;

use self::{tools::HttpReport, victim::Killed};

fn proxy(to: SocketAddr, workers: &str) -> Server {
    let mut command = Command::new(example("evcore-serve", "proxy"));
    command.args(["--listen", "127.0.0.1:0", "--to", &to.to_string()]);
    // iperf3's control connection is silent until the streams end.
    command.args(["--workers", workers, "--idle-timeout", "3600"]);
    Server::from_command(command, 1)
}

/// The least number of kills or reloads of a load, for each second of one run.
const A_SECOND: usize = 2;

/// The most runs of a load. On a busy machine a kill may take a second.
const LOADS_MAX: usize = 20;

fn seconds() -> usize {
    let seconds = env::var("SOAK_SECONDS");
    seconds.map_or(1, |text| text.parse().expect("a number of seconds"))
}

fn random(below: usize) -> usize {
    let random = RandomState::new().hash_one(());
    usize::try_from(random % below as u64).expect("it is below a `usize`")
}

/// Runs loads by `start`, and calls `act` at random moments. `act` returns the number of its acts
/// so far. Returns the reports, or `None` if the program of the load is not installed.
fn disturbed<T>(
    start: impl Fn() -> Option<Receiver<T>>,
    mut act: impl FnMut() -> usize,
) -> Option<Vec<T>> {
    let (mut reports, mut acted) = (Vec::new(), 0);
    let least = A_SECOND * seconds();
    while acted < least {
        assert!(reports.len() < LOADS_MAX, "{acted} kills or reloads only");
        let load = start()?;
        reports.push(loop {
            let moment = Duration::from_millis(random(300) as u64);
            match load.recv_timeout(moment) {
                Ok(report) => break report,
                Err(RecvTimeoutError::Timeout) => acted = act(),
                Err(RecvTimeoutError::Disconnected) => panic!("the load has failed"),
            }
        });
    }
    Some(reports)
}

fn wrk_loses_only_sessions_of_killed_workers(options: &[&str]) {
    let upstream = Server::start(&["--workers", "3"]);
    let proxy = proxy(upstream.address(), "3");
    let mut killed = Killed::default();
    let reports = disturbed(
        || tools::wrk(proxy.address(), seconds(), options),
        || killed.kill_one_of(&[&proxy, &upstream]),
    );
    let Some(reports) = reports else {
        return;
    };
    println!("wrk {options:?}: {reports:?}; {killed:?}");
    assert!(reports.iter().all(|report| report.requests > 0));
    let errors: u64 = reports.iter().map(|report| report.errors).sum();
    assert!(errors <= killed.sessions, "{errors} errors, {killed:?}");
}

#[test]
fn wrk_with_kept_connections_loses_only_sessions_of_killed_workers() {
    wrk_loses_only_sessions_of_killed_workers(&[]);
}

#[test]
fn wrk_with_closed_connections_loses_only_sessions_of_killed_workers() {
    wrk_loses_only_sessions_of_killed_workers(&["-H", "Connection: close"]);
}

/// iperf3's control connection and its 8 streams belong to at most 9 workers. Other workers are
/// killed.
#[test]
fn iperf3_loses_nothing_while_other_workers_are_killed() {
    let Some(server) = tools::Iperf3Server::start() else {
        return;
    };
    let proxy = proxy(server.address, "12");
    let mut killed = Killed::default();
    let reports = disturbed(
        || Some(tools::iperf3(proxy.address(), seconds())),
        || killed.kill_an_idle_one_of(&proxy),
    );
    println!("iperf3 -P 8: {reports:?}; {killed:?}");
    // At the end, iperf3's server does not read the bytes that are still on their way.
    let most = 8 * tools::bytes_on_the_way();
    for report in reports.expect("it is installed") {
        assert_eq!(report.error, None);
        let missing = report.sent - report.received;
        assert!(
            report.received > 0 && missing <= most,
            "{missing} of {most}"
        );
    }
}

#[test]
fn bulk_streams_of_living_workers_go_on_while_others_die() {
    let mut command = Command::new(prefork_echo());
    command.arg("127.0.0.1:0");
    let upstream = Server::from_command(command, 1);
    let proxy = proxy(upstream.address(), "4");
    let mut killed = Killed::default();
    let reports = disturbed(
        || Some(streams::start(proxy.address(), 8, seconds())),
        || killed.kill_one_of(&[&proxy, &upstream]),
    );
    let reports = reports.expect("it is this program");
    println!("8 streams: {reports:?}; {killed:?}");
    assert!(reports.iter().all(|report| report.mib > 0));
    let ended = reports.iter().map(|report| report.ended).sum();
    assert!(
        (1..=killed.sessions).contains(&ended),
        "{ended} streams have ended, {killed:?}"
    );
}

fn reloads_lose_nothing(load: impl Fn(SocketAddr) -> Option<Receiver<HttpReport>>) {
    for policy in ["off", "mutex", "exclusive", "least-loaded", "reuseport"] {
        let server = Server::start(&["--workers", "2", "--accept", policy]);
        let mut reloads = 0;
        let reports = disturbed(
            || load(server.address()),
            || {
                reloads += 1;
                server.signal(Signal::HUP);
                eventually("the reload is done", || server.reloads() == reloads);
                reloads
            },
        );
        println!("{policy}: {reports:?}; {reloads} reloads");
        for report in reports.into_iter().flatten() {
            assert!(report.requests > 0 && report.errors == 0, "{report:?}");
        }
    }
}

#[test]
fn reloads_under_wrk_lose_no_request() {
    reloads_lose_nothing(|server| tools::wrk(server, seconds(), &[]));
}

#[test]
fn reloads_under_ab_lose_no_request() {
    reloads_lose_nothing(|server| tools::ab(server, seconds(), 20));
}
