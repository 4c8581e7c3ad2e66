//! The dashboard's page, if it is opened after a worker was killed. The page must show the kill.

use evcore_tests::{Server, eventually, signal_to};
use rustix::process::Signal;
use serde_json::Value;

use crate::page::Page;

#[test]
fn a_page_that_opens_late_shows_what_happened_before() {
    let server = Server::start(&["--workers", "2"]);
    let mut asker = server.connect();
    let mut history = || -> Vec<Value> {
        let answer = asker.get("/history.json");
        serde_json::from_slice(&answer.body).expect("an array")
    };
    // The last element is the present state, the others are samples.
    eventually("samples", || history().len() > 3);
    let victim = pid_in(&server.connect().get("/worker").body);
    signal_to(victim, Signal::KILL);
    let mut asker = server.connect();
    eventually("a sample after the kill", || {
        let Some(answer) = asker.try_get("/history.json").ok() else {
            asker = server.connect();
            return false;
        };
        let history: Vec<Value> = serde_json::from_slice(&answer.body).expect("an array");
        let before_last = &history[history.len() - 2];
        before_last["restarts"] == 1 && before_last["workers"].as_array().map(Vec::len) == Some(2)
    });
    let Some(mut page) = Page::open(&server) else {
        return;
    };
    page.wait_for(
        "the past",
        "state.samples.length > 4 && $('#chart-connections path.mark.restart')",
    );
    let axis = page.text("#chart-requests");
    assert!(!axis.contains("2 min ago"), "{axis}");
    assert!(page.text("#events").contains("restarted"));
    page.assert_no_error();
}

fn pid_in(answer: &[u8]) -> u32 {
    let answer: Value = serde_json::from_slice(answer).expect("JSON");
    let pid = answer["pid"].as_u64().expect("a process id");
    u32::try_from(pid).expect("it fits")
}
