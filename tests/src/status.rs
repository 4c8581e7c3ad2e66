//! A parser of nginx's `stub_status`.

/// The numbers of `/status`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs, reason = "the words are those of the page")]
pub struct Status {
    pub active: u64,
    pub accepts: u64,
    pub handled: u64,
    pub requests: u64,
    pub reading: u64,
    pub writing: u64,
    pub waiting: u64,
}

impl Status {
    /// Parses the page.
    ///
    /// # Panics
    ///
    /// If the layout differs.
    #[must_use]
    pub fn parse(text: &str) -> Self {
        let lines: Vec<_> = text.lines().collect();
        assert_eq!(lines.len(), 4, "{text:?}");
        assert!(lines[0].starts_with("Active connections: "), "{text:?}");
        assert_eq!(lines[1], "server accepts handled requests", "{text:?}");
        let [active] = numbers(lines[0]);
        let [accepts, handled, requests] = numbers(lines[2]);
        let [reading, writing, waiting] = numbers(lines[3]);
        Self {
            active,
            accepts,
            handled,
            requests,
            reading,
            writing,
            waiting,
        }
    }
}

fn numbers<const N: usize>(line: &str) -> [u64; N] {
    let numbers: Vec<u64> = line
        .split(' ')
        .filter_map(|word| word.parse().ok())
        .collect();
    numbers
        .try_into()
        .unwrap_or_else(|_| panic!("not {N} numbers: {line:?}"))
}
