//! Turns the path of a target into the name of a file.
//!
//! A name is relative to the root and has no `.`, no `..` and no empty component, so that each file
//! has one name. A path without such a name is answered with `404`:
//!
//! - `.` and `..`, plain or encoded (`%2e`), because a client resolves them before it sends a
//!   target;
//! - an empty component, as in `a//b`, and so an absolute name, as in `/files//etc/passwd`;
//! - an encoded slash (`%2f`), because it is not a separator, and a name cannot contain it;
//! - an encoded NUL (`%00`), and a `%` without two hexadecimal digits after it.
//!
//! A target is decoded once: `%252e` is the name `%2e`. Backslashes, trailing dots and all other
//! bytes are a part of the name.

/// Decodes the path of a target, without the route, into `name`. Returns whether the result is a
/// name.
///
/// A name that is empty or ends with `/` names a directory.
pub fn decode(encoded: &[u8], name: &mut Vec<u8>) -> bool {
    name.clear();
    let mut rest = encoded.iter();
    while let Some(&byte) = rest.next() {
        if byte != b'%' {
            name.push(byte);
            continue;
        }
        let digits = (
            rest.next().copied().and_then(hex),
            rest.next().copied().and_then(hex),
        );
        match digits {
            (Some(high), Some(low)) if !matches!(high << 4 | low, 0 | b'/') => {
                name.push(high << 4 | low);
            }
            _ => return false,
        }
    }
    has_plain_components(name)
}

fn hex(digit: u8) -> Option<u8> {
    let value = char::from(digit).to_digit(16)?;
    u8::try_from(value).ok()
}

/// Returns whether no component is empty, `.` or `..`. A `/` at the end begins no component.
fn has_plain_components(name: &[u8]) -> bool {
    let without_slash = name.strip_suffix(b"/").unwrap_or(name);
    let mut components = without_slash.split(|byte| *byte == b'/');
    name.is_empty() || components.all(|component| !matches!(component, b"" | b"." | b".."))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn decoded(encoded: &str) -> Option<String> {
        let mut name = b"of the request before".to_vec();
        decode(encoded.as_bytes(), &mut name)
            .then(|| String::from_utf8(name).expect("the cases are text"))
    }

    #[test]
    fn a_plain_path_is_its_name() {
        for path in [
            "a", "a/b.txt", "a/", "", "...", "a.", "a../b", ".a", "a\\..\\b", "~", "a b",
        ] {
            assert_eq!(decoded(path).as_deref(), Some(path));
        }
    }

    #[test]
    fn a_path_is_decoded_once() {
        for (path, name) in [
            ("%61%2Eb", "a.b"),
            ("a%20b", "a b"),
            ("%252e%252e/a", "%2e%2e/a"),
            ("%252f", "%2f"),
            ("%5c..%5c", "\\..\\"),
            ("a%0d%0ab", "a\r\nb"),
            ("%C3%a4", "\u{e4}"),
        ] {
            assert_eq!(decoded(path).as_deref(), Some(name), "{path}");
        }
    }

    #[test]
    fn a_path_without_a_name_is_refused() {
        for path in [
            "/",
            "//",
            "/etc/passwd",
            "a//b",
            "a//",
            ".",
            "..",
            "./a",
            "../a",
            "a/..",
            "a/../b",
            "a/.",
            "a/./",
            "a/../",
            "%2e",
            "%2e%2e/a",
            ".%2E/a",
            "%2e./",
            "a%2fb",
            "%2F",
            "..%2fa",
            "%00",
            "a%00.txt",
            "%",
            "a%",
            "a%2",
            "%zz",
            "%2g",
            "%+1",
            "%%",
        ] {
            assert_eq!(decoded(path), None, "{path}");
        }
    }
}
