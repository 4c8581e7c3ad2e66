//! Keep-alive requests to `httpd` allocate nothing in the steady state. The server runs on a thread
//! whose allocations are counted.

use std::{ffi::OsString, fs, process::Command};

use evcore::Listener;
use evcore_testing::{CountingAllocator, watch_this_thread, watched_allocations};
use evcore_tests::{Client, signal_to};
use rustix::process::Signal;

use evcore_httpd::options::{self, Options};
use evcore_httpd::worker::Setup;

#[global_allocator]
static ALLOCATOR: CountingAllocator = CountingAllocator;

fn options(poller: &str, log: Option<OsString>) -> Options {
    let words = ["--workers", "0", "--poller", poller].map(OsString::from);
    let format = std::env::var_os(LOG_FORMAT).unwrap_or("common".into());
    let log = log.map(|path| {
        [
            "--access-log".into(),
            path,
            "--access-log-format".into(),
            format,
        ]
    });
    match options::parse(words.into_iter().chain(log.into_iter().flatten())) {
        Ok(options::Command::Serve(options)) => *options,
        other => panic!("{other:?}"),
    }
}

/// The variable that passes the poller to the serving process.
const POLLER: &str = "EVCORE_STEADY_POLLER";

/// The variable that passes the path of the access log. Without it, there is no log.
const LOG: &str = "EVCORE_STEADY_LOG";

/// The variable that passes the format of the access log.
const LOG_FORMAT: &str = "EVCORE_STEADY_LOG_FORMAT";

#[test]
fn keep_alive_requests_allocate_nothing() {
    for poller in ["epoll", "poll", "select"] {
        serve_and_count_in_a_process(|command| command.env(POLLER, poller));
    }
}

#[test]
fn logged_keep_alive_requests_allocate_nothing() {
    for (format, ends) in [
        ("common", [" 200 13", " 200 99"]),
        (
            "json",
            [
                "\"status\":200,\"body_bytes_sent\":13}",
                "\"status\":200,\"body_bytes_sent\":99}",
            ],
        ),
    ] {
        let name = format!("evcore-steady-{}.{format}.log", std::process::id());
        let path = std::env::temp_dir().join(name);
        serve_and_count_in_a_process(|command| {
            let command = command.env(POLLER, "epoll").env(LOG, &path);
            command.env(LOG_FORMAT, format)
        });
        let lines = fs::read_to_string(&path).expect("it was written");
        fs::remove_file(&path).expect("it is there");
        // These lines fill the buffer several times while allocations are counted.
        assert_eq!(lines.lines().count(), 50 * (20 + 100) * 3);
        assert!(
            lines
                .lines()
                .all(|line| ends.iter().any(|end| line.ends_with(end))),
            "{lines}"
        );
    }
}

/// Runs the server in a process of its own, because a stop signal ends the whole process.
fn serve_and_count_in_a_process(options: impl FnOnce(&mut Command) -> &mut Command) {
    let this = std::env::current_exe().expect("this program has a path");
    let mut command = Command::new(this);
    command.args(["--exact", "serve_and_count", "--nocapture"]);
    let ended = options(&mut command).output().expect("it runs once more");
    let output = String::from_utf8_lossy(&ended.stdout);
    assert!(
        ended.status.success(),
        "{command:?}: {output}{}",
        String::from_utf8_lossy(&ended.stderr)
    );
    assert!(
        output.contains("counted 5000 keep-alive rounds"),
        "{command:?}: {output}"
    );
}

/// The serving process of the tests above. Without the variable of the poller, it does nothing.
#[test]
fn serve_and_count() {
    let Ok(poller) = std::env::var(POLLER) else {
        return;
    };
    let options = options(&poller, std::env::var_os(LOG));
    let listener = Listener::bind("127.0.0.1:0").expect("a free port");
    let address = listener.local_addr().tcp().unwrap();
    let serving = std::thread::spawn(move || {
        watch_this_thread();
        let (worker, setup) = Setup::new(options).expect("a page");
        let worker = worker.listener(listener);
        let ended = worker.run_here(|worker| setup.serve(worker));
        ended.expect("it serves");
    });

    let mut clients: Vec<_> = (0..50).map(|_| Client::connect(address)).collect();
    allocations_of(&mut clients, 20);
    // The count includes the construction of the server.
    assert!(watched_allocations() > 0, "the counter works");
    // The `Date` may change meanwhile, which must not allocate either.
    assert_eq!(
        allocations_of(&mut clients, 100),
        0,
        "allocations in the steady state"
    );
    println!("counted {} keep-alive rounds", 50 * 100);

    signal_to(std::process::id(), Signal::TERM);
    serving.join().expect("it ends");
}

/// The server's allocations during `rounds` rounds. In a round, each client sends a single request,
/// and then two requests in one segment.
fn allocations_of(clients: &mut [Client], rounds: usize) -> usize {
    let before = watched_allocations();
    for _ in 0..rounds {
        for client in &mut *clients {
            assert_eq!(client.get("/").status, 200);
            client.send("GET /bytes/99 HTTP/1.1\r\nHost: t\r\n\r\n".repeat(2));
            assert_eq!(client.response().status, 200);
            assert_eq!(client.response().status, 200);
        }
    }
    watched_allocations() - before
}
