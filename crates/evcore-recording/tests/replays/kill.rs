//! A worker that is killed with SIGKILL leaves a file that can be replayed.

use std::{
    env, fs,
    io::{BufRead, BufReader},
    net::SocketAddr,
    os::unix::fs::PermissionsExt,
    process::{Child, Command, Stdio},
};

use evcore::{Builder, Listener, clock::SystemTimeSource, poller::BackendKind};
use evcore_recording::{End, Recorder, Recording};
use evcore_testing::Scratch;

use crate::{
    echo::{Bug, Log, serve},
    sockets::{clients, replay},
};

/// The environment variable with the worker's file. In a process with this variable, the test
/// function runs the worker.
const FILE: &str = "EVCORE_RECORDING_TEST_FILE";

#[test]
fn a_killed_worker_is_replayed_to_its_last_whole_turn() {
    if let Ok(file) = env::var(FILE) {
        return serve_until_killed(&file);
    }
    let scratch = Scratch::new("recording");
    let file = scratch.file("worker.recording");
    let (mut worker, address) = start_worker(file.to_str().expect("it is text"));
    for client in clients(address) {
        client.join().expect("every request is answered");
    }
    worker.kill().expect("it runs");
    worker.wait().expect("it is a child");
    let bytes = fs::read(&file).expect("it was made");
    let mode = fs::metadata(&file).expect("it exists").permissions().mode();
    assert_eq!(mode & 0o777, 0o600);
    let recording = Recording::read(&bytes).expect("it is one");
    // The worker was killed in a wait or in a turn.
    assert!([End::Whole, End::Unfinished].contains(&recording.end()));
    let (log, replay) = replay(&bytes, Bug::None, |_| false);
    assert_eq!(replay.difference(), None);
    assert!(log.requests >= 195, "{} requests", log.requests);
    assert!(log.steps.iter().any(|step| step.contains("Accepted")));
}

fn start_worker(file: &str) -> (Child, SocketAddr) {
    let test = "kill::a_killed_worker_is_replayed_to_its_last_whole_turn";
    let mut command = Command::new(env::current_exe().expect("it is this program"));
    command
        .args(["--exact", test, "--nocapture"])
        .env(FILE, file);
    let mut worker = command.stdout(Stdio::piped()).spawn().expect("it starts");
    let lines = BufReader::new(worker.stdout.take().expect("it is piped")).lines();
    let mut lines = lines.map_while(Result::ok);
    let address = lines.find_map(|line| line.split_once("serves at ")?.1.parse().ok());
    (worker, address.expect("it prints its address"))
}

fn serve_until_killed(file: &str) {
    let recorder = Recorder::create(file, 1 << 20).expect("there is room");
    let listener = Listener::bind("127.0.0.1:0").expect("a port is free");
    let address = listener.local_addr().tcp().expect("it is TCP");
    let backend = BackendKind::usable()[0].open().expect("it is usable");
    let mut ev = Builder::default()
        .clock(recorder.clock(SystemTimeSource::new()))
        .backend(recorder.backend(backend))
        .listener(recorder.listener(listener))
        .build()
        .expect("a loop");
    println!("serves at {address}");
    serve(&mut ev, &mut Log::default(), Bug::None, |_| false).expect("no wait fails");
}
