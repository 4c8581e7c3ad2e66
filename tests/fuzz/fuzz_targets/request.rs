//! The parser of request heads.
//!
//! Oracles: a second parser, line by line, checks that an accepted head follows the grammar of RFC
//! 9112 as far as the end of the request depends on it. A head that is cut after a line, or by one
//! byte, is incomplete.

#![no_main]

use evcore_httpd::fuzzing::{Framing, MAX_BODY_BYTES, Parsed, Request, Version, parse};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    let Parsed::Complete(request, length) = parse(bytes) else {
        return;
    };
    let head = &bytes[..length];
    check(&request, head);
    for cut in (1..length)
        .filter(|cut| head[*cut - 1] == b'\n')
        .chain([length - 1])
    {
        assert!(matches!(parse(&head[..cut]), Parsed::Partial), "at {cut}");
    }
    match parse(head) {
        Parsed::Complete(again, same) => {
            assert_eq!(same, length);
            assert_eq!(format!("{again:?}"), format!("{request:?}"));
        }
        other => panic!("{other:?}"),
    }
});

fn check(request: &Request, head: &[u8]) {
    assert!(!head.contains(&0));
    let lines = head.split_inclusive(|byte| *byte == b'\n').map(|line| {
        let line = line.strip_suffix(b"\n").expect("a head ends with a line");
        line.strip_suffix(b"\r").unwrap_or(line)
    });
    let mut lines = lines.skip_while(|line| line.is_empty());
    check_request_line(request, lines.next().expect("a request line"));

    let (mut hosts, mut lengths, mut codings) = (0, Vec::new(), Vec::new());
    let mut fields: Vec<_> = lines.collect();
    assert_eq!(fields.pop(), Some(&b""[..]), "the empty line is the last");
    for line in fields {
        let colon = line
            .iter()
            .position(|byte| *byte == b':')
            .expect("a field has a colon");
        let (name, value) = (&line[..colon], line[colon + 1..].trim_ascii());
        let is_name = |byte: &u8| byte.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(byte);
        assert!(!name.is_empty() && name.iter().all(is_name), "{name:?}");
        assert!(
            line.iter()
                .all(|byte| *byte == b'\t' || !byte.is_ascii_control()),
            "{line:?}"
        );
        match name.to_ascii_lowercase().as_slice() {
            b"host" => hosts += 1,
            b"content-length" => lengths.push(value),
            b"transfer-encoding" => codings.extend(value.split(|byte| *byte == b',')),
            _ => {}
        }
    }
    match request.version {
        Version::Http11 => assert_eq!(hosts, 1),
        Version::Http10 => assert!(hosts <= 1),
    }
    check_framing(request, &lengths, codings);
}

fn check_request_line(request: &Request, line: &[u8]) {
    let words: Vec<_> = line.split(|byte| *byte == b' ').collect();
    let [method, target, version] = words[..] else {
        panic!("{words:?}");
    };
    assert!(!method.is_empty() && !target.is_empty());
    assert!(target.iter().all(|byte| *byte > b' ' && *byte != 0x7f));
    let minor = version.strip_prefix(b"HTTP/1.").expect("version 1");
    match (request.version, minor) {
        (Version::Http10, b"0") | (Version::Http11, [b'1'..=b'9']) => {}
        other => panic!("{other:?}"),
    }
    assert_eq!(request.head_only, method == b"HEAD");
}

fn check_framing(request: &Request, lengths: &[&[u8]], codings: Vec<&[u8]>) {
    if codings.is_empty() {
        let length = match lengths {
            [] => 0,
            [one] => std::str::from_utf8(one)
                .expect("digits")
                .parse()
                .expect("a length"),
            _ => panic!("{lengths:?}"),
        };
        assert!(length <= MAX_BODY_BYTES as u64);
        assert_eq!(request.framing, Framing::Length(length));
        return;
    }
    let codings = codings.into_iter().map(<[u8]>::trim_ascii);
    let codings: Vec<_> = codings.filter(|coding| !coding.is_empty()).collect();
    assert!(matches!(codings[..], [one] if one.eq_ignore_ascii_case(b"chunked")));
    assert!(lengths.is_empty() && request.version == Version::Http11);
    assert_eq!(request.framing, Framing::Chunked);
}
