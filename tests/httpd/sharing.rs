//! Every policy of accepting, on every poller, with processes and with threads: all are served.

use evcore_tests::Server;

/// So many clients at a time that a worker which does not accept would show.
const CLIENTS: usize = 16;

fn all_are_served(accept: &str) {
    for poller in ["epoll", "poll", "select"] {
        for workers in ["--workers", "--threads"] {
            let options = [workers, "2", "--poller", poller, "--accept", accept];
            let server = Server::start(&[&options[..], &["--accept-delay", "50"]].concat());
            // Twice: who comes when others have gone is served as well.
            for _ in 0..2 {
                let mut clients: Vec<_> = (0..CLIENTS).map(|_| server.connect()).collect();
                for client in &mut clients {
                    assert_eq!(client.get("/").text(), "Hello, World!", "{options:?}");
                }
            }
            server.wait_for_status("all but who asks are gone", |status| status.active == 1);
            assert_eq!(server.status().accepts, 2 * CLIENTS as u64 + 2);
        }
    }
}

#[test]
fn off_serves_on_every_poller() {
    all_are_served("off");
}

#[test]
fn mutex_serves_on_every_poller() {
    all_are_served("mutex");
}

#[test]
fn exclusive_serves_on_every_poller() {
    all_are_served("exclusive");
}

#[test]
fn reuseport_serves_on_every_poller() {
    all_are_served("reuseport");
}

#[test]
fn least_loaded_serves_on_every_poller() {
    all_are_served("least-loaded");
}
