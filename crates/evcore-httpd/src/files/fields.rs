//! The header fields of a request for a file: its conditions, and the range to send.
//!
//! For a request of a file, the head is parsed a second time to read these fields, so that they
//! cost requests for other routes nothing.

use crate::request::MAX_HEADERS;

/// The target and the fields. A field may have several lines.
#[derive(Debug, Default)]
pub struct Fields<'a> {
    /// The target of the request line.
    pub target: &'a str,
    /// The lines of `If-Match`.
    pub if_match: Vec<&'a [u8]>,
    /// The lines of `If-None-Match`.
    pub if_none_match: Vec<&'a [u8]>,
    if_modified_since: Vec<&'a [u8]>,
    if_unmodified_since: Vec<&'a [u8]>,
    if_range: Vec<&'a [u8]>,
    range: Vec<&'a [u8]>,
}

impl<'a> Fields<'a> {
    /// Parses a head. The result is `Some` for every request, because its head was parsed before.
    ///
    /// The version in the request line is skipped, because `httparse` accepts only some of the
    /// versions that the server accepts.
    pub fn parse(head: &'a [u8]) -> Option<Self> {
        let start = head
            .iter()
            .position(|byte| !matches!(byte, b'\r' | b'\n'))?;
        let end = start + head[start..].iter().position(|byte| *byte == b'\n')?;
        let target = head[start..end].split(|byte| *byte == b' ').nth(1)?;
        let mut headers = [httparse::EMPTY_HEADER; MAX_HEADERS];
        let (_, parsed) = match httparse::parse_headers(&head[end + 1..], &mut headers).ok()? {
            httparse::Status::Complete(parsed) => parsed,
            httparse::Status::Partial => return None,
        };
        let mut fields = Self {
            target: std::str::from_utf8(target).ok()?,
            ..Self::default()
        };
        for header in parsed {
            fields.add(header.name, header.value);
        }
        Some(fields)
    }

    fn add(&mut self, name: &str, value: &'a [u8]) {
        let is = |other| name.eq_ignore_ascii_case(other);
        let field = match name.len() {
            5 if is("range") => &mut self.range,
            8 if is("if-match") => &mut self.if_match,
            8 if is("if-range") => &mut self.if_range,
            13 if is("if-none-match") => &mut self.if_none_match,
            17 if is("if-modified-since") => &mut self.if_modified_since,
            19 if is("if-unmodified-since") => &mut self.if_unmodified_since,
            _ => return,
        };
        field.push(value);
    }

    /// The value of `If-Modified-Since`; `None` if there is not exactly one such line.
    pub fn if_modified_since(&self) -> Option<&'a [u8]> {
        single(&self.if_modified_since)
    }

    /// The value of `If-Unmodified-Since`; `None` if there is not exactly one such line.
    pub fn if_unmodified_since(&self) -> Option<&'a [u8]> {
        single(&self.if_unmodified_since)
    }

    /// The value of `If-Range`; `None` if there is no such line. Several lines count as an empty
    /// value, which matches no file.
    pub fn if_range(&self) -> Option<&'a [u8]> {
        let has_one = !self.if_range.is_empty();
        has_one.then(|| single(&self.if_range).unwrap_or_default())
    }

    /// The value of `Range`; `None` if there is not exactly one such line.
    pub fn range(&self) -> Option<&'a [u8]> {
        single(&self.range)
    }
}

fn single<'a>(values: &[&'a [u8]]) -> Option<&'a [u8]> {
    match values {
        [one] => Some(one),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn counts(head: &str) -> [usize; 6] {
        let fields = Fields::parse(head.as_bytes()).expect("a head");
        assert_eq!(fields.target, "/files/a?b");
        [
            &fields.if_match,
            &fields.if_none_match,
            &fields.if_modified_since,
            &fields.if_unmodified_since,
            &fields.if_range,
            &fields.range,
        ]
        .map(Vec::len)
    }

    #[test]
    fn each_field_is_read_by_its_name_alone() {
        let names = [
            "If-Match",
            "If-None-Match",
            "If-Modified-Since",
            "If-Unmodified-Since",
            "If-Range",
            "Range",
        ];
        for (at, name) in names.into_iter().enumerate() {
            let mut one = [0; 6];
            one[at] = 1;
            // Another field with a name of the same length changes nothing.
            let other = "x".repeat(name.len());
            for name in [name.to_owned(), name.to_uppercase(), name.to_lowercase()] {
                let head = format!("GET /files/a?b HTTP/1.1\r\n{other}: 1\r\n{name}: 2\r\n\r\n");
                assert_eq!(counts(&head), one, "{head}");
            }
        }
    }

    #[test]
    fn a_head_of_each_version_is_read() {
        for start in ["", "\r\n", "\n\r\n"] {
            for version in ["1.0", "1.1", "1.2", "1.9"] {
                let head = format!("{start}GET /files/a?b HTTP/{version}\r\nRange: 2\r\n\r\n");
                assert_eq!(counts(&head), [0, 0, 0, 0, 0, 1], "{head:?}");
            }
        }
        let bare = "GET /files/a?b HTTP/1.1\nRange: 2\n\n";
        assert_eq!(counts(bare), [0, 0, 0, 0, 0, 1]);
    }
}
