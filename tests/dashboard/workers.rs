//! The dashboard's numbers, bars (one for each worker) and marks (of restarts and reloads), while
//! workers serve, die and are replaced.

use evcore_tests::{Server, eventually, signal_to};
use rustix::process::Signal;
use serde_json::Value;

use crate::page::{Page, uneven_clients};

/// Fields of a worker's row, by their names in `/status.json`.
const COUNTS: [&str; 4] = ["active", "accepted", "handled", "arrived"];

/// Returns whether the paused page shows `status`, which was fetched after the page's last request.
fn shows(page: &mut Page, status: &Value) -> bool {
    let number = |value: &Value, name: &str| value[name].as_u64().expect("a number");
    let sum = |page: &mut Page, name: &str| page.number(&format!("tfoot [data-field={name}]"));
    let are_sums = [
        "active",
        "reading",
        "writing",
        "waiting",
        "accepted",
        "handled",
        "arrived",
        "handed_over",
        "taken_back",
    ]
    .iter()
    .all(|name| sum(page, name) == number(status, name));
    // `status` counts the request that fetched it, and the page does not.
    let are_requests = sum(page, "requests") + 1 == number(status, "requests");
    let workers = status["workers"].as_array().expect("a list");
    let mut ahead = 0;
    let are_workers = workers.iter().all(|worker| {
        let row = format!("tr[data-pid='{}']", number(worker, "pid"));
        let mut cell = |name: &str| page.number(&format!("{row} [data-field={name}]"));
        ahead += number(worker, "requests") - cell("requests");
        COUNTS.iter().all(|name| cell(name) == number(worker, name))
    });
    let jain = format!("{:.3}", status["jain"].as_f64().expect("a number"));
    are_sums && are_requests && are_workers && ahead == 1 && page.text("#chart-jain b") == jain
}

#[test]
fn the_page_shows_the_numbers_of_status_json() {
    let server = Server::start(&["--workers", "4"]);
    let Some(mut page) = Page::open(&server) else {
        return;
    };
    let mut clients = uneven_clients(&server);
    let mut asker = server.connect();
    eventually("the page shows the server's numbers", || {
        for (client, _) in &mut clients {
            assert_eq!(client.get("/").status, 200);
        }
        let asked = "performance.getEntriesByType('resource').length";
        let asked = page.browser.run(&format!("return {asked}"));
        page.wait_for(
            "the page has fetched once more",
            &format!("performance.getEntriesByType('resource').length > {asked}"),
        );
        page.click_pause();
        let answer = asker.get("/status.json");
        let status = serde_json::from_slice(&answer.body).expect("JSON");
        let is_shown = shows(&mut page, &status);
        page.click_pause();
        is_shown
    });
    let text = page.text("body");
    assert!(
        !text.contains("NaN") && !text.contains("undefined"),
        "{text}"
    );
    page.assert_no_error();
}

#[test]
fn a_killed_worker_s_bar_leaves_and_its_replacement_s_grows() {
    let server = Server::start(&["--workers", "4"]);
    let Some(mut page) = Page::open(&server) else {
        return;
    };
    let mut clients = uneven_clients(&server);
    let killed = clients.last().expect("there are clients").1;
    let stands = |pid| format!("$('.bar[data-pid=\"{pid}\"]')?.clientHeight > 0");
    page.wait_for("the worker's bar", &stands(killed));
    signal_to(killed, Signal::KILL);
    clients.retain(|(_, worker)| *worker != killed);
    // The restart is counted before or after the dead worker leaves the list. If the page fetches
    // its numbers in between, it does not show which worker restarted.
    page.wait_for(
        "another bar in its place, and a mark",
        &format!(
            "!$('.bar[data-pid=\"{killed}\"]') && $$('.bar').length === 4 \
             && $('#restarts').innerText === '1' && $('#chart-connections path.mark.restart') \
             && $('#chart-requests line.mark.restart') \
             && ['{killed} →', 'a worker restarted'].some((it) => $('#events').innerText.includes(it))"
        ),
    );
    let before: Vec<u32> = clients.iter().map(|(_, worker)| *worker).collect();
    // The replacement has the fewest clients, so it gets the next ones.
    let replacement = loop {
        let mut client = server.connect();
        let worker = client.worker();
        clients.push((client, worker));
        if !before.contains(&worker) {
            break worker;
        }
    };
    page.wait_for("its bar grows", &stands(replacement));
    page.assert_no_error();
}

#[test]
fn a_reload_is_a_mark_and_brings_new_bars() {
    let server = Server::start(&["--workers", "2"]);
    let Some(mut page) = Page::open(&server) else {
        return;
    };
    // The old worker drains until the request of this client is complete.
    let mut busy = server.connect();
    let old = busy.worker();
    busy.send("POST /echo HTTP/1.1\r\nHost: test\r\nContent-Length: 1\r\n\r\n");
    server.wait_for_status("the request has begun", |status| status.reading == 1);
    server.signal(Signal::HUP);
    page.wait_for(
        "a mark, and the old worker's bar beside that of the new one",
        &format!(
            "$('#reloads').innerText === '1' && $('#chart-connections path.mark.reload') \
             && $('.draining .bar.old[data-pid=\"{old}\"]') && $$('.bar:not(.old)').length === 2 \
             && $('tr.old [data-field=pid]').innerText === '{old}, draining'"
        ),
    );
    busy.send("x");
    assert_eq!(busy.response().status, 200);
    page.wait_for(
        "the old worker's bar leaves",
        "$$('.bar').length === 2 && !$('.draining')",
    );
    assert_eq!(page.text("#restarts"), "0");
    page.assert_no_error();
}

#[test]
fn a_thread_that_drains_has_a_bar_next_to_its_successor_s() {
    let server = Server::start(&["--threads", "2"]);
    let Some(mut page) = Page::open(&server) else {
        return;
    };
    page.wait_for("a bar for each thread", "$$('.bar').length === 2");
    let mut busy = server.connect();
    busy.send("POST /echo HTTP/1.1\r\nHost: test\r\nContent-Length: 1\r\n\r\n");
    server.wait_for_status("the request has begun", |status| status.reading == 1);
    let pid = server.pid();
    server.signal(Signal::HUP);
    // All threads show the process id of the server.
    page.wait_for(
        "three bars, one of them of a thread that drains",
        &format!(
            "$('#reloads').innerText === '1' && $$('.bar').length === 3 \
             && $$('.draining .bar.old[data-pid=\"{pid}\"]').length === 1 \
             && $('tr.old [data-field=pid]').innerText === '{pid}, draining'"
        ),
    );
    busy.send("x");
    assert_eq!(busy.response().status, 200);
    page.wait_for(
        "the old thread's bar leaves",
        "$$('.bar').length === 2 && !$('.draining') && !$('.bar.old')",
    );
    assert_eq!(page.text("#restarts"), "0");
    page.assert_no_error();
}
