//! The range of a request (RFC 9110, section 14).
//!
//! A single range is served. Several ranges in one request are ignored, as the RFC allows, because
//! the response would need a part for each of them, and few clients use them. Ranges that do not
//! parse, and units other than bytes, are ignored too.

use std::ops::Range;

/// The part of a file to send.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Selection {
    /// The whole file.
    Whole,
    /// A part that is not empty, and lies within the file.
    Part(Range<u64>),
    /// The range begins at or beyond the end of the file, or has no bytes. The answer is `416`.
    Unsatisfiable,
}

/// Selects the part of a file of this size that the value of `Range` names.
pub fn select(value: Option<&[u8]>, size: u64) -> Selection {
    value
        .and_then(|value| select_one(value, size))
        .unwrap_or(Selection::Whole)
}

/// Returns `None` if the value is not one range.
fn select_one(value: &[u8], size: u64) -> Option<Selection> {
    let (unit, range) = split(value, b'=')?;
    if !unit.eq_ignore_ascii_case(b"bytes") {
        return None;
    }
    let (first, last) = split(range.trim_ascii(), b'-')?;
    if first.is_empty() {
        return Some(select_suffix(number(last)?, size));
    }
    let first = number(first)?;
    let end = if last.is_empty() {
        size
    } else {
        let last = number(last)?;
        if last < first {
            return None;
        }
        size.min(last.saturating_add(1))
    };
    Some(if first < size {
        Selection::Part(first..end)
    } else {
        Selection::Unsatisfiable
    })
}

/// Selects the last `length` bytes. An empty file is selected as a whole, because it has no part
/// that a response could name.
fn select_suffix(length: u64, size: u64) -> Selection {
    match (length, size) {
        (0, _) => Selection::Unsatisfiable,
        (_, 0) => Selection::Whole,
        _ => Selection::Part(size.saturating_sub(length)..size),
    }
}

fn split(bytes: &[u8], at: u8) -> Option<(&[u8], &[u8])> {
    let position = bytes.iter().position(|byte| *byte == at)?;
    Some((&bytes[..position], &bytes[position + 1..]))
}

/// Parses decimal digits. A number beyond `u64` becomes the highest one, which is beyond the end of
/// every file.
fn number(digits: &[u8]) -> Option<u64> {
    if digits.is_empty() {
        return None;
    }
    digits.iter().try_fold(0_u64, |number, digit| {
        let digit = digit.is_ascii_digit().then(|| u64::from(digit - b'0'))?;
        Some(number.saturating_mul(10).saturating_add(digit))
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn selected(value: &str, size: u64) -> Selection {
        select(Some(value.as_bytes()), size)
    }

    #[test]
    fn one_range_selects_a_part() {
        for (value, part) in [
            ("bytes=0-0", 0..1),
            ("bytes=0-9", 0..10),
            ("bytes=0-10", 0..10),
            ("bytes=3-", 3..10),
            ("bytes=9-", 9..10),
            ("bytes=3-99999999999999999999999", 3..10),
            ("bytes=-1", 9..10),
            ("bytes=-10", 0..10),
            ("bytes=-99999999999999999999999", 0..10),
            ("Bytes=007-8", 7..9),
            ("bytes= 1-2 ", 1..3),
        ] {
            assert_eq!(selected(value, 10), Selection::Part(part), "{value}");
        }
    }

    #[test]
    fn a_range_beyond_the_end_is_unsatisfiable() {
        for value in [
            "bytes=10-",
            "bytes=10-20",
            "bytes=-0",
            "bytes=99999999999999999999999-",
        ] {
            assert_eq!(selected(value, 10), Selection::Unsatisfiable, "{value}");
        }
        assert_eq!(selected("bytes=0-", 0), Selection::Unsatisfiable);
        assert_eq!(selected("bytes=-5", 0), Selection::Whole);
    }

    #[test]
    fn a_value_other_than_one_range_is_ignored() {
        let many = format!("bytes={}0-1", "0-1,".repeat(500));
        for value in [
            "",
            "bytes",
            "bytes=",
            "bytes=-",
            "bytes=--1",
            "bytes=5-2",
            "bytes=a-b",
            "bytes=1-b",
            "bytes=+1-2",
            "bytes=0x1-2",
            "bytes=1",
            "bytes=1-2-3",
            "bytes 1-2",
            "lines=1-2",
            "bytes=0-1,3-4",
            "bytes=0-1,",
            "bytes=1 - 2",
            "bytes =1-2",
            &many,
        ] {
            assert_eq!(selected(value, 10), Selection::Whole, "{value}");
        }
        assert_eq!(select(None, 10), Selection::Whole);
    }

    proptest! {
        #[test]
        fn a_part_is_within_the_file(value in "bytes=[0-9]{0,3}-[0-9]{0,3}", size in 0..300_u64) {
            if let Selection::Part(part) = selected(&value, size) {
                prop_assert!(part.start < part.end && part.end <= size);
            }
        }
    }
}
