//! Every accept policy, on each poller that the kernel permits, with processes and with threads.

use crate::permitted_pollers::permitted;
use evcore_tests::Server;

/// Number of clients at a time, enough to reveal a worker that does not accept.
const CLIENTS: usize = 16;

fn serves_all_clients(accept: &str) {
    for poller in permitted(&["epoll", "poll", "select", "io_uring"]) {
        for workers in ["--workers", "--threads"] {
            let options = [workers, "2", "--poller", poller, "--accept", accept];
            let server = Server::start(&[&options[..], &["--accept-delay", "50"]].concat());
            // In the second round, new clients are served after others have gone.
            for _ in 0..2 {
                let mut clients: Vec<_> = (0..CLIENTS).map(|_| server.connect()).collect();
                for client in &mut clients {
                    assert_eq!(client.get("/").text(), "Hello, World!", "{options:?}");
                }
            }
            server.wait_for_status("only the asking client is left", |status| {
                status.active == 1
            });
            assert_eq!(server.status().accepts, 2 * CLIENTS as u64 + 2);
        }
    }
}

#[test]
fn off_serves_on_every_poller() {
    serves_all_clients("off");
}

#[test]
fn mutex_serves_on_every_poller() {
    serves_all_clients("mutex");
}

#[test]
fn exclusive_serves_on_every_poller() {
    serves_all_clients("exclusive");
}

#[test]
fn reuseport_serves_on_every_poller() {
    serves_all_clients("reuseport");
}

#[test]
fn least_loaded_serves_on_every_poller() {
    serves_all_clients("least-loaded");
}
