//! `--demo`: a server with a load of its own.

use std::{fs, process::Command};

use evcore_tests::{Scratch, Server, eventually, httpd};

#[test]
fn the_demo_kills_workers_and_ends_with_the_server() {
    let server = Server::start(&["--workers", "2", "--demo"]);
    eventually("clients, and a worker that was killed", || {
        let status = server.try_status_json();
        status.is_some_and(|status| {
            status["active"].as_u64() > Some(20) && status["restarts"].as_u64() > Some(0)
        })
    });
    let address = server.address().to_string();
    assert!(has_load(&address));
    // The drop kills the server, which then cannot end its child.
    drop(server);
    eventually("the load ends", || !has_load(&address));
}

fn has_load(server: &str) -> bool {
    let line = format!("--demo-load\0{server}\0");
    let mut processes = fs::read_dir("/proc").expect("Linux has it").flatten();
    processes.any(|entry| {
        fs::read_to_string(entry.path().join("cmdline")).is_ok_and(|words| words.ends_with(&line))
    })
}

#[test]
fn a_demo_without_a_tcp_address_is_refused() {
    let scratch = Scratch::new("demo");
    let path = format!("unix:{}", scratch.file("socket").display());
    let mut command = Command::new(httpd());
    command.args(["--demo", "--listen", &path]);
    let output = command.output().expect("it runs");
    let log = String::from_utf8_lossy(&output.stderr);
    assert!(log.contains("--demo needs a TCP address"), "{log}");
    assert_eq!(output.status.code(), Some(1));
}
