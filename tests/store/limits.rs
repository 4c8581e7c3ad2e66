//! A limit on descriptors while a worker dies.

use evcore_tests::{Client, Server, eventually};

use super::kill;

#[test]
fn most_idle_clients_survive_the_death_of_a_worker_without_descriptors() {
    let options = ["--workers", "1", "--fd-store", "on", "--rebalance", "off"];
    let server = Server::start_limited(100, &options);
    eventually("it has a store", || server.store_pids().len() == 1);
    let worker = server.worker_pids()[0];
    let connect = |_| {
        let mut client = server.connect();
        client.send("GET / HTTP/1.1\r\nHost: a\r\n\r\n");
        client
    };
    let mut clients: Vec<Client> = (0..90).map(connect).collect();
    eventually("it is out of descriptors", || {
        server.log().contains("new clients wait")
    });
    // Clients that wait in the backlog are served when others are evicted, or by the replacement.
    let mut idle: Vec<Client> = clients.drain(..clients.len() / 2).collect();
    idle.retain_mut(|client| client.try_response().is_ok());
    kill(worker);
    let before = idle.len();
    idle.retain_mut(|client| client.try_worker().is_ok_and(|now| now != worker));
    println!(
        "{} of {before} idle clients go on, and {} others waited",
        idle.len(),
        clients.len()
    );
    assert!(2 * idle.len() > before && before > 10);
}
