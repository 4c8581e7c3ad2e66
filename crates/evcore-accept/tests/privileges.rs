//! What this user may not have: a port, another's socket.

#![cfg(target_os = "linux")] // where one thread alone can give its privileges up

use std::{env, fs, net::Ipv4Addr, thread};

use evcore_accept::{Address, Error, Listener};
use rustix::{process::Uid, thread::set_thread_uid};

/// What somebody without privileges is told.
fn refusal_of_nobody(address: Address) -> Error {
    let refused = thread::spawn(move || {
        // Refused where it is somebody without privileges already.
        let _ = set_thread_uid(Uid::from_raw(65_534));
        Listener::bind(address)
    });
    refused.join().unwrap().expect_err("it needs privileges")
}

#[test]
fn a_port_that_needs_privilege_is_refused_with_advice() {
    let first_free = fs::read_to_string("/proc/sys/net/ipv4/ip_unprivileged_port_start");
    let first_free: u16 = first_free.map_or(1024, |text| text.trim().parse().unwrap());
    let Some(port) = first_free.checked_sub(1).filter(|port| *port > 0) else {
        return; // here anybody may have any port
    };
    let error = refusal_of_nobody((Ipv4Addr::LOCALHOST, port).into());
    assert!(matches!(error, Error::PermissionDenied { .. }), "{error}");
    assert!(error.to_string().contains("above 1023"), "{error}");
}

#[test]
fn a_socket_that_nobody_else_may_connect_to_is_in_use_and_stays() {
    let name = format!("evcore-accept-{}-closed", std::process::id());
    let address = Address::Unix(env::temp_dir().join(name));
    let options = Listener::builder().mode(0);
    let listener = options.bind(&address).unwrap();
    let error = refusal_of_nobody(address);
    assert!(matches!(error, Error::AddressInUse { .. }), "{error}");
    assert!(listener.file().unwrap().remove().unwrap());
}
