//! `httpd --record` under clients of all kinds, and `evcore-replay` on its files. A recording
//! consists of turns, each of which is one iteration of the event loop.

use std::{
    collections::BTreeMap,
    env, fs,
    io::{self, Write},
    net::{Shutdown, SocketAddr, TcpStream},
    os::unix::fs::PermissionsExt,
    path::{Path, PathBuf},
    process::{Command, Output},
    sync::atomic::{AtomicBool, Ordering},
    thread,
    time::{Duration, Instant},
};

use evcore_sim::Sim;
use evcore_tests::{
    Client, PATIENCE, Scratch, Server, SetOnDrop, evcore_replay, eventually, is_busy, not_run,
    signal_to,
};
use rustix::process::Signal;

use crate::corpus::CASES;

fn replay(options: &[&str], file: &Path) -> Output {
    let mut command = Command::new(evcore_replay());
    command.args(options).arg(file);
    command.output().expect("it runs")
}

fn assert_identical(file: &Path) -> String {
    let output = replay(&[], file);
    let errors = String::from_utf8_lossy(&output.stderr);
    assert_eq!(
        output.status.code(),
        Some(0),
        "{}: {errors}",
        file.display()
    );
    let text = String::from_utf8(output.stdout).expect("it is text");
    assert!(text.starts_with("identical: "), "{text}");
    text
}

fn send_corpus(server: SocketAddr) {
    for case in CASES.iter().copied().flatten() {
        for length in [usize::MAX, 7] {
            let request = [case.start.as_bytes(), case.rest].concat();
            let Ok(mut stream) = TcpStream::connect(server) else {
                return;
            };
            stream.set_read_timeout(Some(PATIENCE)).expect("a time");
            let mut pieces = request.chunks(length.min(request.len()));
            if pieces.all(|piece| stream.write_all(piece).is_ok()) {
                let _ = stream.shutdown(Shutdown::Write);
                let _ = io::copy(&mut stream, &mut io::sink());
            }
        }
    }
}

fn send_requests(server: SocketAddr, requests: usize) {
    let Ok(mut client) = Client::try_connect(server) else {
        return;
    };
    let paths = [
        "/",
        "/bytes/70000",
        "/files/corpus.rs",
        "/worker",
        "/sleep/1",
        "/status",
        "/files/missing",
        "/metrics",
    ];
    for path in paths.into_iter().cycle().take(requests) {
        if client.try_get(path).is_err() {
            return;
        }
    }
}

/// The length of a long run in seconds; `None` for a short run.
fn seconds() -> Option<u64> {
    let seconds = env::var("EVCORE_RECORD_SECONDS").ok()?;
    Some(seconds.parse().expect("a number"))
}

/// Sends requests from many clients, and the corpus. A long run repeats this while wrk sends
/// requests too.
fn load(server: SocketAddr) {
    load_once(server);
    let Some(seconds) = seconds() else {
        return;
    };
    let begun = Instant::now();
    let mut wrk = Command::new("wrk");
    wrk.args(["-t1", "-c64"]).arg(format!("-d{seconds}"));
    let wrk = wrk.arg(format!("http://{server}/")).spawn();
    while begun.elapsed() < Duration::from_secs(seconds) {
        load_once(server);
    }
    let status = wrk.expect("wrk is installed").wait();
    assert!(status.expect("it ends").success());
}

fn load_once(server: SocketAddr) {
    let requests = move || send_requests(server, 200);
    let clients: Vec<_> = (0..16).map(|_| thread::spawn(requests)).collect();
    send_corpus(server);
    for client in clients {
        client.join().expect("it ends");
    }
}

#[test]
fn four_workers_under_every_kind_of_client_are_replayed() {
    for policy in ["least-loaded", "mutex"] {
        let scratch = Scratch::new("recorded");
        let file = scratch.file("worker");
        let options = ["--workers", "4", "--accept", policy, "--flight-recorder"];
        let recorded = ["500000", "--root", "hostile", "--access-log", "/dev/null"];
        let size = seconds().map_or("67108864", |_| "1073741824");
        let name = file.to_str().expect("it is text");
        let name = ["--record-size", size, "--record", name];
        let mut server = Server::start(&[&options[..], &recorded, &name].concat());
        load(server.address());
        server.signal(Signal::QUIT);
        assert!(server.wait().success());
        let mut turns = 0;
        for worker in 0..4 {
            let file = scratch.file(&format!("worker.{worker}"));
            let mode = fs::metadata(&file).expect("it exists").permissions().mode();
            assert_eq!(mode & 0o777, 0o600);
            let text = assert_identical(&file);
            assert!(text.contains("ends after a whole turn"), "{text}");
            let number = text.split(' ').nth(1).expect("the number of turns");
            turns += number.parse::<u64>().expect("a number");
        }
        // A recording that had begun anew would have only the turns of the last client.
        println!("{policy}: {turns} turns");
        assert!(turns > seconds().map_or(500, |seconds| 500 * seconds));
    }
}

#[test]
fn a_worker_that_is_killed_leaves_a_recording_that_is_replayed() {
    let scratch = Scratch::new("killed");
    let file = scratch.file("worker");
    let name = file.to_str().expect("it is text");
    let server = Server::start(&["--workers", "1", "--record", name]);
    let address = server.address();
    let worker = server.wait_for_workers(1, &[])[0];
    let clients: Vec<_> = (0..8)
        .map(|_| thread::spawn(move || send_requests(address, usize::MAX)))
        .collect();
    server.wait_for_status("requests", |status| status.requests > 1_000);
    signal_to(worker, Signal::KILL);
    for client in clients {
        client.join().expect("the kill ends it");
    }
    assert_ne!(server.wait_for_workers(1, &[worker])[0], worker);
    let old = scratch.file("worker.0.old");
    assert_identical(&old);
    let list = replay(&["--list"], &old).stdout;
    let sent = String::from_utf8_lossy(&list).matches("Send of").count();
    assert!(sent > 1_000, "{sent} responses");
}

#[test]
fn recordings_of_workers_that_are_killed_in_a_turn_are_replayed() {
    const KILLS: usize = 10;
    let scratch = Scratch::new("killed-in-a-turn");
    let file = scratch.file("worker");
    let name = file.to_str().expect("it is text");
    let server = Server::start(&["--workers", "1", "--record", name]);
    let address = server.address();
    let is_over = AtomicBool::new(false);
    let mut within_a_turn = 0;
    thread::scope(|threads| {
        let _end = SetOnDrop(&is_over);
        for _ in 0..8 {
            threads.spawn(|| {
                while !is_over.load(Ordering::Relaxed) {
                    send_requests(address, 100);
                }
            });
        }
        let mut worker = server.wait_for_workers(1, &[])[0];
        for _ in 0..KILLS {
            let before = server.status().requests;
            server.wait_for_status("requests of this worker", |status| {
                status.requests > before + 200
            });
            signal_to(worker, Signal::KILL);
            worker = server.wait_for_workers(1, &[worker])[0];
            let text = assert_identical(&scratch.file("worker.0.old"));
            within_a_turn += usize::from(text.contains("ends within a turn"));
        }
    });
    println!("{within_a_turn} of {KILLS} were killed within a turn");
    assert!(within_a_turn > 0);
}

#[test]
fn a_replay_that_differs_has_status_1_and_shows_the_difference() {
    let scratch = Scratch::new("differs");
    let mut bytes = short_recording(&scratch);
    let request = b"GET /worker HTTP";
    let mut places = bytes.windows(request.len());
    let place = places.position(|bytes| bytes == request);
    let place = place.expect("it was sent");
    bytes[place + 5..place + 11].copy_from_slice(b"absent");
    mend_checksum(&mut bytes, place);
    let file = scratch.file("other");
    fs::write(&file, &bytes).expect("there is room");
    let output = replay(&[], &file);
    let message = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(1), "{message}");
    assert!(
        message.contains("404") && message.contains("200"),
        "{message}"
    );
}

/// Mends the checksum of the turn that has the byte at `place`.
fn mend_checksum(bytes: &mut [u8], place: usize) {
    const HEADER: usize = 32;
    const TURN: usize = 8;
    let (mut begin, mut turn) = (HEADER, 0_u64);
    loop {
        let length = u32::from_le_bytes(bytes[begin..begin + 4].try_into().expect("four"));
        let calls = begin + TURN..begin + TURN + length as usize;
        if calls.contains(&place) {
            let turn = turn.to_le_bytes();
            let checked = [&bytes[16..24], &turn, &bytes[calls.clone()]].concat();
            let checksum = crc32fast::hash(&checked).to_le_bytes();
            bytes[calls.start - 4..calls.start].copy_from_slice(&checksum);
            return;
        }
        (begin, turn) = (calls.end, turn + 1);
    }
}

/// The standard library panics if the kernel refuses to sleep for any reason other than a signal.
#[cfg(target_os = "linux")]
#[test]
fn a_panic_comes_back_in_the_replay_with_status_101() {
    use evcore_tests::{httpd, without};

    let scratch = Scratch::new("panic");
    let file = scratch.file("worker");
    let mut command = Command::new(httpd());
    command.args(["--listen", "127.0.0.1:0", "--workers", "0", "--record"]);
    command.arg(&file);
    without(libc::SYS_clock_nanosleep, libc::EPERM, || {
        let mut server = Server::from_command(command, 1);
        send_requests(server.address(), 4);
        assert!(server.connect().try_get("/block/1").is_err());
        assert!(!server.wait().success());
        for _ in 0..10 {
            let output = replay(&[], &file);
            let message = String::from_utf8_lossy(&output.stderr);
            assert_eq!(output.status.code(), Some(101), "{message}");
            assert!(message.contains("panicked at"), "{message}");
        }
    });
}

#[test]
fn secrets_are_blanked_and_the_replay_is_identical() {
    let scratch = Scratch::new("blanked");
    let file = scratch.file("worker");
    let name = file.to_str().expect("it is text");
    let options = [
        "--workers",
        "0",
        "--record-blank",
        "--record-size",
        "1048576",
    ];
    let mut server = Server::start(&[&options[..], &["--record", name]].concat());
    let mut client = server.connect();
    for _ in 0..3 {
        client.send("GET /worker HTTP/1.1\r\nHost: a\r\nAuthorization: Basic c2Vj");
        client.send("cmV0\r\nCookie: session=hidden\r\n\r\n");
        assert_eq!(client.response().status, 200);
    }
    server.signal(Signal::QUIT);
    assert!(server.wait().success());
    let bytes = fs::read(&file).expect("it exists");
    let has = |text: &str| {
        bytes
            .windows(text.len())
            .any(|bytes| bytes == text.as_bytes())
    };
    assert!(has("Authorization:xxxx") && !has("c2Vj") && !has("cmV0") && !has("hidden"));
    assert_identical(&file);
}

#[test]
fn a_recording_begins_anew_when_no_connection_is_open() {
    let scratch = Scratch::new("bounded");
    let file = scratch.file("worker");
    let name = file.to_str().expect("it is text");
    let options = ["--workers", "0", "--record-size", "65536", "--record", name];
    let mut server = Server::start(&options);
    for _ in 0..500 {
        let mut client = server.connect();
        client.send(b"GET / HTTP/1.1\r\nHost: t\r\nConnection: close\r\n\r\n");
        assert_eq!(client.response().text(), "Hello, World!");
        // Now no connection is open.
        assert!(client.is_closed());
    }
    let requests = server.status().requests;
    assert!(requests > 500, "the counts go on: {requests}");
    // When a recording begins anew, the server makes a new loop. The signal to stop must reach the
    // new loop.
    server.signal(Signal::QUIT);
    assert!(server.wait().success());
    assert_eq!(fs::metadata(&file).expect("it exists").len(), 65_536);
    let text = assert_identical(&file);
    assert!(text.contains("ends after a whole turn"), "{text}");
    let list = replay(&["--list"], &file).stdout;
    let accepted = String::from_utf8_lossy(&list)
        .matches("Accept of 0: 0")
        .count();
    // The count has no lower limit: if the recording began anew after the last client, it has no
    // accept.
    assert!(accepted <= 200, "{accepted} of 501 clients");
}

#[test]
fn a_recording_that_is_full_is_reported_and_replayed() {
    let scratch = Scratch::new("full");
    let file = scratch.file("worker");
    let name = file.to_str().expect("it is text");
    let options = ["--workers", "0", "--record-size", "65536", "--record", name];
    let mut server = Server::start(&options);
    // While this client is connected, the recording does not begin anew.
    let mut client = server.connect();
    eventually("the report", || {
        client.get("/");
        server.log().contains("the file is full")
    });
    assert_eq!(client.get("/").text(), "Hello, World!");
    server.signal(Signal::QUIT);
    assert!(server.wait().success());
    let reports = server.log().matches("the file is full").count();
    assert_eq!(reports, 1, "{}", server.log());
    let text = assert_identical(&file);
    assert!(text.contains("the recording was full"), "{text}");
}

fn short_recording(scratch: &Scratch) -> Vec<u8> {
    let file = scratch.file("short");
    let name = file.to_str().expect("it is text");
    let mut server = Server::start(&["--workers", "0", "--record", name]);
    send_requests(server.address(), 16);
    server.signal(Signal::QUIT);
    assert!(server.wait().success());
    fs::read(&file).expect("it exists")
}

#[test]
fn files_that_are_not_whole_recordings_are_refused_or_read_in_part() {
    let scratch = Scratch::new("damaged");
    let whole = short_recording(&scratch);
    let file = scratch.file("damaged");
    let mut damaged = whole.clone();
    damaged[1_000] ^= 1;
    let mut other = whole.clone();
    other[8] = 200;
    for (bytes, code, expected) in [
        (&whole[..], 0, "identical: "),
        (&b"PNG"[..], 2, "this is not a recording"),
        (&whole[..10], 2, "the header of this recording is cut"),
        (&other[..], 2, "has version 200 of the format"),
        (&whole[..36], 2, "there is no whole turn to replay"),
        (&whole[..1_000], 0, "is damaged after its last whole turn"),
        (&damaged[..], 0, "is damaged after its last whole turn"),
    ] {
        fs::write(&file, bytes).expect("there is room");
        let output = replay(&[], &file);
        let text = [output.stdout, output.stderr].concat();
        let text = String::from_utf8_lossy(&text);
        assert!(text.contains(expected), "{expected}: {text}");
        assert_eq!(output.status.code(), Some(code), "{text}");
    }
    let missing = replay(&[], Path::new("/nowhere/at/all"));
    assert_eq!(missing.status.code(), Some(2));
}

#[test]
fn a_replay_raises_its_limit_of_descriptors_and_does_not_block() {
    let scratch = Scratch::new("replay_limit");
    let (root, file) = (scratch.file("root"), scratch.file("recording"));
    fs::create_dir(&root).expect("a new directory");
    let mut server = Server::start(&[
        "--workers",
        "0",
        "--root",
        root.to_str().expect("a text"),
        "--record",
        file.to_str().expect("a text"),
    ]);
    let mut client = server.connect();
    for number in 0..60 {
        let name = format!("file{number}");
        fs::write(root.join(&name), &name).expect("it is ours");
        assert_eq!(client.get(&format!("/files/{name}")).text(), name);
    }
    assert_eq!(client.get("/block/1").status, 200);
    drop(client);
    server.signal(Signal::TERM);
    assert!(server.wait().success());
    let mut limited = Command::new("sh");
    let script = "ulimit -S -n 50 && exec \"$0\" \"$@\"";
    limited.args(["-c", script]).arg(evcore_replay()).arg(&file);
    let output = limited.output().expect("it runs");
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{errors}");
    // A replay takes a value of the recording in place of the call that has blocked.
    let list = replay(&["--list"], &file);
    assert!(String::from_utf8_lossy(&list.stdout).contains("\"block="));
}

#[test]
fn a_recording_is_listed_and_drawn() {
    let scratch = Scratch::new("drawn");
    short_recording(&scratch);
    let file = scratch.file("short");
    let list = replay(&["--list"], &file);
    let list = String::from_utf8_lossy(&list.stdout).into_owned();
    assert!(
        list.starts_with("turn 0\n  Value of 0: 0 \"httpd={"),
        "{list}"
    );
    assert!(list.contains("GET /worker HTTP/1.1"));
    let page = replay(&["--draw"], &file);
    assert_eq!(page.status.code(), Some(0));
    let page = String::from_utf8_lossy(&page.stdout);
    assert!(page.starts_with("<!DOCTYPE html>") && page.contains("Accepted"));
}

#[test]
fn a_server_that_is_recorded_follows_signals() {
    let scratch = Scratch::new("reloaded");
    let file = scratch.file("worker");
    let name = file.to_str().expect("it is text");
    let mut server = Server::start(&["--workers", "1", "--record", name]);
    let old = server.wait_for_workers(1, &[])[0];
    send_requests(server.address(), 16);
    server.signal(Signal::HUP);
    let workers = server.wait_for_workers(1, &[old]);
    assert_ne!(workers[0], old);
    eventually("the old worker's end", || {
        is_whole(&scratch.file("worker.0.old"))
    });
    server.signal(Signal::TERM);
    assert!(server.wait().success());
    assert_identical(&scratch.file("worker.0"));
}

fn is_whole(file: &Path) -> bool {
    let output = replay(&[], file);
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    output.status.success() && text.contains("ends after a whole turn")
}

#[test]
fn a_recorded_server_without_a_master_has_a_history() {
    let scratch = Scratch::new("history");
    let file = scratch.file("recording");
    let name = file.to_str().expect("it is text");
    let server = Server::start(&["--workers", "0", "--record", name]);
    eventually("the history has the seconds that have passed", || {
        let page = server.connect().get("/history.json").text().to_owned();
        let page: serde_json::Value = serde_json::from_str(&page).expect("JSON");
        page.as_array().is_some_and(|moments| moments.len() > 2)
    });
}

/// A client of a schedule: the milliseconds at which it connects, and at which it leaves.
type Stay = (u64, u64);

/// Clients with uneven lifetimes, the same in each run.
fn schedule() -> Vec<Stay> {
    let mut rng = Sim::new(7).rng();
    let stay = |client: u64| {
        let begins = client * 8;
        let lives = [300, 3_000][rng.index(2)];
        (begins, begins + lives + rng.below(500))
    };
    (0..400).map(stay).collect()
}

/// Runs the schedule against a recorded server of four workers under a policy. Returns the paths of
/// the recordings.
fn record_schedule(scratch: &Scratch, policy: &str) -> Vec<PathBuf> {
    let file = scratch.file(policy);
    let name = file.to_str().expect("it is text");
    let options = ["--workers", "4", "--accept", policy, "--record", name];
    let mut server = Server::start(&options);
    let _ = server.wait_for_workers(4, &[]);
    let begun = Instant::now();
    // The clients by the times at which they leave.
    let mut clients = BTreeMap::new();
    for (number, (begins, ends)) in schedule().into_iter().enumerate() {
        clients = clients.split_off(&(begins, 0));
        let at = Duration::from_millis(begins);
        thread::park_timeout(at.saturating_sub(begun.elapsed()));
        let mut client = server.connect();
        assert_eq!(client.get("/").status, 200);
        clients.insert((ends, number), client);
    }
    drop(clients);
    server.signal(Signal::TERM);
    assert!(server.wait().success());
    (0..4)
        .map(|worker| scratch.file(&format!("{policy}.{worker}")))
        .collect()
}

/// Parses the line that begins with `line`. Returns its Jain index, its turns per connection, and
/// its turns without a client.
fn balance(text: &str, line: &str) -> [f64; 3] {
    let line = text
        .lines()
        .find(|found| found.starts_with(line))
        .expect(text);
    let mut numbers = line
        .split([' ', ','])
        .filter_map(|word| word.parse::<f64>().ok());
    [(); 3].map(|()| numbers.next().expect("three numbers"))
}

#[test]
fn a_policy_is_predicted_from_recordings_of_another_one() {
    let scratch = Scratch::new("what-if");
    let what_if = |policy: &str, recordings: &[PathBuf]| {
        let mut command = Command::new(evcore_replay());
        command.args(["--what-if", policy]).args(recordings);
        let output = command.output().expect("it runs");
        assert!(output.status.success(), "{output:?}");
        String::from_utf8(output.stdout).expect("it is text")
    };
    let predicted = what_if("least-loaded", &record_schedule(&scratch, "off"));
    let predicted = balance(&predicted, "least-loaded");
    // Other processes may keep a worker from its clients for a while, which no prediction includes.
    let is_close = (0..5).any(|_| {
        let measured = what_if("least-loaded", &record_schedule(&scratch, "least-loaded"));
        let measured = balance(&measured, "recorded");
        println!("predicted {predicted:?}, measured {measured:?}");
        let turns = predicted[1] / measured[1];
        (predicted[0] - measured[0]).abs() <= 0.02 && (0.9..=1.1).contains(&turns)
    });
    if !is_close && is_busy() {
        return not_run("other processes keep the workers from their clients");
    }
    assert!(is_close);
}
