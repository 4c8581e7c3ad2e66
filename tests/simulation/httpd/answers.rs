//! Parses the responses that a client has received.

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Answer {
    pub status: u16,
    pub body: Vec<u8>,
}

impl Answer {
    pub(crate) fn new(status: u16, body: impl Into<Vec<u8>>) -> Self {
        Self {
            status,
            body: body.into(),
        }
    }
}

/// The complete responses, in their order.
///
/// # Panics
///
/// If the bytes are not HTTP.
pub(crate) fn complete(mut bytes: &[u8]) -> Vec<Answer> {
    let mut answers = Vec::new();
    while let Some((answer, rest)) = first(bytes) {
        answers.push(answer);
        bytes = rest;
    }
    answers
}

/// The first response and the bytes after it, or `None` if it is incomplete.
fn first(bytes: &[u8]) -> Option<(Answer, &[u8])> {
    let mut headers = [httparse::EMPTY_HEADER; 16];
    let mut response = httparse::Response::new(&mut headers);
    let head = match response.parse(bytes).expect("valid HTTP") {
        httparse::Status::Complete(length) => length,
        httparse::Status::Partial => return None,
    };
    let header = |name| {
        let header = response.headers.iter().find(|header| header.name == name);
        let value = header.unwrap_or_else(|| panic!("no header {name}")).value;
        std::str::from_utf8(value).expect("text")
    };
    assert!(header("Date").ends_with(" GMT") && !header("Server").is_empty());
    let length: usize = header("Content-Length").parse().expect("a number");
    let body = bytes.get(head..head + length)?;
    let answer = Answer::new(response.code.expect("it is complete"), body);
    Some((answer, &bytes[head + length..]))
}
