//! A new binary beside the old one: this very program, or what stands in its place by then.

use std::net::TcpListener;

use evcore_prefork::inherited;

use super::{run, serve, talkative};

pub(super) fn play(scene: &str) -> bool {
    match scene {
        "upgrade" => upgrade(),
        "bad inheritance" => bad_inheritance(),
        _ => return false,
    }
    true
}

fn upgrade() {
    let listener = match inherited().unwrap().into_iter().next() {
        Some(descriptor) => {
            println!("inherits");
            TcpListener::from(descriptor)
        }
        None => TcpListener::bind("127.0.0.1:0").unwrap(),
    };
    println!("listens {}", listener.local_addr().unwrap());
    let supervisor = talkative(1).inherit(&listener).unwrap();
    run(supervisor, move |worker| {
        let _listener = &listener;
        serve(worker)
    });
}

/// The variable is set by the test.
fn bad_inheritance() {
    println!("error {}", inherited().unwrap_err());
}
