//! Each option is read back from the kernel, on both ends of a connection.

use super::*;

use std::io;
use std::io::ErrorKind;
use std::net::{Ipv6Addr, SocketAddr};

use evcore_testing::not_run;

use crate::loopback::{LOCALHOST, accept_one};
use crate::socket_option::SocketOption;
use crate::{ConnectOptions, Error, Listener, Stream};

fn both_ends(options: &SocketOptions, address: SocketAddr) -> Result<[Stream; 2], Error> {
    let listener = Listener::builder().socket(options.clone()).bind(address)?;
    let connect = ConnectOptions::new().socket(options.clone());
    let client = connect.connect(listener.local_addr())?;
    Ok([accept_one(&listener).0, client])
}

/// Options of which one is set, the row of that option in the table of `socket_option.rs`, and the
/// value that the kernel returns for it.
type Case = (SocketOptions, &'static SocketOption, i32);

/// The options whose value is a number, and that any user may set.
fn cases() -> [Case; 12] {
    let new = SocketOptions::new;
    let time = Duration::from_millis(61_001);
    // Linux doubles the sizes of buffers.
    let doubled = |bytes| {
        if cfg!(target_os = "linux") {
            2 * bytes
        } else {
            bytes
        }
    };
    [
        (new().nodelay(true), &NODELAY, 1),
        (new().nodelay(false), &NODELAY, 0),
        (new().keepalive(time), &KEEPALIVE, 1),
        (new().keepalive(time), &KEEPALIVE_IDLE, 62),
        (new().keepalive_interval(time), &KEEPALIVE_INTERVAL, 62),
        (new().keepalive_probes(3), &KEEPALIVE_PROBES, 3),
        (
            new().user_timeout(Duration::from_micros(6_001)),
            &USER_TIMEOUT,
            7,
        ),
        (
            new().receive_buffer(20_000),
            &RECEIVE_BUFFER,
            doubled(20_000),
        ),
        (new().send_buffer(30_000), &SEND_BUFFER, doubled(30_000)),
        (new().notsent_lowat(16_384), &NOTSENT_LOWAT, 16_384),
        (new().tos(0x48), &TOS_V4, 0x48),
        (new().multipath(true), &MULTIPATH, 0),
    ]
}

/// The options whose value is a number, and that need a privilege, at least on some kernels.
fn privileged_cases() -> [Case; 3] {
    let new = SocketOptions::new;
    [
        (
            new().busy_poll(Duration::from_nanos(49_001)),
            &BUSY_POLL,
            50,
        ),
        (new().mark(u32::MAX), &MARK, -1),
        (new().transparent(true), &TRANSPARENT_V4, 1),
    ]
}

fn texts() -> [(SocketOptions, &'static SocketOption); 2] {
    let new = SocketOptions::new;
    [
        (new().congestion_control("reno"), &CONGESTION_CONTROL),
        (new().device("lo"), &DEVICE),
    ]
}

fn assert_values(option: &SocketOption, streams: [Stream; 2], expected: i32) {
    let rounds_up = option.name.ends_with("_buffer") && !cfg!(target_os = "linux");
    for stream in &streams {
        let value = option.read(stream).unwrap();
        // The BSDs round up to whole segments.
        let is_expected = value == expected || rounds_up && value > expected;
        assert!(is_expected, "{}: {value} is not {expected}", option.name);
    }
}

#[test]
fn options_reach_accepted_and_connected_sockets() {
    for (options, option, expected) in cases() {
        if option.name == MULTIPATH.name {
            continue; // Multipath TCP has a test of its own
        }
        match both_ends(&options, LOCALHOST) {
            Ok(streams) => assert_values(option, streams, expected),
            Err(refused) => {
                assert!(matches!(refused, Error::Unsupported { .. }), "{refused}");
                assert!(
                    option.missing_place(&LOCALHOST.into()).is_some(),
                    "{refused}"
                );
            }
        }
    }
}

#[test]
fn without_options_only_nodelay_is_set() {
    let [accepted, connected] = both_ends(&SocketOptions::new(), LOCALHOST).unwrap();
    for stream in [accepted, connected] {
        assert_eq!(NODELAY.read(&stream), Some(1));
        assert!(matches!(KEEPALIVE.read(&stream), Some(0) | None));
        assert!(matches!(USER_TIMEOUT.read(&stream), Some(0) | None));
        assert!(matches!(MARK.read(&stream), Some(0) | None));
        assert!(matches!(TRANSPARENT_V4.read(&stream), Some(0) | None));
    }
}

#[test]
fn options_of_ipv6_reach_its_sockets() {
    let address = SocketAddr::from((Ipv6Addr::LOCALHOST, 0));
    if let Err(error) = Listener::bind(address) {
        return not_run(&format!("IPv6: {error}"));
    }
    let streams = both_ends(&SocketOptions::new().tos(0x48), address).unwrap();
    if HAS_TOS_OF_MAPPED {
        for stream in &streams {
            assert_eq!(
                TOS_OF_MAPPED.read(stream),
                Some(0x48),
                "for packets of IPv4"
            );
        }
    }
    assert_values(&TOS_V6, streams, 0x48);
    match both_ends(&SocketOptions::new().transparent(true), address) {
        Ok(streams) => assert_values(&TRANSPARENT_V6, streams, 1),
        Err(refused) => assert_lacks_privilege(refused),
    }
}

fn assert_lacks_privilege(refused: Error) {
    let message = refused.to_string();
    let kind = io::Error::from(refused).kind();
    if kind == ErrorKind::Unsupported && !cfg!(target_os = "linux") {
        return;
    }
    assert_eq!(kind, ErrorKind::PermissionDenied, "{message}");
    assert!(message.contains("CAP_NET_ADMIN"), "{message}");
}

#[test]
fn options_that_take_a_privilege_reach_sockets_with_it() {
    for (options, option, expected) in privileged_cases() {
        match both_ends(&options, LOCALHOST) {
            Ok(streams) => assert_values(option, streams, expected),
            Err(refused) => {
                not_run(&format!("{}: {refused}", option.name));
                assert_lacks_privilege(refused);
            }
        }
    }
}

#[cfg(target_os = "linux")] // only there can one thread alone give up its privileges
#[test]
fn options_that_take_a_privilege_are_refused_without_it() {
    let plain = Listener::bind(LOCALHOST).unwrap();
    let refusals = std::thread::spawn(move || {
        // The call fails if this user has no privileges anyway.
        let _ = rustix::thread::set_thread_uid(rustix::process::Uid::from_raw(65_534));
        // `busy_poll` is left out, because recent kernels need no privilege for it.
        let [_busy_poll, mark, transparent] = privileged_cases();
        [mark, transparent].map(|(options, ..)| {
            let connect = ConnectOptions::new().socket(options.clone());
            let listen = Listener::builder().socket(options);
            [
                listen.bind(LOCALHOST).unwrap_err(),
                connect.connect(plain.local_addr()).unwrap_err(),
            ]
        })
    });
    for refused in refusals.join().unwrap().into_iter().flatten() {
        assert_lacks_privilege(refused);
    }
}

#[cfg(target_os = "linux")]
#[test]
fn congestion_control_reaches_sockets_by_its_name() {
    let [(options, _), _] = texts();
    for stream in both_ends(&options, LOCALHOST).unwrap() {
        assert_eq!(
            rustix::net::sockopt::tcp_congestion(&stream).unwrap(),
            "reno"
        );
    }
    let unknown = SocketOptions::new().congestion_control("no-such-name");
    let refused = both_ends(&unknown, LOCALHOST).unwrap_err();
    assert!(
        refused.to_string().contains("congestion_control"),
        "{refused}"
    );
    assert_eq!(io::Error::from(refused).kind(), ErrorKind::NotFound);
}

#[cfg(target_os = "linux")]
#[test]
fn device_reaches_sockets_by_its_name() {
    let [_, (options, _)] = texts();
    match both_ends(&options, LOCALHOST) {
        Ok(streams) => {
            for stream in streams {
                assert_eq!(DEVICE.read_text(&stream), "lo");
            }
        }
        Err(refused) => {
            not_run(&format!("device: {refused}"));
            assert_lacks_privilege(refused);
        }
    }
    let unknown = SocketOptions::new().device("no-such-device");
    let refused = both_ends(&unknown, LOCALHOST).unwrap_err();
    assert!(
        matches!(
            refused,
            Error::Option {
                option: "device",
                ..
            }
        ),
        "{refused}"
    );
}

#[cfg(target_os = "linux")]
#[test]
fn multipath_reaches_accepted_and_connected_sockets() {
    let options = SocketOptions::new().multipath(true);
    match both_ends(&options, LOCALHOST) {
        Ok(streams) => {
            // Linux 6.18 has no `user_timeout` for Multipath TCP.
            let timeout = options.user_timeout(Duration::from_secs(1));
            if let Err(refused) = both_ends(&timeout, LOCALHOST) {
                assert!(matches!(refused, Error::Unsupported { .. }), "{refused}");
                assert!(refused.to_string().contains("user_timeout"), "{refused}");
            }
            for stream in streams {
                let protocol = rustix::net::sockopt::socket_protocol(&stream).unwrap();
                assert_eq!(protocol, Some(rustix::net::ipproto::MPTCP));
            }
        }
        Err(refused) => {
            assert!(matches!(refused, Error::Unsupported { .. }), "{refused}");
            not_run(&format!("multipath: {refused}"));
        }
    }
}

#[test]
fn every_option_except_nodelay_is_refused_for_unix_sockets() {
    let numbers = cases().into_iter().chain(privileged_cases());
    let numbers = numbers.map(|(options, option, _)| (options, option.name));
    let texts = texts().map(|(options, option)| (options, option.name));
    let all: Vec<_> = numbers.chain(texts).collect();
    let address = Address::Unix("/no/such/directory/a.sock".into());
    for (options, name) in &all {
        if *name == NODELAY.name {
            continue; // Unix sockets always send at once
        }
        for refused in [
            Listener::builder()
                .socket(options.clone())
                .bind(&address)
                .unwrap_err(),
            ConnectOptions::new()
                .socket(options.clone())
                .connect(&address)
                .unwrap_err(),
        ] {
            let message = refused.to_string();
            assert!(matches!(refused, Error::Unsupported { .. }), "{message}");
            assert!(message.contains(name), "{message}");
            assert!(message.contains("for Unix sockets"), "{message}");
            assert!(message.contains(&address.to_string()), "{message}");
        }
    }
    // The lists above leave no option out.
    for (option, _) in SocketOptions::new().settings(&address) {
        assert!(
            all.iter().any(|(_, name)| *name == option.name),
            "{option:?}"
        );
    }
}

#[test]
fn the_greatest_durations_and_numbers_do_not_overflow() {
    let options = SocketOptions::new().keepalive(Duration::MAX);
    assert!(both_ends(&options, LOCALHOST).is_ok() || cfg!(target_os = "openbsd"));
    let options = SocketOptions::new().user_timeout(Duration::MAX);
    match both_ends(&options, LOCALHOST) {
        Ok(streams) => assert_values(&USER_TIMEOUT, streams, i32::MAX),
        Err(refused) => assert!(matches!(refused, Error::Unsupported { .. }), "{refused}"),
    }
    let options = SocketOptions::new()
        .receive_buffer(u32::MAX)
        .send_buffer(u32::MAX);
    assert!(both_ends(&options, LOCALHOST).is_ok() || !cfg!(target_os = "linux"));
}

#[test]
#[cfg(target_os = "linux")]
fn a_name_that_the_kernel_would_cut_off_is_refused() {
    for name in ["", "lo\0other", "a-name-of-16-chrs"] {
        for options in [
            SocketOptions::new().device(name),
            SocketOptions::new().congestion_control(name),
        ] {
            let refused = both_ends(&options, LOCALHOST).expect_err("no such name");
            assert_eq!(
                io::Error::from(refused).kind(),
                ErrorKind::InvalidInput,
                "{name:?}"
            );
        }
    }
}
