//! USR2 and QUIT: a new binary replaces the old one, while clients come without a pause.

use std::{sync::atomic::AtomicBool, thread};

use evcore_tests::{Client, Scratch, Server, SetOnDrop, eventually, signal_to};
use rustix::process::Signal;

use crate::reloads::{KilledOnDrop, pid_in, visit};

const UPGRADES: usize = 5;

const POLICIES: [&str; 5] = ["least-loaded", "mutex", "exclusive", "off", "reuseport"];

#[test]
fn upgrades_lose_no_client() {
    for policy in POLICIES {
        upgrades_under(policy);
    }
}

fn upgrades_under(policy: &str) {
    let directory = Scratch::new(&format!("upgrades-{policy}"));
    let pid_file = directory.path().join("pid");
    let path = pid_file.to_str().expect("a text");
    let options = ["--workers", "2", "--accept", policy, "--pid", path];
    let server = Server::start(&options);
    let address = server.address();
    let is_over = AtomicBool::new(false);
    let mut master = KilledOnDrop(server.pid());
    thread::scope(|scope| {
        let end = SetOnDrop(&is_over);
        let visitor = || scope.spawn(|| visit(address, &is_over));
        let clients = [visitor(), visitor(), visitor()];
        for _ in 0..UPGRADES {
            let old = master.0;
            signal_to(old, Signal::USR2);
            eventually("the new binary has written its id", || {
                master.0 = pid_in(&pid_file).filter(|pid| *pid != old).unwrap_or(old);
                master.0 != old
            });
            signal_to(old, Signal::QUIT);
            // While the old binary lives, a further upgrade is refused.
            eventually("the old one has ended", || has_ended(old));
            assert!(!clients.iter().any(|client| client.is_finished()));
        }
        drop(end);
        for client in clients {
            assert!(client.join().expect("no client failed") > 0, "{policy}");
        }
    });
    signal_to(master.0, Signal::QUIT);
    eventually("the last one has ended", || {
        Client::try_connect(address).is_err() && !pid_file.exists()
    });
    master.0 = 0;
}

/// Returns whether a process has ended, reaped or not.
fn has_ended(pid: u32) -> bool {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat"));
    stat.map_or(true, |stat| stat.contains(") Z "))
}
