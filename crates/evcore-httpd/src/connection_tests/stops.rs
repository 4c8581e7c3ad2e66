//! Tests of the connection at a graceful stop.

use std::time::Duration;

use evcore::Timer;

use super::{Fixture, get};

/// Its timer may expire before the loop has evicted it.
#[test]
fn an_idle_connection_of_a_stopping_worker_ends_with_its_timer() {
    let mut fixture = Fixture::new();
    fixture.receive(usize::MAX / 2);
    fixture.send(&get("/"));
    fixture.shared.stopping = true;
    assert!(fixture.expire(Timer::READ));
    assert!(fixture.connection.is_none());
}

#[test]
fn a_request_that_arrives_before_the_shutdown_is_the_last() {
    let mut fixture = Fixture::new();
    fixture.receive(usize::MAX / 2);
    if let Some(wire) = fixture.wire() {
        wire.sent.extend_from_slice(get("/").as_bytes());
    }
    fixture.stop();
    fixture.advance(Duration::from_secs(1));
    let wire = fixture.wire().expect("the client may have sent more");
    assert!(wire.taken.ends_with(b"Hello, World!"));
    fixture.shut_down();
    assert!(fixture.connection.is_none());
}

#[test]
fn a_new_client_may_send_one_request_after_the_shutdown() {
    let mut fixture = Fixture::new();
    fixture.receive(usize::MAX / 2);
    fixture.stop();
    fixture.send(&get("/"));
    let wire = fixture.wire().expect("the client may have sent more");
    assert!(wire.taken.ends_with(b"Hello, World!"));
    // Sent before the client has read `Connection: close`. A close would reset the connection.
    fixture.send(&get("/"));
    let wire = fixture.wire().expect("it is still open");
    assert_eq!(
        String::from_utf8_lossy(&wire.taken).matches("200").count(),
        1
    );
    fixture.shut_down();
    assert!(fixture.connection.is_none());
    let mut silent = Fixture::new();
    silent.stop();
    assert!(silent.connection.is_some());
    silent.advance(Duration::from_secs(1));
    assert!(silent.connection.is_none(), "it gets no response");
}

#[test]
fn a_client_served_just_before_the_shutdown_may_send_one_more() {
    let mut fixture = Fixture::new();
    fixture.receive(usize::MAX / 2);
    fixture.send(&get("/"));
    fixture.advance(Duration::from_millis(200));
    fixture.stop();
    // This request was on its way.
    fixture.send(&get("/"));
    let wire = fixture.wire().expect("the client may have sent more");
    let taken = String::from_utf8_lossy(&wire.taken);
    assert_eq!(taken.matches("200 OK").count(), 2, "{taken}");
    assert_eq!(taken.matches("Connection: close").count(), 1, "{taken}");
    fixture.shut_down();
    assert!(fixture.connection.is_none());
}

#[test]
fn a_silent_client_is_closed_a_second_after_the_shutdown() {
    let mut fixture = Fixture::new();
    fixture.receive(usize::MAX / 2);
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
        let mut fixture = Fixture::new();
        fixture.receive(usize::MAX / 2);
        fixture.send(request);
        fixture.advance(Duration::from_millis(1125));
        fixture.stop();
        assert!(fixture.connection.is_none(), "{request:?}");
    }
}
