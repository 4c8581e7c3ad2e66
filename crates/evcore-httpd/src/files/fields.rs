//! The header fields of a request that decide what is sent of a file.
//!
//! They are read from the bytes of the head, a second time: so requests for other routes do nothing
//! for them.

use std::mem::MaybeUninit;

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
    /// Reads a head that was parsed before, so it fails for no request.
    pub fn parse(head: &'a [u8]) -> Option<Self> {
        let mut headers = [const { MaybeUninit::uninit() }; MAX_HEADERS];
        let mut parsed = httparse::Request::new(&mut []);
        httparse::ParserConfig::default()
            .parse_request_with_uninit_headers(&mut parsed, head, &mut headers)
            .ok()?;
        let mut fields = Self {
            target: parsed.path?,
            ..Self::default()
        };
        for header in parsed.headers {
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

    /// `If-Modified-Since`; `None` without it or with several.
    pub fn if_modified_since(&self) -> Option<&'a [u8]> {
        single(&self.if_modified_since)
    }

    /// `If-Unmodified-Since`; `None` without it or with several.
    pub fn if_unmodified_since(&self) -> Option<&'a [u8]> {
        single(&self.if_unmodified_since)
    }

    /// `If-Range`: `None` without it. Several are an empty one, which is never true.
    pub fn if_range(&self) -> Option<&'a [u8]> {
        let has_one = !self.if_range.is_empty();
        has_one.then(|| single(&self.if_range).unwrap_or_default())
    }

    /// `Range`; `None` without it or with several.
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
