//! Listening without permission: at a low port, and at the socket of another user.

#![cfg(target_os = "linux")] // only there can one thread alone give up its privileges

use std::{env, fs, net::Ipv4Addr, thread};

use evcore_net::{Address, Error, Listener};
use evcore_testing::not_run;
use rustix::{process::Uid, thread::set_thread_uid};

fn error_without_privileges(address: Address) -> Error {
    let refused = thread::spawn(move || {
        // The call fails if this user has no privileges anyway.
        let _ = set_thread_uid(Uid::from_raw(65_534));
        Listener::bind(address)
    });
    refused
        .join()
        .unwrap()
        .expect_err("listening there needs privileges")
}

#[test]
fn a_port_that_needs_privilege_is_refused_with_advice() {
    let first_free = fs::read_to_string("/proc/sys/net/ipv4/ip_unprivileged_port_start");
    let first_free: u16 = first_free.map_or(1024, |text| text.trim().parse().unwrap());
    let Some(port) = first_free.checked_sub(1).filter(|port| *port > 0) else {
        not_run("every user may have any port here");
        return;
    };
    let error = error_without_privileges((Ipv4Addr::LOCALHOST, port).into());
    assert!(matches!(error, Error::PermissionDenied { .. }), "{error}");
    assert!(error.to_string().contains("above 1023"), "{error}");
}

#[test]
fn a_socket_of_another_user_is_in_use_and_stays() {
    let name = format!("evcore-net-{}-closed", std::process::id());
    let address = Address::Unix(env::temp_dir().join(name));
    let options = Listener::builder().mode(0);
    let listener = options.bind(&address).unwrap();
    let error = error_without_privileges(address);
    assert!(matches!(error, Error::AddressInUse { .. }), "{error}");
    assert!(listener.file().unwrap().remove().unwrap());
}
