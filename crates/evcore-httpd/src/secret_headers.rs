//! Blanks the values of headers that hold secrets, in the recorded bytes of requests.

const SECRET: [&[u8]; 3] = [b"authorization:", b"cookie:", b"proxy-authorization:"];

const LONGEST: usize = 20;

/// Blanks the secrets of one connection, whose bytes may come in pieces of any size.
///
/// A line of a body that looks like such a header is blanked, too. So are a malformed header with
/// white space before its colon, and a value that continues on the next line. The server refuses
/// requests with these two, but their bytes are recorded.
#[derive(Debug, Default)]
pub struct SecretHeaders {
    /// The beginning of the present line, in lower case and without white space.
    line: Vec<u8>,
    is_in_value: bool,
    /// True if the line before ended within a value. If the present line begins with white space,
    /// it continues the value.
    may_continue: bool,
}

impl SecretHeaders {
    /// Replaces each byte of a secret by `x`.
    pub fn blank(&mut self, bytes: &mut [u8]) {
        for byte in bytes {
            match *byte {
                b'\n' => {
                    *self = Self {
                        may_continue: self.is_in_value,
                        ..Self::default()
                    }
                }
                b'\r' => {}
                // A control character stays, so that the request is refused in the replay, too.
                _ if self.is_in_value && byte.is_ascii_control() => {}
                _ if self.is_in_value => *byte = b'x',
                b' ' | b'\t' => self.is_in_value = self.may_continue,
                name => {
                    self.may_continue = false;
                    if self.line.len() < LONGEST {
                        self.line.push(name.to_ascii_lowercase());
                        self.is_in_value = SECRET.contains(&&self.line[..]);
                    }
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const REQUEST: &str = "GET / HTTP/1.1\r\nHost: a\r\nAuthorization: Basic c2VjcmV0\r\n\
        X-Cookie: kept\r\nCOOKIE:a=b\nProxy-Authorization: y\r\n z\r\n  zz\r\nAccept: a\r\n cookie: s\r\n\
        Authorization\t : s\r\n\r\nGET /cookie: HTTP/1.1\r\n\r\n";
    const BLANKED: &str = "GET / HTTP/1.1\r\nHost: a\r\nAuthorization:xxxxxxxxxxxxxxx\r\n\
        X-Cookie: kept\r\nCOOKIE:xxx\nProxy-Authorization:xx\r\n x\r\n xxx\r\nAccept: a\r\n cookie:xx\r\n\
        Authorization\t :xx\r\n\r\nGET /cookie: HTTP/1.1\r\n\r\n";

    #[test]
    fn the_longest_name_fits() {
        assert_eq!(SECRET.iter().map(|name| name.len()).max(), Some(LONGEST));
    }

    proptest! {
        #[test]
        fn secrets_are_blanked_in_whatever_pieces_they_come(
            cuts in prop::collection::vec(0..REQUEST.len(), 0..8),
        ) {
            let mut cuts = cuts;
            cuts.extend([0, REQUEST.len()]);
            cuts.sort_unstable();
            let (mut headers, mut all) = (SecretHeaders::default(), Vec::new());
            for piece in cuts.windows(2) {
                let mut piece = REQUEST.as_bytes()[piece[0]..piece[1]].to_vec();
                headers.blank(&mut piece);
                all.extend(piece);
            }
            prop_assert_eq!(String::from_utf8_lossy(&all), BLANKED);
        }
    }
}
