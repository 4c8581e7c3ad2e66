//! `/status` and `/status.json`.

use evcore_tests::{Server, Status, eventually};
use rustix::process::Signal;

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
            // The other worker publishes its counters at the end of its turn.
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

/// The first number with this name in a piece of JSON.
fn number(json: &str, name: &str) -> f64 {
    let key = format!("\"{name}\":");
    let (_, rest) = json
        .split_once(&key)
        .unwrap_or_else(|| panic!("no {name} in {json}"));
    let end = rest.find([',', '}']).expect("an end");
    rest[..end].parse().expect("a number")
}

/// Splits the page into the sums and a piece for each worker.
fn pieces(page: &str) -> (&str, Vec<&str>) {
    let (sums, workers) = page.split_once("\"workers\":[").expect("a list");
    let workers = workers.strip_suffix("\n]}\n").expect("its end");
    (sums, workers.lines().skip(1).collect())
}

#[test]
fn status_json_lists_counters_and_metrics_of_each_worker() {
    for workers in ["--workers", "--threads"] {
        let server = Server::start(&[workers, "2"]);
        let mut clients: Vec<_> = (0..40).map(|_| server.connect()).collect();
        for client in &mut clients {
            assert_eq!(client.get("/sleep/1").status, 200);
        }
        let mut asker = server.connect();
        let mut page = String::new();
        eventually("all is published", || {
            let answer = asker.get("/status.json");
            assert_eq!(answer.header("content-type"), Some("application/json"));
            answer.text().clone_into(&mut page);
            let (sums, each) = pieces(&page);
            let fired: f64 = each.iter().map(|one| number(one, "timers_fired")).sum();
            // Each connection has a timer; published metrics may be older than the counters.
            let armed = |one: &&str| number(one, "timers_armed") == number(one, "active");
            let is_settled = number(sums, "waiting") == 40.0 && fired == 40.0;
            is_settled && each.len() == 2 && each.iter().all(armed)
        });
        let (sums, each) = pieces(&page);
        for name in [
            "active", "accepted", "handled", "requests", "reading", "writing", "waiting",
        ] {
            let sum: f64 = each.iter().map(|one| number(one, name)).sum();
            assert_eq!(number(sums, name), sum, "{name}: {page}");
        }
        assert_eq!(
            (number(sums, "active"), number(sums, "writing")),
            (41.0, 1.0)
        );
        let active = |at: usize| number(each[at], "active");
        let (sum, squares) = (active(0) + active(1), active(0).powi(2) + active(1).powi(2));
        let jain = sum * sum / (2.0 * squares);
        assert!((number(sums, "jain") - jain).abs() < 1e-4, "{page}");
        // One worker may have had no event yet.
        for name in ["turns", "events"] {
            let sum: f64 = each.iter().map(|one| number(one, name)).sum();
            assert!(sum > 0.0, "{name}: {page}");
        }
        for one in &each {
            assert!(number(one, "stale_events") >= 0.0);
            assert!(one.contains("\"timer_lateness_us\":{\"mean\":"), "{one}");
        }
        let longest = each.iter().map(|one| {
            let (_, turn) = one.split_once("\"turn_us\":").expect("its turns");
            number(turn, "max")
        });
        assert!(longest.fold(0.0, f64::max) > 0.0, "{page}");
        let indices: Vec<_> = each.iter().map(|one| number(one, "worker")).collect();
        assert!(indices == [0.0, 1.0] || indices == [1.0, 0.0], "{page}");
    }
}

#[test]
fn workers_that_have_ended_count_only_in_the_sums() {
    let server = Server::start(&["--workers", "2"]);
    assert_eq!(server.connect().get("/").status, 200);
    let old = server.worker_pids();
    server.signal(Signal::HUP);
    let mut page = String::new();
    eventually("only new workers are listed", || {
        server
            .connect()
            .get("/status.json")
            .text()
            .clone_into(&mut page);
        let (_, each) = pieces(&page);
        let is_old = |one: &&str| old.iter().any(|pid| number(one, "pid") == f64::from(*pid));
        each.len() == 2 && !each.iter().any(is_old)
    });
    let (sums, each) = pieces(&page);
    let here: f64 = each.iter().map(|one| number(one, "accepted")).sum();
    assert!(number(sums, "accepted") > here, "{page}");
}
