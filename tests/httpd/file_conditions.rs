//! Conditional requests and ranges of files.

use evcore_tests::Client;

use crate::files::{Site, ask, content};

/// A site with the file `a` of 10,000 bytes, a client, and the file's tag and date.
fn site() -> (Site, Client, String, String) {
    let site = Site::start(&[]);
    site.write("a", content(10_000));
    let mut client = site.server.connect();
    let response = client.get("/files/a");
    let header = |name| response.header(name).expect("it is there").to_owned();
    let (etag, date) = (header("etag"), header("last-modified"));
    (site, client, etag, date)
}

const LONG_AGO: &str = "Thu, 01 Jan 1970 00:00:01 GMT";

#[test]
fn a_file_that_the_client_has_is_not_sent() {
    let (_site, mut client, etag, date) = site();
    for method in ["GET", "HEAD"] {
        for lines in [
            format!("If-None-Match: {etag}\r\n"),
            format!("If-None-Match: \"a\", W/{etag}\r\n"),
            "If-None-Match: *\r\n".to_owned(),
            format!("If-Modified-Since: {date}\r\n"),
            format!("If-None-Match: {etag}\r\nIf-Modified-Since: {LONG_AGO}\r\n"),
            format!("If-None-Match: {etag}\r\nRange: bytes=0-1\r\n"),
        ] {
            let response = ask(&mut client, method, "/files/a", &lines);
            assert_eq!(response.status, 304, "{method} {lines}");
            assert_eq!(response.header("etag"), Some(etag.as_str()));
            assert_eq!(response.header("last-modified"), Some(date.as_str()));
            assert_eq!(response.header("content-length"), None);
            assert_eq!(response.header("content-type"), None);
        }
    }
    assert_eq!(client.get("/").text(), "Hello, World!");
}

#[test]
fn a_file_that_changed_is_sent() {
    let (_site, mut client, etag, date) = site();
    for lines in [
        "If-None-Match: \"a\"\r\n".to_owned(),
        format!("If-Modified-Since: {LONG_AGO}\r\n"),
        format!("If-None-Match: \"a\"\r\nIf-Modified-Since: {date}\r\n"),
        "If-Modified-Since: nonsense\r\n".to_owned(),
        "If-None-Match: nonsense\r\n".to_owned(),
        "If-Unmodified-Since: Sun, 99 Foo 0000 99:99:99 GMT\r\n".to_owned(),
        format!("If-Match: {etag}\r\n"),
        format!("If-Unmodified-Since: {date}\r\n"),
    ] {
        let response = ask(&mut client, "GET", "/files/a", &lines);
        assert_eq!(response.status, 200, "{lines}");
        assert!(response.body == content(10_000));
    }
}

#[test]
fn a_condition_that_does_not_hold_is_a_412() {
    let (_site, mut client, etag, _) = site();
    for lines in [
        "If-Match: \"a\"\r\n".to_owned(),
        format!("If-Match: W/{etag}\r\n"),
        format!("If-Unmodified-Since: {LONG_AGO}\r\n"),
        format!("If-Match: \"a\"\r\nIf-None-Match: {etag}\r\n"),
    ] {
        for method in ["GET", "HEAD"] {
            assert_eq!(ask(&mut client, method, "/files/a", &lines).status, 412);
        }
    }
}

#[test]
fn a_single_range_is_a_206() {
    let (_site, mut client, etag, date) = site();
    let whole = content(10_000);
    for (range, part) in [
        ("0-0", 0..1),
        ("0-9999", 0..10_000),
        ("9000-20000", 9_000..10_000),
        ("5000-", 5_000..10_000),
        ("-1", 9_999..10_000),
        ("-20000", 0..10_000),
    ] {
        for condition in [
            String::new(),
            format!("If-Range: {etag}\r\n"),
            format!("If-Range: {date}\r\n"),
        ] {
            let lines = format!("{condition}Range: bytes={range}\r\n");
            let response = ask(&mut client, "GET", "/files/a", &lines);
            assert_eq!(response.status, 206, "{lines}");
            let expected = format!("bytes {}-{}/10000", part.start, part.end - 1);
            assert_eq!(response.header("content-range"), Some(expected.as_str()));
            assert_eq!(response.header("etag"), Some(etag.as_str()));
            assert!(response.body == whole[part.clone()], "{lines}");
        }
    }
}

#[test]
fn a_large_range_is_sent_across_calls() {
    let site = Site::start(&[]);
    let whole = content(3_000_000);
    site.write("large", &whole);
    let mut client = site.server.connect();
    for part in [1..2_999_999, 524_287..524_289, 2_000_000..2_000_001] {
        let lines = format!("Range: bytes={}-{}\r\n", part.start, part.end - 1);
        let response = ask(&mut client, "GET", "/files/large", &lines);
        assert!(response.body == whole[part], "{lines}");
    }
}

#[test]
fn a_range_beyond_the_end_is_a_416() {
    let (_site, mut client, _, _) = site();
    for range in ["10000-", "10000-10001", "-0", "99999999999999999999999-"] {
        let lines = format!("Range: bytes={range}\r\n");
        let response = ask(&mut client, "GET", "/files/a", &lines);
        assert_eq!(response.status, 416, "{range}");
        assert_eq!(response.header("content-range"), Some("bytes */10000"));
        assert!(response.body.is_empty());
    }
}

#[test]
fn ranges_that_are_not_served_get_the_whole_file() {
    let (_site, mut client, etag, _) = site();
    let hundreds = format!("Range: bytes={}0-\r\n", "0-1,".repeat(500));
    for lines in [
        "Range: bytes=5-2\r\n",
        "Range: bytes=0-1,3-4\r\n",
        "Range: bytes=0-5000,0-5000,-5\r\n",
        "Range: bytes=\r\n",
        "Range: nonsense\r\n",
        "Range: lines=0-1\r\n",
        "Range: bytes=0-1\r\nRange: bytes=3-4\r\n",
        "Range: bytes=0-1\r\nIf-Range: \"a\"\r\n",
        &format!("Range: bytes=0-1\r\nIf-Range: W/{etag}\r\n"),
        &format!("Range: bytes=0-1\r\nIf-Range: {LONG_AGO}\r\n"),
        "Range: bytes=0-1\r\nIf-Range: nonsense\r\n",
        &hundreds,
    ] {
        let response = ask(&mut client, "GET", "/files/a", lines);
        assert_eq!(response.status, 200, "{lines}");
        assert!(response.body == content(10_000));
    }
    // Ranges apply only to GET.
    let response = ask(&mut client, "HEAD", "/files/a", "Range: bytes=0-1\r\n");
    assert_eq!(response.status, 200);
    assert_eq!(response.header("content-length"), Some("10000"));
}

#[test]
fn an_empty_file_has_no_range() {
    let site = Site::start(&[]);
    site.write("empty", "");
    let mut client = site.server.connect();
    for (range, status) in [("0-", 416), ("-1", 200), ("0-0", 416)] {
        let lines = format!("Range: bytes={range}\r\n");
        assert_eq!(
            ask(&mut client, "GET", "/files/empty", &lines).status,
            status
        );
    }
}
