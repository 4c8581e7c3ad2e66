//! Servers under load while their workers are killed or replaced. Nothing but the sessions of the dead is
//! lost.
//!
//! Each load of another program lasts a second, and [`mixed`] lasts 10 seconds, or as long as a
//! variable requests:
//!
//!     SOAK_SECONDS=60 cargo test --release -p evcore-tests --test soak -- --nocapture --test-threads 1

#[cfg(target_os = "linux")]
mod mixed;
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

fn seconds() -> String {
    env::var("SOAK_SECONDS").unwrap_or_else(|_| "1".to_owned())
}

fn random(below: usize) -> usize {
    let random = RandomState::new().hash_one(());
    usize::try_from(random % below as u64).expect("it is below a `usize`")
}

/// Calls `act` at random moments until the load has ended. Returns what the load sends then.
fn until_end<T>(ended: &Receiver<T>, mut act: impl FnMut()) -> T {
    loop {
        let moment = Duration::from_millis(random(300) as u64);
        match ended.recv_timeout(moment) {
            Ok(result) => return result,
            Err(RecvTimeoutError::Timeout) => act(),
            Err(RecvTimeoutError::Disconnected) => panic!("the load has failed"),
        }
    }
}

fn wrk_loses_sessions_of_the_dead_only(options: &[&str]) {
    let upstream = Server::start(&["--workers", "3"]);
    let proxy = proxy(upstream.address(), "3");
    let Some(wrk) = tools::wrk(proxy.address(), &seconds(), options) else {
        return;
    };
    let mut killed = Killed::default();
    let report = until_end(&wrk, || killed.kill_one_of(&[&proxy, &upstream]));
    println!("wrk {options:?}: {report:?}; {killed:?}");
    assert!(report.requests > 0);
    assert!(report.errors <= killed.sessions, "{report:?}, {killed:?}");
}

#[test]
fn wrk_with_kept_connections_loses_sessions_of_the_dead_only() {
    wrk_loses_sessions_of_the_dead_only(&[]);
}

#[test]
fn wrk_with_closed_connections_loses_sessions_of_the_dead_only() {
    wrk_loses_sessions_of_the_dead_only(&["-H", "Connection: close"]);
}

/// Its control connection and its 8 streams may be of 9 workers, and others die.
#[test]
fn iperf3_loses_nothing_while_other_workers_are_killed() {
    let Some(server) = tools::Iperf3Server::start() else {
        return;
    };
    let proxy = proxy(server.address, "12");
    let iperf3 = tools::iperf3(proxy.address(), &seconds());
    let mut killed = Killed::default();
    let report = until_end(&iperf3, || killed.kill_an_idle_one_of(&proxy));
    println!("iperf3 -P 8: {report:?}; {killed:?}");
    assert_eq!(report.error, None);
    // At the end its server does not read what is still on the way.
    let most = 8 * tools::bytes_on_the_way();
    let missing = report.sent - report.received;
    assert!(
        report.received > 0 && missing <= most,
        "{missing} of {most}"
    );
}

#[test]
fn bulk_streams_of_the_living_go_on_while_others_die() {
    let mut command = Command::new(prefork_echo());
    command.arg("127.0.0.1:0");
    let upstream = Server::from_command(command, 1);
    let proxy = proxy(upstream.address(), "4");
    let time = Duration::from_secs(seconds().parse().expect("a number of seconds"));
    let streams = streams::start(proxy.address(), 8, time);
    let mut killed = Killed::default();
    let report = until_end(&streams, || killed.kill_one_of(&[&proxy, &upstream]));
    println!("8 streams: {report:?}; {killed:?}");
    assert!(report.mib > 0);
    assert!(report.ended <= killed.sessions, "{report:?}, {killed:?}");
}

fn reloads_lose_nothing(load: impl Fn(SocketAddr) -> Option<Receiver<HttpReport>>) {
    for policy in ["off", "mutex", "exclusive", "least-loaded", "reuseport"] {
        let server = Server::start(&["--workers", "2", "--accept", policy]);
        let Some(load) = load(server.address()) else {
            return;
        };
        let mut reloads = 0;
        let report = until_end(&load, || {
            reloads += 1;
            server.signal(Signal::HUP);
            eventually("the reload is done", || {
                server.log().matches("reload: Done").count() == reloads
            });
        });
        println!("{policy}: {report:?}; {reloads} reloads");
        assert!(report.requests > 0 && report.errors == 0, "{report:?}");
    }
}

#[test]
fn reloads_under_wrk_lose_no_request() {
    reloads_lose_nothing(|server| tools::wrk(server, &seconds(), &[]));
}

#[test]
fn reloads_under_ab_lose_no_request() {
    reloads_lose_nothing(|server| tools::ab(server, &seconds()));
}
