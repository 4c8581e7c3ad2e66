//! Listeners that a service manager has opened (`LISTEN_FDS`).

use std::{
    fs::File,
    net::TcpListener,
    os::{fd::OwnedFd, unix::net::UnixListener},
    path::Path,
    process::{Command, Output, Stdio},
    thread,
};

use evcore_tests::{Client, Scratch, Server, eventually, httpd, is_installed, signal_to};
use rustix::process::Signal;

use crate::command_line::assert_refusal;

/// A shell that becomes the server, and passes it a descriptor with the number 3.
///
/// `variables` are other assignments in the shell's syntax.
pub(super) fn passing(descriptor: impl Into<OwnedFd>, variables: &str) -> Command {
    let mut command = Command::new("sh");
    let script =
        format!("export LISTEN_PID=$$ LISTEN_FDS=1\n{variables}\nexec \"$0\" \"$@\" 3>&1 >&2");
    command.args(["-c", &script]).arg(httpd());
    command.stdout(Stdio::from(descriptor.into()));
    command
}

fn any_port() -> (TcpListener, String) {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
    let address = listener.local_addr().expect("it has one").to_string();
    (listener, address)
}

#[test]
fn a_passed_socket_replaces_the_default_address() {
    for option in [["--workers", "0"], ["--workers", "2"], ["--threads", "2"]] {
        let (listener, address) = any_port();
        let mut command = passing(listener, "");
        command.args(option);
        let server = Server::from_command(command, 1);
        assert_eq!(server.addresses(), [address]);
        assert_eq!(server.connect().get("/").status, 200);
        let log = server.log();
        assert!(!log.contains("no longer listening"), "{log}");
        assert_eq!(log.matches("listening on").count(), 1, "{log}");
    }
}

#[test]
fn a_passed_socket_is_added_to_the_addresses() {
    let (listener, address) = any_port();
    let mut command = passing(listener, "");
    command.args(["--workers", "1", "--listen", "127.0.0.1:0"]);
    let server = Server::from_command(command, 2);
    assert_eq!(server.addresses()[1], address);
    for address in server.addresses() {
        let address = address.parse().expect("an address and port");
        assert_eq!(Client::connect(address).get("/").status, 200);
    }
}

#[cfg(target_os = "linux")]
#[test]
fn a_passed_abstract_socket_is_logged_by_its_name() {
    use std::{
        io::{Read, Write},
        os::{
            linux::net::SocketAddrExt,
            unix::net::{SocketAddr, UnixStream},
        },
    };

    let name = format!("httpd-{}", std::process::id());
    let address = SocketAddr::from_abstract_name(&name).expect("a short name");
    let listener = UnixListener::bind_addr(&address).expect("a free name");
    let mut command = passing(listener, "");
    command.args(["--workers", "1"]);
    let server = Server::from_command(command, 1);
    assert_eq!(server.addresses(), [format!("unix:@{name}")]);
    let mut client = UnixStream::connect_addr(&address).expect("it listens");
    let request = b"GET / HTTP/1.0\r\n\r\n";
    client.write_all(request).expect("it is open");
    let mut answer = String::new();
    client.read_to_string(&mut answer).expect("a text");
    assert!(answer.ends_with("Hello, World!"), "{answer}");
}

#[test]
fn sockets_of_another_process_are_left_alone() {
    let (listener, address) = any_port();
    let mut command = passing(listener, "LISTEN_PID=1");
    command.args(["--workers", "1", "--listen", "127.0.0.1:0"]);
    let server = Server::from_command(command, 1);
    assert_ne!(server.addresses(), [address]);
    assert_eq!(server.connect().get("/").status, 200);
}

#[test]
fn the_file_of_a_passed_unix_socket_is_kept() {
    let dir = Scratch::new("passed");
    let path = dir.file("s");
    let listener = UnixListener::bind(&path).expect("a free path");
    let mut command = passing(listener, "");
    command.args(["--workers", "1"]);
    let mut server = Server::from_command(command, 1);
    let mut client = Client::try_connect_unix(&path).expect("the server listens");
    assert_eq!(client.get("/").status, 200);
    server.signal(Signal::TERM);
    assert!(server.wait().success());
    assert!(path.exists(), "the service manager removes it");
}

#[test]
fn a_new_binary_inherits_a_passed_socket() {
    let dir = Scratch::new("renewed");
    let (path, pid_file) = (dir.file("s"), dir.file("pid"));
    let listener = UnixListener::bind(&path).expect("a free path");
    let mut command = passing(listener, "");
    command.args(["--workers", "1", "--pid"]).arg(&pid_file);
    let mut server = Server::from_command(command, 1);
    let new = upgrade(&server, &pid_file);
    let log = server.log();
    let announced = format!("listening on unix:{}\n", path.display());
    assert!(!log.contains("no longer listening"), "{log}");
    server.signal(Signal::QUIT);
    assert!(server.wait().success());
    let answer = || Client::try_connect_unix(&path).and_then(|mut client| client.try_get("/"));
    eventually("the new binary answers", || {
        answer().is_ok_and(|answer| answer.status == 200)
    });
    let newest = upgrade_from(new, &pid_file);
    #[cfg(target_os = "linux")] // where /proc has the variables of a process
    {
        let environment = std::fs::read(format!("/proc/{newest}/environ")).expect("it runs");
        let for_process = format!("LISTEN_PID={new}");
        let mut variables = environment.split(|byte| *byte == 0);
        assert!(
            variables.any(|variable| variable == for_process.as_bytes()),
            "not that of the first binary, whose number the newest may get"
        );
    }
    signal_to(new, Signal::QUIT);
    signal_to(newest, Signal::TERM);
    eventually("the new binary has ended", || !pid_file.exists());
    assert!(path.exists(), "the service manager removes it");
    eventually("all have logged the address", || {
        server.log().matches(&announced).count() == 3
    });
}

/// `LISTEN_PID` names another process, so the server ignores the passed socket. It binds its Unix
/// socket itself, and has to remove the socket's file.
#[test]
fn a_new_binary_has_no_variables_of_another_process() {
    let dir = Scratch::new("left-over");
    let (path, pid_file) = (dir.file("s"), dir.file("pid"));
    let (listener, _) = any_port();
    let mut command = passing(listener, "LISTEN_PID=1");
    command.args(["--workers", "1", "--listen"]);
    command.arg(format!("unix:{}", path.display()));
    command.arg("--pid").arg(&pid_file);
    let mut server = Server::from_command(command, 1);
    let new = upgrade(&server, &pid_file);
    server.signal(Signal::QUIT);
    assert!(server.wait().success());
    signal_to(new, Signal::TERM);
    eventually("the new binary has ended", || !pid_file.exists());
    eventually("it has removed the file", || !path.exists());
}

#[test]
fn bad_activation_is_an_error_of_one_line() {
    for (variables, named) in [
        ("LISTEN_FDS=many", &["LISTEN_FDS", "many"][..]),
        ("LISTEN_FDS=", &["LISTEN_FDS"]),
        ("LISTEN_FDS=0", &["LISTEN_FDS", "from 1 up"]),
        ("LISTEN_FDS=-1", &["LISTEN_FDS", "-1"]),
        ("LISTEN_FDS=2147483647", &["LISTEN_FDS", "2147483647"]),
        ("LISTEN_FDS=100", &["LISTEN_FDS", "is not open"]),
        ("LISTEN_PID=me", &["LISTEN_PID", "me"]),
        ("LISTEN_PID=", &["LISTEN_PID"]),
        ("LISTEN_PID=0", &["LISTEN_PID", "\"0\""]),
        ("LISTEN_PID=-5", &["LISTEN_PID", "-5"]),
    ] {
        let (listener, _) = any_port();
        assert_refused(passing(listener, variables), named);
    }
}

#[test]
fn a_passed_file_other_than_a_socket_is_an_error_of_one_line() {
    let file = File::open("/dev/null").expect("it is there");
    assert_refused(passing(file, ""), &["LISTEN_FDS", "descriptor 3"]);
    let (listener, _) = any_port();
    let address = listener.local_addr().expect("it has one");
    let connected = std::net::TcpStream::connect(address).expect("it listens");
    assert_refused(passing(connected, ""), &["LISTEN_FDS", "descriptor 3"]);
}

pub(super) fn upgrade(server: &Server, pid_file: &Path) -> u32 {
    upgrade_from(server.pid(), pid_file)
}

fn upgrade_from(old: u32, pid_file: &Path) -> u32 {
    signal_to(old, Signal::USR2);
    let mut new = old;
    eventually("the new binary serves", || {
        let text = std::fs::read_to_string(pid_file).unwrap_or_default();
        new = text.trim().parse().unwrap_or(old);
        new != old
    });
    new
}

fn assert_refused(mut command: Command, named: &[&str]) {
    let output: Output = command.output().expect("it runs");
    assert_refusal(&output, &[], 1, named);
}

#[test]
fn systemd_socket_activate_starts_the_server() {
    if !is_installed("systemd-socket-activate") {
        return;
    }
    let dir = Scratch::new("systemd");
    let path = dir.file("s");
    let mut command = Command::new("systemd-socket-activate");
    command.arg("-l").arg(&path).arg(httpd());
    command.args(["--workers", "1"]);
    let there = path.clone();
    // The service manager starts the server when the first client comes.
    let first = thread::spawn(move || {
        let mut client = None;
        eventually("it listens", || {
            client = Client::try_connect_unix(&there).ok();
            client.is_some()
        });
        client.expect("just waited for").get("/").status
    });
    let server = Server::from_command(command, 1);
    assert_eq!(server.addresses(), [format!("unix:{}", path.display())]);
    assert_eq!(first.join().expect("it is answered"), 200);
}
