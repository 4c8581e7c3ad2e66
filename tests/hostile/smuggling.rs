//! Each case of the corpus, sent at once and a byte at a time, with a request behind it.
//!
//! The request behind a case shows whether the server agrees about the end of the case. After a
//! refusal that request must not be interpreted.

use evcore_tests::{Client, Server};

use crate::corpus::{CASES, Case, Expected};

/// The request behind each case. It gets the status [`FOLLOWER_STATUS`].
const FOLLOWER: &str = "DELETE /sleep/0 HTTP/1.1\r\nHost: follower\r\n\r\n";
const FOLLOWER_STATUS: u16 = 405;

#[test]
fn each_case_of_the_corpus_gets_its_response() {
    let server = Server::start(&["--workers", "1"]);
    for case in CASES.iter().copied().flatten() {
        let request = [case.start.as_bytes(), case.rest, FOLLOWER.as_bytes()].concat();
        let mut client = server.connect();
        client.send_lossy(&request);
        check(case, "at once", client);

        let mut client = server.connect();
        for byte in request {
            client.send_lossy([byte]);
        }
        check(case, "a byte at a time", client);
    }
}

fn check(case: &Case, how: &str, mut client: Client) {
    let (statuses, is_kept) = match case.expected {
        Expected::Served(status) => (vec![status, FOLLOWER_STATUS], true),
        Expected::Refused(status) | Expected::Last(status) => (vec![status], false),
    };
    for expected in statuses {
        let response = client
            .try_response()
            .unwrap_or_else(|error| panic!("{}, {how}: {expected}: {error}", case.name));
        assert_eq!(response.status, expected, "{}, {how}", case.name);
        assert_eq!(response.closes(), !is_kept, "{}, {how}", case.name);
    }
    if matches!(case.expected, Expected::Last(_)) {
        // The connection may end by a reset, because the follower may arrive after the server has
        // closed it.
        assert!(client.try_response().is_err(), "{}, {how}", case.name);
        return;
    }
    client.shutdown_write();
    assert!(client.is_closed(), "{}, {how}: there is more", case.name);
}

#[test]
fn the_cases_of_the_corpus_have_different_names_and_bytes() {
    let all: Vec<_> = CASES.iter().copied().flatten().collect();
    for (nth, case) in all.iter().enumerate() {
        for other in &all[..nth] {
            assert_ne!(case.name, other.name);
            let is_same = (case.start, case.rest) == (other.start, other.rest);
            assert!(!is_same, "{} and {}", case.name, other.name);
        }
    }
}
