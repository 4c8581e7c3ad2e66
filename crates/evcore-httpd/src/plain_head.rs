//! Request heads in the usual form: `GET`, HTTP/1.1, and only characters without a special meaning.
//!
//! Reading them takes a third of the instructions that httparse takes. Anything else is not plain,
//! whether it is another method, incomplete or invalid, and is left to httparse. So this code never
//! refuses a request.

/// A head in the usual form.
#[derive(Clone, Copy, Debug)]
pub struct PlainHead<'a> {
    pub target: &'a [u8],
    /// The header lines and the empty line, with what follows.
    rest: &'a [u8],
}

/// What comes next in a head.
#[derive(Clone, Copy, Debug)]
pub enum Next<'a> {
    /// A header with its value.
    Header(&'a [u8], &'a [u8]),
    /// The end, and the number of bytes after it.
    End(usize),
}

impl<'a> PlainHead<'a> {
    /// Reads the request line. `None` if it is not plain.
    #[inline]
    pub fn new(bytes: &'a [u8]) -> Option<Self> {
        let bytes = bytes.strip_prefix(b"GET ")?;
        let (target, rest) = bytes.split_at(prefix_of(&TARGET, bytes));
        let rest = rest.strip_prefix(b" HTTP/1.1\r\n")?;
        if target.is_empty() {
            return None;
        }
        Some(Self { target, rest })
    }

    /// Reads the next line. `None` if it is not plain.
    #[inline]
    pub fn next(&mut self) -> Option<Next<'a>> {
        if let Some(after) = self.rest.strip_prefix(b"\r\n") {
            return Some(Next::End(after.len()));
        }
        let (name, rest) = self.rest.split_at(prefix_of(&NAME, self.rest));
        let rest = rest.strip_prefix(b":")?;
        let rest = rest.strip_prefix(b" ").unwrap_or(rest);
        let (value, rest) = rest.split_at(visible_prefix(rest));
        // Spaces at the ends do not belong to a value.
        if name.is_empty() || value.first() == Some(&b' ') || value.last() == Some(&b' ') {
            return None;
        }
        self.rest = rest.strip_prefix(b"\r\n")?;
        Some(Next::Header(name, value))
    }
}

/// The characters of a target, and those of a header's name.
static TARGET: [bool; 256] = table(true, b"/-._~?=&%+:@,;!$'()*");
static NAME: [bool; 256] = table(true, b"-_");

/// For each byte, whether it is one of `others`, or if `alphanumeric`, a letter or a digit.
pub const fn table(alphanumeric: bool, others: &[u8]) -> [bool; 256] {
    let mut all = [false; 256];
    let mut byte = 0_u8;
    while byte < 128 {
        all[byte as usize] = alphanumeric && byte.is_ascii_alphanumeric();
        byte += 1;
    }
    let mut at = 0;
    while at < others.len() {
        all[others[at] as usize] = true;
        at += 1;
    }
    all
}

/// The number of bytes at the front that are in the table.
#[inline]
pub fn prefix_of(table: &[bool; 256], bytes: &[u8]) -> usize {
    let mut at = 0;
    while at < bytes.len() && table[usize::from(bytes[at])] {
        at += 1;
    }
    at
}

/// The number of bytes at the front that are visible ASCII or spaces, eight at a time.
#[inline]
fn visible_prefix(bytes: &[u8]) -> usize {
    const ONES: u64 = u64::from_le_bytes([1; 8]);
    let mut at = 0;
    while let Some(eight) = bytes[at..].first_chunk() {
        let word = u64::from_le_bytes(*eight);
        // The highest bit of each byte, exact up to the first byte that is not visible: a byte below
        // 0x20 borrows, 0x7f becomes 0x80, and a byte from 0x80 on has the bit.
        let others = (word.wrapping_sub(ONES * 0x20) & !word) | word.wrapping_add(ONES) | word;
        let others = others & (ONES << 7);
        if others != 0 {
            return at + others.trailing_zeros() as usize / 8;
        }
        at += 8;
    }
    let is_visible = |byte: &u8| (0x20..0x7f).contains(byte);
    let last = bytes[at..].iter().position(|byte| !is_visible(byte));
    last.map_or(bytes.len(), |n| at + n)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn the_visible_prefix_ends_at_the_first_other_byte(
            visible in prop::collection::vec(0x20_u8..0x7f, 0..40),
            others in prop::collection::vec(any::<u8>(), 0..20),
        ) {
            let bytes = [visible, others].concat();
            let first = bytes.iter().position(|byte| !(0x20..0x7f).contains(byte));
            prop_assert_eq!(visible_prefix(&bytes), first.unwrap_or(bytes.len()));
        }
    }
}
