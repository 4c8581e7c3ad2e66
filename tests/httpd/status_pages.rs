//! `/status` and `/status.json`.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use evcore_tests::{Client, Server, Status, eventually, signal_to};
use rustix::process::Signal;
use serde_json::Value;

#[test]
fn status_sums_over_all_workers() {
    for accept in ["mutex", "off"] {
        let server = Server::start(&["--workers", "2", "--accept", accept]);
        let mut clients: Vec<_> = (0..40).map(|_| server.connect()).collect();
        for client in &mut clients {
            for _ in 0..5 {
                assert_eq!(client.get("/").status, 200);
            }
        }
        let mut asker = server.connect();
        let mut asked = 0;
        let settled =
            |status: &Status, asked| status.requests == 40 * 5 + asked && status.waiting == 40;
        let status = loop {
            asked += 1;
            let status = Status::parse(asker.get("/status").text());
            // The other worker publishes its counters at the end of an iteration of its event loop.
            if settled(&status, asked) || asked == 100_000 {
                break status;
            }
        };
        assert_eq!(status.active, 41);
        assert_eq!(status.accepts, 41);
        assert_eq!(status.handled, 41);
        assert_eq!(status.requests, 40 * 5 + asked);
        assert_eq!((status.reading, status.writing, status.waiting), (0, 1, 40));
        drop(clients);
        server.wait_for_status("only the two asking clients are left", |status| {
            status.active == 2
        });
    }
}

#[test]
fn status_counts_reading_writing_and_waiting() {
    let server = Server::start(&["--workers", "1"]);
    let mut reading = server.connect();
    reading.send("GET / HT");
    let mut body = server.connect();
    body.send("POST /echo HTTP/1.1\r\nHost: test\r\nContent-Length: 5\r\n\r\nab");
    let mut writing = server.connect();
    writing.send("GET /sleep/3600000 HTTP/1.1\r\nHost: test\r\n\r\n");
    let _waiting = server.connect();
    server.wait_for_status("two read, two write, one waits", |status| {
        (
            status.reading,
            status.writing,
            status.waiting,
            status.active,
        ) == (2, 2, 1, 5)
    });
}

fn json(client: &mut Client) -> Value {
    let answer = client.get("/status.json");
    assert_eq!(answer.header("content-type"), Some("application/json"));
    assert!(answer.text().ends_with("]}\n"), "{}", answer.text());
    serde_json::from_str(answer.text()).expect("JSON")
}

fn number(of: &Value, name: &str) -> f64 {
    let number = of[name].as_f64();
    number.unwrap_or_else(|| panic!("no {name} in {of}"))
}

fn workers(page: &Value) -> &[Value] {
    page["workers"].as_array().expect("a list")
}

fn sum(page: &Value, name: &str) -> f64 {
    workers(page).iter().map(|one| number(one, name)).sum()
}

#[test]
fn status_json_lists_counters_and_metrics_of_each_worker() {
    for option in ["--workers", "--threads"] {
        // Without rebalancing, no worker has a timer for a channel to another one, so timers can be
        // counted.
        let server = Server::start(&[option, "2", "--rebalance", "off"]);
        let mut clients: Vec<_> = (0..40).map(|_| server.connect()).collect();
        for client in &mut clients {
            assert_eq!(client.get("/sleep/1").status, 200);
        }
        let mut asker = server.connect();
        let mut page = Value::Null;
        let longest_turn = |page: &Value| {
            let longest = workers(page).iter();
            let longest = longest.map(|one| number(&one["turn_us"], "max"));
            longest.fold(0.0, f64::max)
        };
        eventually("all is published", || {
            page = json(&mut asker);
            // Each connection has a timer. Published metrics may be older than the counters.
            let armed = |one: &Value| number(one, "timers_armed") == number(one, "active");
            let is_settled = number(&page, "waiting") == 40.0 && sum(&page, "timers_fired") == 40.0;
            let all_run = workers(&page).len() == 2 && workers(&page).iter().all(armed);
            is_settled && all_run && longest_turn(&page) > 0.0
        });
        for name in [
            "active",
            "accepted",
            "handled",
            "arrived",
            "handed_over",
            "taken_back",
            "requests",
            "reading",
            "writing",
            "waiting",
        ] {
            assert_eq!(number(&page, name), sum(&page, name), "{name}: {page}");
        }
        assert_eq!(
            (number(&page, "active"), number(&page, "writing")),
            (41.0, 1.0)
        );
        let each = workers(&page);
        let active = |at: usize| number(&each[at], "active");
        let (both, squares) = (active(0) + active(1), active(0).powi(2) + active(1).powi(2));
        let jain = both * both / (2.0 * squares);
        assert!((number(&page, "jain") - jain).abs() < 1e-4, "{page}");
        // One worker may have had no event yet.
        for name in ["turns", "events"] {
            assert!(sum(&page, name) > 0.0, "{name}: {page}");
        }
        for one in each {
            assert!(number(one, "stale_events") >= 0.0);
            assert!(number(one, "uptime_ms") <= number(&page, "uptime_ms"));
            for time in ["timer_lateness_us", "turn_us"] {
                let of = |name| number(&one[time], name);
                assert!(of("p50") <= of("p99") && of("mean") >= 0.0, "{page}");
            }
        }
        let indices: Vec<_> = each.iter().map(|one| number(one, "worker")).collect();
        assert!(indices == [0.0, 1.0] || indices == [1.0, 0.0], "{page}");
    }
}

#[test]
fn status_json_has_its_fields_in_a_stable_order() {
    let server = Server::start(&["--workers", "0"]);
    let answer = server.connect().get("/status.json");
    let sums = [
        "active",
        "accepted",
        "handled",
        "arrived",
        "handed_over",
        "taken_back",
        "requests",
        "reading",
        "writing",
        "waiting",
        "received_bytes",
        "sent_bytes",
        "accept_samples",
        "late_accepts",
    ];
    let times = ["mean", "p50", "p99", "max"];
    let expected = [
        &[
            "time_ms",
            "uptime_ms",
            "reloads",
            "restarts",
            "kept",
            "lost",
            "listen_queue",
            "listen_overflows",
            "listen_drops",
        ][..],
        &sums,
        &[
            "jain",
            "workers",
            "worker",
            "pid",
            "uptime_ms",
            "memory_bytes",
        ],
        &sums,
        &["turns", "events", "stale_events", "timers_armed"],
        &["timers_fired", "timer_lateness_us"],
        &times,
        &["turn_us"],
        &times,
    ]
    .concat();
    let quoted: Vec<_> = answer.text().split('"').skip(1).step_by(2).collect();
    assert_eq!(quoted, expected, "{}", answer.text());
}

#[test]
fn status_json_has_the_time_and_the_uptime() {
    let before = SystemTime::now();
    for option in [["--workers", "0"], ["--workers", "1"], ["--threads", "1"]] {
        let server = Server::start(&option);
        let mut client = server.connect();
        let page = json(&mut client);
        let since_1970 = Duration::from_millis(page["time_ms"].as_u64().expect("a time"));
        let time = UNIX_EPOCH + since_1970;
        let second = Duration::from_secs(1);
        assert!(time + second > before && time < SystemTime::now() + second);
        let uptime = |page: &Value| number(page, "uptime_ms");
        let since_start = before.elapsed().expect("no jump").as_millis();
        assert!(uptime(&page) <= since_start as f64 + 1.0, "{page}");
        eventually("both uptimes grow", || {
            let later = json(&mut client);
            uptime(&later) > uptime(&page)
                && uptime(&workers(&later)[0]) > uptime(&workers(&page)[0])
        });
    }
}

#[test]
fn workers_that_have_ended_count_only_in_the_sums() {
    let server = Server::start(&["--workers", "2"]);
    assert_eq!(server.connect().get("/").status, 200);
    let old = server.wait_for_workers(2, &[]);
    server.signal(Signal::HUP);
    let new = server.wait_for_workers(2, &old);
    let page = json(&mut server.connect());
    let is_new = |one: &Value| new.iter().any(|pid| number(one, "pid") == f64::from(*pid));
    assert!(workers(&page).iter().all(is_new), "{page}");
    assert!(number(&page, "accepted") > sum(&page, "accepted"), "{page}");
}

#[test]
fn the_counters_of_a_worker_begin_at_its_start() {
    const REQUESTS: u32 = 100;
    for option in ["--workers", "--threads"] {
        let server = Server::start(&[option, "1"]);
        let mut sums = [0.0; 3];
        // A later worker gets an earlier worker's line of the scoreboard (the shared memory in
        // which workers publish counters).
        for reloads in 1..=4 {
            let mut client = server.connect();
            for _ in 0..REQUESTS {
                assert_eq!(client.get("/").status, 200);
            }
            server.signal(Signal::HUP);
            let (mut page, mut polls) = (Value::Null, 0.0);
            eventually("only the new worker is left", || {
                page = server.try_status_json().unwrap_or_default();
                polls += 1.0;
                let is_alone = page["workers"]
                    .as_array()
                    .is_some_and(|list| list.len() == 1);
                is_alone && number(&page, "reloads") == f64::from(reloads)
            });
            let new = &workers(&page)[0];
            for (sum, name) in sums.iter_mut().zip(["accepted", "handled", "requests"]) {
                assert!(number(new, name) <= polls, "{name} after {polls}: {page}");
                assert!(*sum < number(&page, name), "{name} was {sum}: {page}");
                *sum = number(&page, name);
            }
            assert!(*sums.last().expect("three") > f64::from(reloads * REQUESTS));
        }
    }
}

#[test]
fn status_json_counts_reloads_and_restarts() {
    for option in ["--workers", "--threads"] {
        let server = Server::start(&[option, "2"]);
        // A worker that was killed may have accepted the connection.
        let counts = || {
            let page = server.try_status_json()?;
            Some((number(&page, "reloads"), number(&page, "restarts")))
        };
        assert_eq!(counts(), Some((0.0, 0.0)));
        let mut workers = server.wait_for_workers(2, &[]);
        for reloads in 1..=2 {
            server.signal(Signal::HUP);
            eventually("the reload is counted", || {
                counts() == Some((f64::from(reloads), 0.0))
            });
            if option == "--workers" {
                workers = server.wait_for_workers(2, &workers);
            }
        }
        if option == "--workers" {
            signal_to(workers[0], Signal::KILL);
            eventually("the restart is counted", || counts() == Some((2.0, 1.0)));
        }
    }
}

#[cfg(target_os = "linux")]
#[expect(
    clippy::disallowed_methods,
    reason = "nothing shows that the master has taken a sample while no worker answers"
)]
fn observe(time: Duration) {
    std::thread::sleep(time);
}

/// This test is for Linux, where the backlogs and the memory of other processes can be measured.
#[cfg(target_os = "linux")]
#[test]
fn clients_in_the_backlog_and_the_memory_of_workers_are_measured() {
    let server = Server::start(&["--workers", "1"]);
    let mut client = server.connect();
    let worker = client.worker();
    let page = |client: &mut Client| -> Value {
        serde_json::from_slice(&client.get("/status.json").body).expect("JSON")
    };
    eventually("the memory of the worker is measured", || {
        let page = page(&mut client);
        page["workers"][0]["memory_bytes"].as_u64() > Some(1 << 20)
    });
    signal_to(worker, Signal::STOP);
    let waiting: Vec<_> = (0..5).map(|_| server.connect()).collect();
    // The master takes a sample each second, which the worker shows when it goes on.
    observe(Duration::from_millis(2_100));
    signal_to(worker, Signal::CONT);
    let history: Value = serde_json::from_slice(&client.get("/history.json").body).expect("JSON");
    let samples = history.as_array().expect("an array").iter();
    let lengths = samples.map(|sample| sample["listen_queue"].as_u64().expect("a number"));
    assert_eq!(lengths.max(), Some(5), "{history}");
    drop(waiting);
    eventually("they are accepted", || {
        page(&mut client)["listen_queue"] == 0
    });
}

#[test]
fn bytes_are_counted_in_both_directions() {
    let server = Server::start(&["--workers", "1"]);
    let mut client = server.connect();
    let count = |client: &mut Client| -> (u64, u64) {
        let page: Value = serde_json::from_slice(&client.get("/status.json").body).expect("JSON");
        let number = |name: &str| page[name].as_u64().expect("a number");
        (number("received_bytes"), number("sent_bytes"))
    };
    let before = count(&mut client);
    let request = "GET /bytes/1000000 HTTP/1.1\r\nHost: test\r\n\r\n";
    client.send(request);
    assert_eq!(client.response().body.len(), 1_000_000);
    // The counts are published at the end of an iteration of the event loop.
    eventually("the bytes are counted", || {
        let now = count(&mut client);
        now.0 >= before.0 + request.len() as u64 && now.1 > before.1 + 1_000_000
    });
}
