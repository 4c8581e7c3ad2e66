//! `/metrics`, directly and through programs that scrape it, and `/status` through a program that
//! scrapes nginx.

use std::{
    collections::HashMap,
    fs,
    io::{self, Read, Write},
    net::{Ipv4Addr, TcpStream},
    process::{Command, Stdio},
};

use evcore_tests::{
    Client, PATIENCE, Running, Scratch, Server, eventually, is_installed, signal_to,
};
use rustix::process::Signal;
use serde_json::Value;

fn samples(page: &str) -> HashMap<&str, f64> {
    let lines = page.lines().filter(|line| !line.starts_with('#'));
    let samples = lines.map(|line| {
        let (series, value) = line.rsplit_once(' ').expect("a value");
        (series, value.parse().expect("a number"))
    });
    samples.collect()
}

fn sum(page: &str, name: &str) -> f64 {
    let samples = samples(page);
    let series = samples.iter().filter(|(series, _)| {
        series
            .strip_prefix(name)
            .is_some_and(|labels| labels.starts_with('{'))
    });
    series.map(|(_, value)| value).sum()
}

fn try_page(server: &Server) -> io::Result<String> {
    let answer = Client::try_connect(server.address())?.try_get("/metrics")?;
    assert_eq!(
        answer.header("content-type"),
        Some("text/plain; version=0.0.4; charset=utf-8")
    );
    Ok(answer.text().to_owned())
}

#[test]
fn metrics_have_the_counts_of_the_status_page() {
    for option in [["--workers", "0"], ["--workers", "2"], ["--threads", "2"]] {
        // With rebalancing, a worker has further timers, for its channels to other workers. Without
        // it, only the timers of `/sleep` expire, so the test knows their number.
        let server = Server::start(&[option[0], option[1], "--rebalance", "off"]);
        let mut clients: Vec<_> = (0..20).map(|_| server.connect()).collect();
        for client in &mut clients {
            assert_eq!(client.get("/").status, 200);
            assert_eq!(client.get("/sleep/1").status, 200);
        }
        let mut asker = server.connect();
        let (mut page, mut asked) = (String::new(), 0.0);
        let workers = if option[1] == "0" { 1.0 } else { 2.0 };
        eventually("all is published", || {
            asked += 1.0;
            page = asker.get("/metrics").text().to_owned();
            sum(&page, "httpd_requests_total") == 40.0 + asked
                && sum(&page, "evcore_timers_fired_total") == 20.0
                && sum(&page, "httpd_connections") == 21.0
                // The last worker may not have started yet.
                && samples(&page)["httpd_workers"] == workers
        });
        assert_eq!(sum(&page, "httpd_connections_accepted_total"), 21.0);
        assert_eq!(sum(&page, "httpd_connections_handled_total"), 21.0);
        let all = samples(&page);
        assert_eq!(all["httpd_reloads_total"], 0.0);
        assert_eq!(all["httpd_worker_restarts_total"], 0.0);
        assert!(all["httpd_start_time_seconds"] > 1.7e9);
        eventually(
            "all 20 timers and more than 20 turns are in the histograms",
            || {
                // A worker reads its histograms in a turn (an iteration of its event loop), so each
                // worker needs another turn.
                for client in &mut clients {
                    assert_eq!(client.get("/").status, 200);
                }
                page = asker.get("/metrics").text().to_owned();
                sum(&page, "evcore_timer_lateness_seconds_count") == 20.0
                    && sum(&page, "evcore_turn_duration_seconds_count") > 20.0
            },
        );
        assert!(sum(&page, "evcore_turn_duration_seconds_sum") > 0.0);
    }
}

/// Scrapes the page, and asserts that no series is missing and that no counter has gone back.
fn assert_never_back(server: &Server, before: &mut HashMap<String, f64>) {
    let mut page = String::new();
    eventually("a worker answers", || match try_page(server) {
        Ok(text) => {
            page = text;
            true
        }
        // The worker was killed, or it stops and has closed this idle connection.
        Err(_) => false,
    });
    let now = samples(&page);
    for (series, value) in before.iter() {
        let name = series.split('{').next().expect("a name");
        let is_counter = ["_total", "_bucket", "_sum", "_count"]
            .iter()
            .any(|end| name.ends_with(end));
        assert!(now.contains_key(series.as_str()), "{series}: {page}");
        assert!(!is_counter || now[series.as_str()] >= *value, "{series}");
    }
    *before = now
        .into_iter()
        .map(|(series, value)| (series.to_owned(), value))
        .collect();
}

#[test]
fn counters_never_go_back_over_deaths_and_reloads() {
    for option in ["--workers", "--threads"] {
        let server = Server::start(&[option, "2"]);
        let mut before = HashMap::new();
        let mut workers = server.wait_for_workers(2, &[]);
        for round in 1..=6 {
            for _ in 0..20 {
                let mut client = server.connect();
                // A worker that has just been killed may have accepted the connection.
                let _ = client.try_get("/sleep/0");
                assert_never_back(&server, &mut before);
            }
            if option == "--workers" {
                for pid in &workers {
                    signal_to(*pid, Signal::KILL);
                    assert_never_back(&server, &mut before);
                }
                let restarts = f64::from(2 * round);
                eventually("both are replaced", || {
                    assert_never_back(&server, &mut before);
                    before["httpd_worker_restarts_total"] == restarts
                });
                workers = server.wait_for_workers(2, &workers);
            }
            server.signal(Signal::HUP);
            eventually("it is reloaded", || {
                assert_never_back(&server, &mut before);
                before["httpd_reloads_total"] == f64::from(round)
            });
            if option == "--workers" {
                // The old workers may end after the reload is counted.
                workers = server.wait_for_workers(2, &workers);
            }
            eventually("two workers are left", || {
                assert_never_back(&server, &mut before);
                before["httpd_workers"] == 2.0
            });
        }
        assert!(before["httpd_requests_total{worker=\"0\"}"] > 0.0);
        assert!(before["httpd_requests_total{worker=\"1\"}"] > 0.0);
        assert!(!before.contains_key("httpd_requests_total{worker=\"2\"}"));
    }
}

/// A worker reads its histograms once a second, so the counts stay the same in between, however
/// often a client scrapes.
#[test]
fn histograms_are_not_read_for_a_scrape() {
    const SCRAPES: usize = 2_000;
    let server = Server::start(&["--workers", "1"]);
    let mut scraper = server.connect();
    let mut counts = Vec::new();
    let mut bytes = 0;
    for _ in 0..SCRAPES {
        let answer = scraper.get("/metrics");
        bytes = bytes.max(answer.body.len());
        counts.push(sum(answer.text(), "evcore_turn_duration_seconds_count"));
    }
    let uptime = {
        let page = scraper.get("/metrics");
        samples(page.text())["httpd_uptime_seconds"]
    };
    counts.dedup();
    // The first value is shown at once.
    assert!(counts.len() as f64 <= uptime + 3.0, "{counts:?}");
    assert!(bytes < 8 * 1024, "{bytes} bytes for one worker");
}

#[test]
fn promtool_accepts_the_page() {
    if !is_installed("promtool") {
        return;
    }
    let server = Server::start(&["--workers", "2"]);
    assert_eq!(server.connect().get("/sleep/1").status, 200);
    let page = try_page(&server).expect("a worker answers");
    let mut promtool = Command::new("promtool");
    promtool.args(["check", "metrics"]).stdin(Stdio::piped());
    promtool.stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut promtool = promtool.spawn().expect("it is installed");
    let mut stdin = promtool.stdin.take().expect("it is piped");
    stdin.write_all(page.as_bytes()).expect("it reads");
    drop(stdin);
    let output = promtool.wait_with_output().expect("it ends");
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(
        output.status.success() && errors.is_empty(),
        "{errors}\n{page}"
    );
}

#[test]
fn the_example_of_alerts_uses_metrics_that_exist() {
    const ALERTS: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../docs/alerts.yml");
    let server = Server::start(&["--workers", "1"]);
    let page = try_page(&server).expect("a worker answers");
    let text = std::fs::read_to_string(ALERTS).expect("the file");
    let is_name = |c: char| c.is_ascii_alphanumeric() || c == '_';
    let words = text.split(|c| !is_name(c));
    let metrics = words.filter(|word| word.starts_with("httpd_") || word.starts_with("evcore_"));
    let mut count = 0;
    for metric in metrics {
        let is_on_page = page
            .lines()
            .any(|line| line.starts_with(metric) && !line[metric.len()..].starts_with(is_name));
        assert!(is_on_page, "{metric}");
        count += 1;
    }
    assert!(count > 8, "{text}");
    if is_installed("promtool") {
        let checked = Command::new("promtool")
            .args(["check", "rules", ALERTS])
            .output();
        let checked = checked.expect("it is installed");
        assert!(checked.status.success(), "{checked:?}");
    }
}

/// Fetches a page by HTTP/1.0, because the program could answer HTTP/1.1 in chunks.
fn fetch(port: u16, target: &str) -> io::Result<String> {
    let mut stream = TcpStream::connect((Ipv4Addr::LOCALHOST, port))?;
    stream.set_read_timeout(Some(PATIENCE))?;
    write!(stream, "GET {target} HTTP/1.0\r\nHost: test\r\n\r\n")?;
    let mut answer = String::new();
    stream.read_to_string(&mut answer)?;
    let (_, body) = answer.split_once("\r\n\r\n").unwrap_or_default();
    Ok(body.to_owned())
}

/// The value of a query of Prometheus; `None` if it has no sample yet.
fn query(port: u16, query: &str) -> Option<f64> {
    let answer = fetch(port, &format!("/api/v1/query?query={query}")).ok()?;
    let answer: Value = serde_json::from_str(&answer).ok()?;
    let value = &answer["data"]["result"][0]["value"][1];
    value.as_str()?.parse().ok()
}

#[test]
fn prometheus_scrapes_the_metrics_and_sees_no_reset() {
    if !is_installed("prometheus") {
        return;
    }
    let scratch = Scratch::new("prometheus");
    let server = Server::start(&["--workers", "2"]);
    let config = scratch.file("prometheus.yml");
    let text = format!(
        "global: {{scrape_interval: 1s, scrape_timeout: 1s}}\n\
         scrape_configs:\n  - job_name: httpd\n    static_configs: [{{targets: ['{}']}}]\n",
        server.address()
    );
    fs::write(&config, text).expect("a file");
    let mut prometheus = Command::new("prometheus");
    prometheus
        .arg(format!("--config.file={}", config.display()))
        .arg(format!(
            "--storage.tsdb.path={}",
            scratch.file("data").display()
        ))
        .arg("--web.listen-address=127.0.0.1:0")
        .stderr(Stdio::null());
    let mut prometheus = Running::start(&mut prometheus);
    let port = prometheus.listening_port();
    let mut client = server.connect();
    for _ in 0..5 {
        assert_eq!(client.get("/").status, 200);
    }
    // A scrape may take longer than its timeout on a busy machine. The next one succeeds.
    eventually("the requests are scraped", || {
        query(port, "sum(httpd_requests_total)").is_some_and(|requests| requests >= 5.0)
            && query(port, "up") == Some(1.0)
    });
    for pid in server.wait_for_workers(2, &[]) {
        signal_to(pid, Signal::KILL);
    }
    eventually("the restarts are scraped", || {
        query(port, "httpd_worker_restarts_total") == Some(2.0)
            && query(port, "httpd_workers") == Some(2.0)
    });
    server.signal(Signal::HUP);
    eventually("the reload is scraped", || {
        query(port, "httpd_reloads_total") == Some(1.0) && query(port, "httpd_workers") == Some(2.0)
    });
    for counter in [
        "httpd_requests_total",
        "evcore_turns_total",
        "evcore_turn_duration_seconds_bucket",
        "evcore_turn_duration_seconds_sum",
        "evcore_timer_lateness_seconds_count",
    ] {
        let resets = query(port, &format!("sum(resets({counter}[1h]))"));
        assert_eq!(resets, Some(0.0), "{counter}");
    }
    let quantile = "histogram_quantile(0.99,sum+by(le)(evcore_turn_duration_seconds_bucket))";
    let mut p99 = f64::NAN;
    eventually("the quantile is known", || {
        let value = query(port, quantile);
        p99 = value.unwrap_or(p99);
        value.is_some()
    });
    assert!(p99 > 0.0 && p99 <= 1.0, "{p99}");
}

#[test]
fn an_exporter_for_nginx_scrapes_the_status() {
    if !is_installed("prometheus-nginx-exporter") {
        return;
    }
    let server = Server::start(&["--workers", "2"]);
    let mut client = server.connect();
    for _ in 0..5 {
        assert_eq!(client.get("/").status, 200);
    }
    let mut exporter = Command::new("prometheus-nginx-exporter");
    exporter
        .arg(format!(
            "-nginx.scrape-uri=http://{}/status",
            server.address()
        ))
        .arg("-web.listen-address=127.0.0.1:0")
        .stdout(Stdio::null())
        .stderr(Stdio::null());
    let mut exporter = Running::start(&mut exporter);
    let port = exporter.listening_port();
    let mut page = String::new();
    eventually("it answers", || {
        page = fetch(port, "/metrics").unwrap_or_default();
        page.contains("\nnginx_up")
    });
    let number = |name: &str| {
        let line = page.lines().find(|line| {
            line.strip_prefix(name)
                .is_some_and(|rest| rest.starts_with([' ', '{']))
        });
        let value = line.and_then(|line| line.rsplit_once(' '));
        let value = value.unwrap_or_else(|| panic!("no {name} in {page}")).1;
        value.parse::<f64>().expect("a number")
    };
    assert_eq!(number("nginx_up"), 1.0);
    assert!(number("nginx_http_requests_total") >= 6.0);
    assert!(number("nginx_connections_active") >= 2.0);
    assert!(number("nginx_connections_accepted") >= 2.0);
}

/// While the only worker is blocked, new clients wait in the backlog.
#[test]
#[cfg(target_os = "linux")]
fn connections_that_were_accepted_late_are_counted() {
    let server = Server::start(&["--workers", "1"]);
    let [samples, late] = ["accept_samples", "late_accepts"];
    let counts = || {
        let page = server.try_status_json().expect("the page");
        [samples, late].map(|name| page[name].as_u64().expect("a number"))
    };
    let mut blocking = server.connect();
    // On a busy machine the clients may come too late to wait.
    eventually("connections are accepted late", || {
        blocking.send("GET /block/300 HTTP/1.1\r\nHost: a\r\n\r\n");
        let waiting: Vec<_> = (0..32).map(|_| server.connect()).collect();
        assert_eq!(blocking.response().status, 200);
        let has_late = counts()[1] > 0;
        drop(waiting);
        has_late
    });
    let [samples, late] = counts();
    assert!(late <= samples && samples >= 2, "{late} of {samples}");
}
