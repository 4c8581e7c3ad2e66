//! The server's choice of a file, and of the part of it to send: names, ranges and conditions. The
//! first byte of an input chooses one of these three, and the size of the file.
//!
//! Oracles: a name is beneath the root, and its encoding is decoded to the same name. A range
//! agrees with a naive parser. Without a condition the request proceeds.

#![no_main]

use evcore_httpd::fuzzing::{Fields, Selection, Verdict, decode, evaluate, range_applies, select};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    let Some((first, rest)) = bytes.split_first() else {
        return;
    };
    let size = u64::from(first / 3);
    match first % 3 {
        0 => check_name(rest),
        1 => check_range(rest, size),
        _ => check_conditions(rest),
    }
});

fn check_name(encoded: &[u8]) {
    let mut name = Vec::new();
    // The parser of heads accepts only these bytes in a target.
    let is_of_target = |byte: &u8| *byte > b' ' && *byte != 0x7f;
    if !encoded.iter().all(is_of_target) || !decode(encoded, &mut name) {
        return;
    }
    assert!(!name.contains(&0) && !name.starts_with(b"/"));
    let components = name.split(|byte| *byte == b'/');
    assert!(components.clone().all(|part| !matches!(part, b"." | b"..")));
    let empty = components.filter(|part| part.is_empty()).count();
    assert!(
        empty <= 1,
        "only the component after a trailing slash, or that of an empty name, may be empty"
    );
    let encoded = name.iter().map(|byte| match byte {
        b'/' => "/".to_owned(),
        byte => format!("%{byte:02x}"),
    });
    let mut again = Vec::new();
    assert!(decode(encoded.collect::<String>().as_bytes(), &mut again));
    assert_eq!(again, name);
}

fn check_range(value: &[u8], size: u64) {
    let selected = select(Some(value), size);
    if let Selection::Part(part) = &selected {
        assert!(part.start < part.end && part.end <= size);
    }
    assert_eq!(selected, naive(value, size).unwrap_or(Selection::Whole));
}

/// Parses a range; `None` if the value is not one range.
fn naive(value: &[u8], size: u64) -> Option<Selection> {
    let text = std::str::from_utf8(value).ok()?;
    let (unit, range) = text.split_once('=')?;
    if unit.to_ascii_lowercase() != "bytes" {
        return None;
    }
    let (first, last) = range
        .trim_matches(|c: char| c.is_ascii_whitespace())
        .split_once('-')?;
    let (size, first, last) = (u128::from(size), number(first)?, number(last)?);
    let part = match (first, last) {
        (None, None) => return None,
        (None, Some(last)) if last > 0 && size == 0 => return Some(Selection::Whole),
        (None, Some(last)) => size.saturating_sub(last)..size,
        (Some(first), None) => first..size,
        (Some(first), Some(last)) if first > last => return None,
        (Some(first), Some(last)) => first..size.min(last + 1),
    };
    let [start, end] = [part.start, part.end].map(|end| u64::try_from(end).unwrap_or(u64::MAX));
    Some(match start < end {
        true => Selection::Part(start..end),
        false => Selection::Unsatisfiable,
    })
}

/// Parses digits; `Some(None)` if there are none. Numbers beyond `u64` count as its maximum.
fn number(digits: &str) -> Option<Option<u128>> {
    if !digits.bytes().all(|byte| byte.is_ascii_digit()) {
        return None;
    }
    let digits = match digits.trim_start_matches('0') {
        "" => &digits[..digits.len().min(1)],
        significant => significant,
    };
    let limit = u128::from(u64::MAX);
    Some((!digits.is_empty()).then(|| digits.parse().unwrap_or(limit).min(limit)))
}

fn check_conditions(head: &[u8]) {
    let Some(fields) = Fields::parse(head) else {
        return;
    };
    for modified in [None, Some(0), Some(784_111_777)] {
        let verdict = evaluate(&fields, "\"a-b\"", modified);
        let applies = range_applies(&fields, "\"a-b\"", modified);
        let text = String::from_utf8_lossy(head).to_ascii_lowercase();
        if !text.contains("if-") {
            assert_eq!(verdict, Verdict::Proceed);
            assert!(applies);
        }
    }
}
