//! The examples that use one crate of this project in an event loop other than `evcore`'s: echo
//! servers, a pool and a handover. Each runs as a process.

use std::{
    io::{self, BufRead, Read, Write},
    net::{Shutdown, SocketAddr, TcpStream},
    os::unix::process::CommandExt,
    process::{Command, Stdio},
    thread,
};

use evcore_tests::{PATIENCE, Server, eventually, example};
#[cfg(target_os = "linux")]
use rustix::process::{Pid, Signal, kill_process_group};

/// The package and the name of each echo server.
const EXAMPLES: &[(&str, &str)] = &[
    ("evcore-net", "with_mio"),
    #[cfg(target_os = "linux")]
    ("evcore-balancer", "foreign_loop"),
];

/// More bytes than the kernel takes from a client while the server does not read.
const LENGTH: usize = 8 << 20;

/// A limit that leaves an example a few descriptors for clients.
const DESCRIPTORS: u32 = 48;

fn servers() -> impl Iterator<Item = Server> {
    EXAMPLES.iter().map(|(package, name)| {
        let script = format!("ulimit -n {DESCRIPTORS}; exec \"$0\" 127.0.0.1:0");
        let mut command = Command::new("sh");
        command.args(["-c", &script]).arg(example(package, name));
        Server::from_command(command, 1)
    })
}

fn connect(server: SocketAddr) -> io::Result<TcpStream> {
    let stream = TcpStream::connect(server)?;
    stream.set_read_timeout(Some(PATIENCE))?;
    stream.set_write_timeout(Some(PATIENCE))?;
    Ok(stream)
}

/// Sends a byte, and returns the connection after the byte has come back.
fn served(server: SocketAddr) -> io::Result<TcpStream> {
    let mut stream = connect(server)?;
    stream.write_all(b"?")?;
    stream.read_exact(&mut [0])?;
    Ok(stream)
}

#[test]
fn an_example_echoes_all_bytes_and_then_the_end() {
    for server in servers() {
        let stream = connect(server.address()).unwrap();
        let sent: Vec<u8> = (0..=250).cycle().take(LENGTH).collect();
        let received = thread::scope(|scope| {
            scope.spawn(|| {
                (&stream).write_all(&sent).unwrap();
                stream.shutdown(Shutdown::Write).unwrap();
            });
            let mut received = Vec::new();
            (&stream).read_to_end(&mut received).unwrap();
            received
        });
        assert!(received == sent, "{} of {LENGTH} bytes", received.len());
    }
}

#[test]
fn an_example_serves_others_while_one_client_does_not_read() {
    for server in servers() {
        let stream = connect(server.address()).unwrap();
        thread::scope(|scope| {
            let sending = scope.spawn(|| (&stream).write_all(&vec![b'x'; LENGTH]));
            for _ in 0..100 {
                served(server.address()).unwrap();
            }
            stream.shutdown(Shutdown::Both).unwrap();
            let _ = sending.join().unwrap();
        });
    }
}

#[test]
fn an_example_without_descriptors_serves_when_one_is_free() {
    for server in servers() {
        let mut clients = Vec::new();
        for _ in 0..DESCRIPTORS {
            let mut client = connect(server.address()).unwrap();
            client.write_all(b"?").unwrap();
            clients.push(client);
        }
        eventually("the log reports that descriptors ran out", || {
            let log = server.log();
            ["out of descriptors", "Too many open files"]
                .iter()
                .any(|message| log.contains(message))
        });
        // Each served client leaves, and so makes room for another.
        for mut client in clients {
            client.read_exact(&mut [0]).unwrap();
        }
        served(server.address()).unwrap();
    }
}

#[test]
fn a_pool_beside_mio_resolves_all_names_and_ends() {
    let mut command = Command::new(example("evcore-pool", "resolve_with_mio"));
    // There are more names than the pool has threads. None of them needs a name server.
    let names: Vec<String> = (1..=20).map(|n| format!("127.0.0.{n}:0")).collect();
    let output = command.args(&names).output().unwrap();
    assert!(output.status.success(), "{output:?}");
    let mut lines: Vec<_> = output.stdout.lines().map(Result::unwrap).collect();
    let mut expected: Vec<_> = names
        .iter()
        .map(|name| format!("{name}: [{name}]"))
        .collect();
    lines.sort_unstable();
    expected.sort_unstable();
    assert_eq!(lines, expected);
}

#[cfg(target_os = "linux")]
#[test]
fn a_server_of_mio_moves_its_clients_to_a_new_process_twice() {
    let mut command = Command::new(example("evcore-handover", "move_with_mio"));
    let mut first = command
        .arg("127.0.0.1:0")
        .stdout(Stdio::piped())
        // The process group is killed even if the test fails.
        .process_group(0)
        .spawn()
        .unwrap();
    let group = Pid::from_child(&first);
    let _end = OnDrop(|| kill_process_group(group, Signal::KILL).unwrap());
    let mut line = String::new();
    let mut output = io::BufReader::new(first.stdout.take().unwrap());
    output.read_line(&mut line).unwrap();
    let address: SocketAddr = line
        .trim_end()
        .strip_prefix("listening on ")
        .unwrap()
        .parse()
        .unwrap();
    // The state that moves is half a line.
    let mut clients: Vec<_> = (0..300).map(|_| connect(address).unwrap()).collect();
    for client in &mut clients {
        client.write_all(b"he").unwrap();
    }
    let mut processes = vec![first.id().to_string()];
    for round in 0..2 {
        let mut mover = io::BufReader::new(connect(address).unwrap());
        mover.get_mut().write_all(b"move\n").unwrap();
        assert_eq!(answer(&mut mover), [&*processes[round], "move"]);
        mover.get_mut().write_all(b"where\n").unwrap();
        processes.push(answer(&mut mover)[0].clone());
        assert_ne!(processes[round], processes[round + 1]);
    }
    assert!(first.wait().unwrap().success());
    for client in clients {
        let mut client = io::BufReader::new(client);
        client.get_mut().write_all(b"llo\n").unwrap();
        assert_eq!(answer(&mut client), [&*processes[2], "hello"]);
    }
}

#[cfg(target_os = "linux")]
struct OnDrop<F: Fn()>(F);

#[cfg(target_os = "linux")]
impl<F: Fn()> Drop for OnDrop<F> {
    fn drop(&mut self) {
        self.0();
    }
}

/// The words of an answer: the process, and the line that it got.
#[cfg(target_os = "linux")]
fn answer(client: &mut io::BufReader<TcpStream>) -> Vec<String> {
    let mut line = String::new();
    client.read_line(&mut line).unwrap();
    line.split_whitespace().map(String::from).collect()
}
