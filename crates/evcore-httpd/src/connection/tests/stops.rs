//! Tests of the connection at a graceful stop.

use std::time::Duration;

use super::{Fixture, get};
use crate::timers::RECEIVE;

fn open() -> Fixture {
    let mut fixture = Fixture::new();
    fixture.receive(usize::MAX / 2);
    fixture
}

/// Asserts that the client has two responses, that only the second one announces the end of the
/// connection, and that the connection ends when the client ends its stream.
fn assert_second_response_is_the_last(mut fixture: Fixture) {
    let taken = fixture.taken();
    assert_eq!(taken.matches("200 OK").count(), 2, "{taken}");
    assert_eq!(taken.matches("Connection: close").count(), 1, "{taken}");
    let second = taken.rsplit("HTTP/1.1 ").next().unwrap_or_default();
    assert!(second.contains("Connection: close"), "{taken}");
    fixture.shut_down();
    assert!(fixture.connection.is_none());
}

/// The timer may expire before the loop has evicted the connection.
#[test]
fn an_idle_connection_of_a_stopping_worker_ends_with_its_timer() {
    let mut fixture = open();
    fixture.send(&get("/"));
    fixture.shared.stopping = true;
    assert!(fixture.expire(RECEIVE));
    assert!(fixture.connection.is_none());
}

#[test]
fn a_request_that_arrives_before_the_shutdown_is_the_last() {
    let mut fixture = open();
    fixture.client.sent.extend_from_slice(get("/").as_bytes());
    fixture.stop();
    fixture.advance(Duration::from_secs(1));
    assert!(
        fixture.connection.is_some(),
        "the client may have sent more"
    );
    assert!(fixture.taken().ends_with("Hello, World!"));
    fixture.shut_down();
    assert!(fixture.connection.is_none());
}

#[test]
fn a_new_client_may_send_one_request_after_the_shutdown() {
    let mut fixture = open();
    fixture.stop();
    fixture.send(&get("/"));
    assert!(
        fixture.connection.is_some(),
        "the client may have sent more"
    );
    assert!(fixture.taken().ends_with("Hello, World!"));
    // The client sends this request before it has read `Connection: close`. Closing the socket now
    // would reset the connection.
    fixture.send(&get("/"));
    assert!(fixture.connection.is_some());
    assert_eq!(fixture.taken().matches("200").count(), 1);
    fixture.shut_down();
    assert!(fixture.connection.is_none());
    let mut silent = Fixture::new();
    silent.stop();
    assert!(silent.connection.is_some());
    silent.advance(Duration::from_secs(1));
    assert!(silent.connection.is_none(), "it gets no response");
}

#[test]
fn a_client_served_just_before_a_stop_may_send_one_more_request() {
    let mut fixture = open();
    fixture.send(&get("/"));
    fixture.advance(Duration::from_millis(200));
    fixture.stop();
    // This request was on its way.
    fixture.send(&get("/"));
    assert!(
        fixture.connection.is_some(),
        "the client may have sent more"
    );
    assert_second_response_is_the_last(fixture);
}

#[test]
fn a_silent_client_is_closed_a_second_after_the_shutdown() {
    let mut fixture = open();
    fixture.send(&get("/"));
    fixture.advance(Duration::from_millis(900));
    fixture.stop();
    fixture.advance(Duration::from_millis(999));
    assert!(fixture.connection.is_some());
    fixture.advance(Duration::from_millis(2));
    assert!(fixture.connection.is_none());
}

#[test]
fn a_client_idle_for_over_a_second_is_closed_at_once() {
    for request in ["", &get("/")] {
        let mut fixture = open();
        fixture.send(request);
        fixture.advance(Duration::from_millis(1125));
        fixture.stop();
        assert!(fixture.connection.is_none(), "{request:?}");
    }
}

/// A connection whose client has not received its last response, and that was idle for this long
/// before the worker stops.
fn with_slow_client(idle_ms: u64) -> Fixture {
    let mut fixture = open();
    fixture.send(&get("/"));
    fixture.client.is_slow = true;
    fixture.advance(Duration::from_millis(idle_ms));
    fixture.stop();
    fixture
}

#[test]
fn a_stop_waits_for_delivery_and_a_second_more() {
    for idle_ms in [0, 5000] {
        let mut fixture = with_slow_client(idle_ms);
        for _ in 0..40 {
            fixture.advance(Duration::from_millis(250));
            // The socket has room again, which does not mean that all bytes are delivered.
            fixture.proceed();
            assert!(fixture.connection.is_some(), "idle for {idle_ms} ms");
        }
        fixture.client.is_slow = false;
        fixture.advance(Duration::from_millis(999));
        assert!(fixture.connection.is_some(), "a request may be on its way");
        // The next check finds that the client has the response, and gives it another second.
        fixture.advance(Duration::from_millis(2));
        fixture.advance(Duration::from_millis(1002));
        assert!(fixture.connection.is_none());
    }
}

#[test]
fn a_slow_client_of_a_stopping_worker_may_send_one_more_request() {
    let mut fixture = with_slow_client(5000);
    fixture.advance(Duration::from_millis(2500));
    fixture.client.is_slow = false;
    fixture.advance(Duration::from_millis(1500));
    fixture.send(&get("/"));
    assert_second_response_is_the_last(fixture);
}

#[test]
fn a_slow_client_is_evicted_if_its_slot_is_needed() {
    let mut fixture = open();
    fixture.send(&get("/"));
    fixture.client.is_slow = true;
    fixture.evict();
    assert!(fixture.connection.is_none(), "the kernel sends the rest");
}
