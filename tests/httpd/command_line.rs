//! The command line of `httpd`: its options, and its errors, each of which is one line.

use std::{
    os::{fd::OwnedFd, unix::net::UnixStream},
    process::{Command, Output},
};

use evcore_tests::{Scratch, Server, httpd};

fn run(options: &[&str]) -> Output {
    Command::new(httpd())
        .args(options)
        .output()
        .expect("it runs")
}

fn assert_refused(options: &[&str], status: i32, named: &[&str]) {
    assert_refusal(&run(options), options, status, named);
}

pub(super) fn assert_refusal(
    output: &Output,
    options: &[&str],
    status: i32,
    named: &[&str],
) -> String {
    let message = String::from_utf8(output.stderr.clone()).expect("a text");
    assert_eq!(output.status.code(), Some(status), "{options:?}: {message}");
    assert_eq!(message.lines().count(), 1, "{options:?}: {message}");
    for word in named {
        assert!(
            message.contains(word),
            "{options:?}: {word:?} is not in {message:?}"
        );
    }
    message
}

#[test]
fn a_bad_option_is_named_with_the_allowed_values() {
    let cases: &[(&[&str], &[&str])] = &[
        (&["--nonsense"], &["--nonsense", "--help"]),
        (&["--worker", "2"], &["--worker'", "mean '--workers'?"]),
        (&["-x"], &["-x"]),
        (&["word"], &["word"]),
        (&["--listen"], &["--listen"]),
        (&["--listen", "8080"], &["--listen", "8080", "ADDRESS:PORT"]),
        (&["--listen", "127.0.0.1:99999"], &["--listen", "99999"]),
        (&["--listen", "::1:80"], &["--listen", "brackets"]),
        (&["--listen", "localhost:0"], &["--listen", "not looked up"]),
        (&["--listen", "unix:"], &["--listen", "unix:PATH"]),
        (&["--workers", "many"], &["--workers", "many", "auto"]),
        (&["--workers", "-1"], &["--workers", "-1"]),
        (&["--workers", "10000"], &["--workers", "10000", "1023"]),
        (&["--threads", "0"], &["--threads", "0", "1023"]),
        (&["--threads", "10000"], &["--threads", "10000", "1023"]),
        (
            &["--threads", "1", "--workers", "1"],
            &["--threads", "--workers"],
        ),
        (
            &["--cpu-affinity", "auto 02"],
            &["--cpu-affinity", "'2', character 7"],
        ),
        (
            &["--cpu-affinity", "0001 012"],
            &["--cpu-affinity", "'2', character 8"],
        ),
        (
            &["--cpu-affinity", "auto", "--workers", "0"],
            &["--cpu-affinity", "--workers 0"],
        ),
        (&["--cpu-affinity", "xyz"], &["--cpu-affinity", "'x'"]),
        (
            &["--log-level", "all"],
            &["--log-level", "all", "error, debug"],
        ),
        (&["--watchdog", "0"], &["--watchdog", "86400000"]),
        (
            &["--access-log-format", "xml"],
            &["--access-log-format", "xml", "common, json"],
        ),
        (&["--access-log-format"], &["--access-log-format"]),
        (&["--quiet=1"], &["--quiet"]),
        (
            &["--proxy-protocol", "10.0.0.0/8,localhost"],
            &["--proxy-protocol", "localhost", "ADDRESS/BITS"],
        ),
        (
            &["--flight-recorder", "-1"],
            &["--flight-recorder", "1048576"],
        ),
        (
            &["--cpu-affinity", "00"],
            &["--cpu-affinity", "names no CPU"],
        ),
        (&["--cpu-affinity", ""], &["--cpu-affinity", "auto MASK"]),
        (&["--cpu-affinity", " "], &["--cpu-affinity", "is empty"]),
        (
            &["--cpu-affinity", "1000000000000000000000000000000000000000"],
            &["--cpu-affinity", "CPU 39", "there are: "],
        ),
        (
            &["--accept", "spread"],
            &["--accept", "spread", "off", "mutex", "least-loaded"],
        ),
        (&["--accept-delay", "0"], &["--accept-delay", "0"]),
        (&["--accept-delay", "soon"], &["--accept-delay", "soon"]),
        (&["--multi-accept", "0"], &["--multi-accept", "0", "1"]),
        (&["--poller", "fast"], &["--poller", "fast", "poll"]),
        (&["--poller", "port"], &["--poller", "port", "poll"]),
        (&["--timers", "sand"], &["--timers", "sand", "wheel"]),
        (
            &["--timer-resolution", "0"],
            &["--timer-resolution", "0", "from 1 to 86400000"],
        ),
        (
            &["--timer-resolution", "86400001"],
            &["--timer-resolution", "from 1 to 86400000"],
        ),
        (
            &["--timer-resolution", "10ms"],
            &["--timer-resolution", "10ms"],
        ),
        (&["--connections", "0"], &["--connections", "0"]),
        (&["--connections", "99999999999"], &["--connections"]),
        (&["--header-timeout", "1.5"], &["--header-timeout", "1.5"]),
        (&["--keepalive-timeout", ""], &["--keepalive-timeout"]),
        (&["--send-timeout", "x"], &["--send-timeout"]),
        (
            &["--shutdown-timeout", "99999999999"],
            &["--shutdown-timeout"],
        ),
        (&["--bodies", "1048575"], &["--bodies", "from 1048576"]),
        (&["--bodies", "64M"], &["--bodies", "64M"]),
        (&["--send-buffer"], &["--send-buffer"]),
        (
            &["--send-buffer", "0"],
            &["--send-buffer", "0", "from 4096"],
        ),
        (&["--send-buffer", "4095"], &["--send-buffer", "4095"]),
        (&["--send-buffer", "64K"], &["--send-buffer", "64K"]),
        (
            &["--send-buffer", "9999999999999"],
            &["--send-buffer", "to 1073741824"],
        ),
        (
            &["--send-buffer", "65536", "--listen", "unix:/tmp/a"],
            &["--send-buffer", "unix:/tmp/a", "TCP"],
        ),
        (&["--access-log"], &["--access-log"]),
        (&["--no-delay-endpoints=1"], &["--no-delay-endpoints"]),
        (&["--pid"], &["--pid"]),
        (&["--pid", ""], &["--pid", "FILE"]),
        (
            &["--hang-timeout", "100", "--threads", "2"],
            &["--hang-timeout", "worker processes"],
        ),
        (
            &["--hang-timeout", "100", "--record", "file"],
            &["--hang-timeout", "--record"],
        ),
        (
            &["--fd-store", "on", "--handover", "off"],
            &["--fd-store", "--handover on"],
        ),
        (&["--root"], &["--root"]),
        (&["--root", ""], &["--root", "DIR"]),
        (&["--index", "a"], &["--index", "--root DIR"]),
        (
            &["--access-log-format", "json"],
            &["--access-log-format", "--access-log PATH"],
        ),
        (&["--demo", "--threads", "2"], &["--demo", "--workers"]),
        (&["--demo", "--workers", "0"], &["--demo", "--workers"]),
        (&["--open-files", "9"], &["--open-files", "--root DIR"]),
        (
            &["--root", "/", "--index", "a/b"],
            &["--index", "a/b", "name of a file"],
        ),
        (
            &["--root", "/", "--index", ".."],
            &["--index", "..", "name of a file"],
        ),
        (
            &["--root", "/", "--open-files", "-1"],
            &["--open-files", "-1", "from 0 to"],
        ),
    ];
    for (options, named) in cases {
        assert_refused(options, 2, named);
    }
}

#[test]
fn a_bad_root_is_an_error_of_one_line() {
    let scratch = Scratch::new("bad-root");
    let file = scratch.file("file");
    std::fs::write(&file, "no directory").expect("the directory is ours");
    let file = file.to_str().expect("a text");
    let listen = ["--listen", "127.0.0.1:0"];
    for (root, named) in [
        ("/nothing/there", "No such file"),
        (file, "Not a directory"),
    ] {
        for workers in ["0", "2"] {
            let options = [&listen[..], &["--workers", workers, "--root", root]].concat();
            assert_refused(&options, 1, &["--root", root, named]);
        }
    }
}

#[test]
fn help_lists_every_option_and_succeeds() {
    let output = run(&["--help"]);
    assert!(output.status.success());
    let help = String::from_utf8(output.stdout).expect("a text");
    for option in evcore_httpd::options::table().get_arguments() {
        let option = format!(" --{} ", option.get_long().expect("a name"));
        assert!(help.contains(&option), "{option}");
    }
    assert!(
        help.ends_with("are handled.\n") && !help.contains('`'),
        "{help}"
    );
}

#[test]
fn the_version_is_that_of_the_package() {
    let output = run(&["--version"]);
    assert!(output.status.success());
    let expected = format!("httpd {}\n", env!("CARGO_PKG_VERSION"));
    assert_eq!(String::from_utf8_lossy(&output.stdout), expected);
}

#[test]
fn help_that_cannot_be_printed_is_an_error_of_one_line() {
    let (stdout, reader) = UnixStream::pair().expect("a pair of sockets");
    drop(reader);
    let mut command = Command::new(httpd());
    let output = command.arg("--help").stdout(OwnedFd::from(stdout)).output();
    assert_refusal(&output.expect("it runs"), &["--help"], 1, &["--help"]);
}

#[test]
fn an_address_in_use_is_an_error_of_one_line() {
    let server = Server::start(&["--workers", "0"]);
    let address = server.address().to_string();
    assert_refused(
        &["--listen", &address],
        1,
        &[&address, "in use", "--listen"],
    );
}

#[test]
fn a_bad_path_is_an_error_of_one_line() {
    let scratch = Scratch::new("paths");
    let directory = scratch.path().to_str().expect("a text");
    let missing = format!("{directory}/no/such");
    for option in ["--access-log", "--pid"] {
        for path in [directory, &missing] {
            let options = ["--listen", "127.0.0.1:0", option, path];
            assert_refused(&options, 1, &[path]);
        }
    }
}

#[test]
fn an_address_of_another_host_is_an_error_of_one_line() {
    // This address is reserved for documentation, so no machine has it.
    assert_refused(&["--listen", "192.0.2.1:0"], 1, &["192.0.2.1"]);
}

/// On Linux, a superuser can drop the capability to bind these ports and keep all others. (The test
/// does not become another user, because that user might have no access to the program.)
#[cfg(target_os = "linux")]
#[test]
fn a_privileged_port_is_an_error_of_one_line() {
    use evcore_tests::not_run;
    use rustix::thread::{CapabilitySet, remove_capability_from_bounding_set};

    let first_free = std::fs::read_to_string("/proc/sys/net/ipv4/ip_unprivileged_port_start");
    let first_free: u16 = first_free.map_or(1024, |text| text.trim().parse().expect("a port"));
    let Some(port) = first_free.checked_sub(1).filter(|port| *port > 0) else {
        not_run("every user may bind any port here");
        return;
    };
    let address = format!("127.0.0.1:{port}");
    let options = ["--listen", &address];
    // The programs that the spawned thread starts do not get the capability. The other tests keep
    // it.
    let output = std::thread::scope(|threads| {
        let running = threads.spawn(|| {
            if rustix::process::getuid().is_root() {
                let given_up = CapabilitySet::NET_BIND_SERVICE;
                remove_capability_from_bounding_set(given_up)
                    .expect("the thread has the capability");
            }
            run(&options)
        });
        running.join().expect("it runs")
    });
    let named = [&address, "permission denied", "above 1023"];
    assert_refusal(&output, &options, 1, &named);
}
