//! The dashboard's page while no server answers, and the times at which the page sends requests.

use std::{net::TcpListener, process::Command};

use evcore_tests::{Server, eventually, httpd};

use crate::page::Page;

#[test]
fn the_page_goes_on_when_the_server_is_back() {
    let server = Server::start(&["--workers", "2"]);
    let Some(mut page) = Page::open(&server) else {
        return;
    };
    let address = server.address();
    let mut client = server.connect();
    for _ in 0..100 {
        assert_eq!(client.get("/").status, 200);
    }
    page.wait_for(
        "the requests are counted",
        "Number($('tfoot [data-field=requests]').innerText) > 100",
    );
    page.assert_no_error();
    drop(server);
    page.wait_for_state("gone");
    assert!(page.text("#state").starts_with("Server gone since "));

    // The workers end after their master.
    eventually("the port is free", || TcpListener::bind(address).is_ok());
    let mut command = Command::new(httpd());
    command.args(["--workers", "2", "--listen", &address.to_string()]);
    let _server = Server::from_command(command, 1);
    page.wait_for_state("live");
    page.wait_for("a mark", "$('#chart-connections path.mark.start')");
    page.wait_for(
        "a rate",
        "/^[0-9.,]+$/.test($('#chart-requests b').innerText)",
    );
    assert!(page.number("tfoot [data-field=requests]") < 100);
    let events = page.text("#events");
    for event in [
        "the server is gone",
        "the server answers again",
        "the server was started again",
    ] {
        assert!(events.contains(event), "{events}");
    }
    // The browser logs each failed request as an error. No other error is expected.
    for error in page.browser.take_console_errors() {
        assert!(
            error.contains("status.json") && error.contains("net::ERR_"),
            "{error}"
        );
    }
}

#[test]
fn the_page_polls_once_a_second_and_not_if_paused_or_hidden() {
    let server = Server::start(&["--workers", "1"]);
    let Some(mut page) = Page::open(&server) else {
        return;
    };
    let requests = "performance.getEntriesByType('resource') \
                    .filter((entry) => entry.name.endsWith('/status.json')).length";
    page.wait_for("three requests", &format!("{requests} >= 3"));
    let script = format!("return {requests} <= performance.now() / 1000 + 1");
    assert_eq!(page.browser.run(&script), true);

    let hide = |is_hidden| {
        format!(
            "Object.defineProperty(document, 'hidden', {{value: {is_hidden}, configurable: true}}); \
             document.dispatchEvent(new Event('visibilitychange'))"
        )
    };
    let pause = "document.getElementById('pause').click()".to_owned();
    for (stop, go_on) in [(pause.clone(), pause), (hide(true), hide(false))] {
        page.browser.run(&stop);
        page.browser
            .wait_for("no request is under way", "!state.isAsking");
        let script = format!("return [{requests}, performance.now()]");
        let before = page.browser.run(&script);
        let (count, time) = (&before[0], &before[1]);
        // Without the stop, the page would send two more requests in this time.
        page.wait_for("time passes", &format!("performance.now() > {time} + 2500"));
        assert_eq!(&page.browser.run(&format!("return {requests}")), count);
        page.browser.run(&go_on);
        page.wait_for("the next request", &format!("{requests} > {count}"));
    }
}
