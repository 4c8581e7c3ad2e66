//! Conditional requests (RFC 9110, section 13).

use std::time::UNIX_EPOCH;

use super::fields::Fields;

/// The response that a request's conditions lead to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// Respond as if the request had no conditions.
    Proceed,
    /// `304`.
    NotModified,
    /// `412`.
    Failed,
}

/// Evaluates the conditions in the order of RFC 9110, section 13.2.2.
///
/// `etag` is strong, and has its quotes. `modified` is in Unix seconds; without it, conditions on
/// the date are ignored. A date that cannot be parsed is ignored too.
pub fn evaluate(fields: &Fields<'_>, etag: &str, modified: Option<u64>) -> Verdict {
    let is_unmodified_since = |date: Option<&[u8]>| Some(modified? <= unix_seconds(date?)?);
    let may_proceed = if fields.if_match.is_empty() {
        is_unmodified_since(fields.if_unmodified_since()).unwrap_or(true)
    } else {
        lists(&fields.if_match, |tag| tag.is_strong() && tag.is(etag))
    };
    if !may_proceed {
        return Verdict::Failed;
    }
    let is_known = if fields.if_none_match.is_empty() {
        is_unmodified_since(fields.if_modified_since()).unwrap_or(false)
    } else {
        lists(&fields.if_none_match, |tag| tag.is(etag))
    };
    if is_known {
        Verdict::NotModified
    } else {
        Verdict::Proceed
    }
}

/// Returns whether `Range` may be used: the request has no `If-Range`, or its `If-Range` names the
/// present version of the file.
///
/// A date in `If-Range` has to be exactly the date of the file. The file may have changed twice
/// within that second, so an entity tag is safer.
pub fn range_applies(fields: &Fields<'_>, etag: &str, modified: Option<u64>) -> bool {
    let Some(value) = fields.if_range() else {
        return true;
    };
    // The value is one tag or one date, not a list. The tag of the file is strong.
    let value = value.trim_ascii();
    value == etag.as_bytes() || (modified.is_some() && unix_seconds(value) == modified)
}

/// Returns whether a list of entity tags has one that matches, or is `*`.
fn lists(lines: &[&[u8]], matches: impl Fn(&Tag<'_>) -> bool) -> bool {
    let mut lines = lines.iter();
    lines.any(|line| line.trim_ascii() == b"*" || Tags(line).any(|tag| matches(&tag)))
}

fn unix_seconds(value: &[u8]) -> Option<u64> {
    let text = std::str::from_utf8(value).ok()?;
    let date = httpdate::parse_http_date(text).ok()?;
    Some(date.duration_since(UNIX_EPOCH).ok()?.as_secs())
}

/// An entity tag with its quotes, and with `W/` if it is weak.
struct Tag<'a>(&'a [u8]);

impl Tag<'_> {
    fn is_strong(&self) -> bool {
        self.0.starts_with(b"\"")
    }

    /// Compares weakly, which ignores `W/`.
    fn is(&self, etag: &str) -> bool {
        self.0.strip_prefix(b"W/").unwrap_or(self.0) == etag.as_bytes()
    }
}

/// The entity tags of a list, up to the first malformed one.
struct Tags<'a>(&'a [u8]);

impl<'a> Iterator for Tags<'a> {
    type Item = Tag<'a>;

    fn next(&mut self) -> Option<Tag<'a>> {
        let is_between = |byte: &u8| matches!(byte, b',' | b' ' | b'\t');
        let skipped = self.0.iter().take_while(|byte| is_between(byte)).count();
        let tag = &self.0[skipped..];
        let weak = if tag.starts_with(b"W/") { 2 } else { 0 };
        let opaque = tag[weak..].strip_prefix(b"\"")?;
        let end = opaque.iter().position(|byte| *byte == b'"')?;
        let (tag, rest) = tag.split_at(weak + end + 2);
        self.0 = rest;
        Some(Tag(tag))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ETAG: &str = "\"a,b\"";
    /// `Mon, 28 Sep 1970 06:00:00 GMT`
    const MODIFIED: u64 = 23_349_600;
    const BEFORE: &str = "Mon, 28 Sep 1970 05:59:59 GMT";
    const EXACTLY: &str = "Mon, 28 Sep 1970 06:00:00 GMT";
    const AFTER: &str = "Monday, 28-Sep-70 06:00:01 GMT";

    fn verdict_at(lines: &str, modified: Option<u64>) -> Verdict {
        let head = format!("GET /files/a HTTP/1.1\r\n{lines}\r\n");
        let fields = Fields::parse(head.as_bytes()).expect("a head");
        evaluate(&fields, ETAG, modified)
    }

    fn verdict(lines: &str) -> Verdict {
        verdict_at(lines, Some(MODIFIED))
    }

    fn applies(lines: &str) -> bool {
        let head = format!("GET /files/a HTTP/1.1\r\n{lines}\r\n");
        let fields = Fields::parse(head.as_bytes()).expect("a head");
        range_applies(&fields, ETAG, Some(MODIFIED))
    }

    #[test]
    fn if_none_match_is_a_list_of_tags_of_either_strength() {
        for value in [
            "\"a,b\"",
            "W/\"a,b\"",
            "*",
            " * ",
            "\"x\", \"a,b\"",
            "\"x\",,\t\"a,b\", \"y\"",
            "\"x\" \"a,b\"",
            "\"x\"\r\nif-none-match: \"a,b\"",
        ] {
            let line = format!("If-None-Match: {value}\r\n");
            assert_eq!(verdict(&line), Verdict::NotModified, "{value}");
        }
        for value in [
            "",
            "a,b",
            "\"a\",\"b\"",
            "\"a,b",
            "w/\"a,b\"",
            "x, \"a,b\"",
            "W/a",
            "\"\"",
        ] {
            let line = format!("If-None-Match: {value}\r\n");
            assert_eq!(verdict(&line), Verdict::Proceed, "{value}");
        }
    }

    #[test]
    fn if_match_wants_a_strong_tag() {
        for (value, expected) in [
            ("\"a,b\"", Verdict::Proceed),
            ("*", Verdict::Proceed),
            ("W/\"a,b\"", Verdict::Failed),
            ("\"x\"", Verdict::Failed),
            ("nonsense", Verdict::Failed),
        ] {
            assert_eq!(
                verdict(&format!("If-Match: {value}\r\n")),
                expected,
                "{value}"
            );
        }
    }

    #[test]
    fn dates_compare_with_the_date_of_the_file() {
        for (date, is_modified_since) in [(BEFORE, true), (EXACTLY, false), (AFTER, false)] {
            let (since, unmodified) = if is_modified_since {
                (Verdict::Proceed, Verdict::Failed)
            } else {
                (Verdict::NotModified, Verdict::Proceed)
            };
            assert_eq!(verdict(&format!("If-Modified-Since: {date}\r\n")), since);
            let line = format!("If-Unmodified-Since: {date}\r\n");
            assert_eq!(verdict(&line), unmodified);
            assert_eq!(verdict_at(&line, None), Verdict::Proceed);
        }
    }

    #[test]
    fn malformed_dates_are_ignored() {
        for date in [
            "",
            "0",
            "yesterday",
            "Mon, 28 Sep 1969 06:00:00 GMT",
            "Sun, 99 Foo 1970 06:00:00 GMT",
        ] {
            for field in ["If-Modified-Since", "If-Unmodified-Since"] {
                let line = format!("{field}: {date}\r\n");
                assert_eq!(verdict(&line), Verdict::Proceed, "{line}");
            }
        }
        let twice = format!("If-Modified-Since: {EXACTLY}\r\n").repeat(2);
        assert_eq!(verdict(&twice), Verdict::Proceed);
    }

    #[test]
    fn tags_come_before_dates_and_if_match_before_if_none_match() {
        let cases = [
            (
                format!("If-None-Match: \"x\"\r\nIf-Modified-Since: {AFTER}\r\n"),
                Verdict::Proceed,
            ),
            (
                format!("If-Match: *\r\nIf-Unmodified-Since: {BEFORE}\r\n"),
                Verdict::Proceed,
            ),
            (
                "If-None-Match: *\r\nIf-Match: \"x\"\r\n".to_owned(),
                Verdict::Failed,
            ),
            (
                "If-None-Match: *\r\nIf-Match: *\r\n".to_owned(),
                Verdict::NotModified,
            ),
            (
                format!("If-Unmodified-Since: {AFTER}\r\nIf-None-Match: *\r\n"),
                Verdict::NotModified,
            ),
        ];
        for (lines, expected) in cases {
            assert_eq!(verdict(&lines), expected, "{lines}");
        }
    }

    #[test]
    fn if_range_is_a_strong_tag_or_the_date_of_the_file() {
        assert!(applies(""));
        for (value, expected) in [
            (ETAG, true),
            (" \"a,b\"\t", true),
            ("W/\"a,b\"", false),
            ("\"x\"", false),
            ("*", false),
            // This is one tag, not a list.
            ("\"a,b\", \"a,b\"", false),
            ("\"a,b\", \"x\"", false),
            ("\"a,b\",", false),
            (",\"a,b\"", false),
            ("\"a,b\" x", false),
            (BEFORE, false),
            (EXACTLY, true),
            (AFTER, false),
            ("nonsense", false),
            ("", false),
        ] {
            assert_eq!(
                applies(&format!("If-Range: {value}\r\n")),
                expected,
                "{value}"
            );
        }
        assert!(!applies(&"If-Range: \"a,b\"\r\n".repeat(2)));
    }
}
