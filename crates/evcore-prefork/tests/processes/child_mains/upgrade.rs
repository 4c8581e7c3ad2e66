//! Servers that start a new binary: this program, or the file that has replaced it.

use std::net::TcpListener;

use evcore_prefork::{Supervisor, Upgrade, inherited};
use rustix::process::{Pid, Signal, kill_current_process_group, kill_process};

use super::{logging, run, serve};

pub(super) fn run_main(name: &str) -> bool {
    match name {
        "upgrade" => upgrade(logging(1), 1),
        "upgrade with early commands" => upgrade(with_early_commands(), 1),
        // Many descriptors take time between fork and exec.
        "upgrade of many descriptors" => upgrade(logging(1), 900),
        "stop before an upgrade" => stop_before_an_upgrade(),
        "bad inheritance" => bad_inheritance(),
        _ => return false,
    }
    true
}

/// A master that sends the new binary a HUP as soon as the new binary runs.
fn with_early_commands() -> Supervisor<'static> {
    logging(1).on_upgrade(|upgrade| {
        println!("upgrade {upgrade}");
        if let Upgrade::Started(process) = upgrade {
            let process = Pid::from_raw(process.get().try_into().unwrap()).unwrap();
            kill_process(process, Signal::HUP).unwrap();
        }
    })
}

/// Serves, and passes on this many copies of the listener.
fn upgrade(mut supervisor: Supervisor<'_>, copies: usize) {
    // All inherited copies except the first are closed here.
    let listener = match inherited().unwrap().into_iter().next() {
        Some(descriptor) => {
            println!("inherits");
            TcpListener::from(descriptor)
        }
        None => TcpListener::bind("127.0.0.1:0").unwrap(),
    };
    println!("listens {}", listener.local_addr().unwrap());
    for _ in 0..copies {
        supervisor = supervisor.inherit(&listener).unwrap();
    }
    run(supervisor, move |worker| {
        let _listener = &listener;
        serve(worker)
    });
}

/// Gets a Ctrl-C when the new binary is about to be started.
fn stop_before_an_upgrade() {
    let supervisor = logging(1).on_upgrade(|upgrade| {
        println!("upgrade {upgrade}");
        if matches!(upgrade, Upgrade::Starting) {
            kill_current_process_group(Signal::INT).unwrap();
        }
    });
    run(supervisor, serve);
}

fn bad_inheritance() {
    println!("error {}", inherited().unwrap_err());
}
