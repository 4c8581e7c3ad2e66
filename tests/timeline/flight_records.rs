//! HTML pages that are drawn from the flight records (the last actions of the loop) that `httpd`
//! logs, and from a worker's recording.

use std::process::Command;

use evcore_sim::Timeline;
use evcore_testing::Scratch;
use evcore_tests::{Server, evcore_replay, eventually, signal_to};
use rustix::process::Signal;

use crate::page::Page;

#[test]
fn a_slow_turn_of_httpd_is_drawn_from_its_log() {
    let options = [
        "--workers",
        "1",
        "--watchdog",
        "20",
        "--flight-recorder",
        "50",
    ];
    let server = Server::start(&options);
    let mut client = server.connect();
    assert_eq!(client.get("/block/40").text(), "blocked\n");
    eventually("the report", || server.log().contains("Accepted(0)"));
    let timeline = Timeline::of_flight_log(&server.log()).expect("it has records");
    let timeline = timeline.with_summary(&server.log());
    let Some(mut page) = Page::open(&timeline.to_html()) else {
        return;
    };
    let lanes = page.lanes();
    assert!(lanes[0].starts_with("worker "), "{lanes:?}");
    assert!(page.at().contains("TurnEnded { took_ns: "), "{}", page.at());
    let find = "document.getElementById('find').value = 'Ready(';
        go(0);
        document.getElementById('find').dispatchEvent(new Event('change'))";
    page.browser.run(find);
    let at = page.at();
    let (_, ready) = at.split_once("Ready(").expect("it was found");
    let token = ready.split(',').next().unwrap_or_default();
    let lane = format!("{}, {token}", lanes[0]);
    assert!(lanes.contains(&lane), "{at}: {lanes:?}");
    let state = page.text("#state");
    assert!(
        state.contains("Registered { token: ") && state.contains("Armed { token: "),
        "{state}"
    );
    page.assert_no_error();
}

#[test]
fn a_recording_of_httpd_is_drawn() {
    let scratch = Scratch::new("drawn");
    let file = scratch.file("recording");
    let name = file.to_str().expect("it is text");
    let mut server = Server::start(&["--workers", "0", "--record", name]);
    assert_eq!(server.connect().get("/worker").status, 200);
    signal_to(server.pid(), Signal::QUIT);
    assert!(server.wait().success());
    let drawn = Command::new(evcore_replay())
        .arg("--draw")
        .arg(&file)
        .output();
    let html = String::from_utf8(drawn.expect("it runs").stdout).expect("a page");
    let Some(mut page) = Page::open(&html) else {
        return;
    };
    let lanes = page.lanes();
    assert!(lanes.iter().any(|lane| lane.contains("3v1")), "{lanes:?}");
    page.assert_no_error();
}
