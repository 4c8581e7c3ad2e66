//! A port that this user may not have.

#![cfg(target_os = "linux")] // where one thread alone can give its privileges up

use std::{fs, net::Ipv4Addr, thread};

use evcore_accept::{Error, Listener};
use rustix::{process::Uid, thread::set_thread_uid};

#[test]
fn a_port_that_needs_privilege_is_refused_with_advice() {
    let first_free = fs::read_to_string("/proc/sys/net/ipv4/ip_unprivileged_port_start");
    let first_free: u16 = first_free.map_or(1024, |text| text.trim().parse().unwrap());
    let Some(port) = first_free.checked_sub(1).filter(|port| *port > 0) else {
        return; // here anybody may have any port
    };
    let refused = thread::spawn(move || {
        // `nobody`: refused where it is somebody already.
        let _ = set_thread_uid(Uid::from_raw(65_534));
        Listener::bind((Ipv4Addr::LOCALHOST, port).into())
    });
    let error = refused.join().unwrap().unwrap_err();
    assert!(matches!(error, Error::PermissionDenied { .. }), "{error}");
    assert!(error.to_string().contains("above 1023"), "{error}");
}
