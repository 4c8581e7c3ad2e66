//! Validation of `Host`: `uri-host [ ":" port ]` (RFC 9110, section 7.2).

use std::net::Ipv6Addr;

/// Returns whether `value` is a name, an address or empty, optionally with a port (RFC 3986,
/// section 3.2.2).
pub fn is_host(value: &[u8]) -> bool {
    match value.strip_prefix(b"[") {
        Some(rest) => {
            let end = rest.iter().position(|byte| *byte == b']');
            end.is_some_and(|end| is_ip_literal(&rest[..end]) && is_port(&rest[end + 1..]))
        }
        None => is_port(after_name(value)),
    }
}

fn is_port(bytes: &[u8]) -> bool {
    match bytes.split_first() {
        None => true,
        Some((first, digits)) => *first == b':' && digits.iter().all(u8::is_ascii_digit),
    }
}

/// Returns whether the text in brackets is an IPv6 address, or an address of a future version.
fn is_ip_literal(bytes: &[u8]) -> bool {
    let Ok(text) = std::str::from_utf8(bytes) else {
        return false;
    };
    text.parse::<Ipv6Addr>().is_ok() || text.strip_prefix(['v', 'V']).is_some_and(is_future_address)
}

fn is_future_address(text: &str) -> bool {
    let Some((version, address)) = text.split_once('.') else {
        return false;
    };
    let is_version = !version.is_empty() && version.bytes().all(|byte| byte.is_ascii_hexdigit());
    let mut bytes = address.bytes();
    is_version && !address.is_empty() && bytes.all(|byte| is_plain(byte) || byte == b':')
}

/// Returns the text after the `reg-name` at the front, which may be empty. An IPv4 address is such
/// a name.
fn after_name(bytes: &[u8]) -> &[u8] {
    let mut rest = bytes;
    loop {
        let plain = rest.iter().position(|byte| !is_plain(*byte));
        rest = &rest[plain.unwrap_or(rest.len())..];
        match rest {
            [b'%', high, low, after @ ..]
                if [high, low].iter().all(|digit| digit.is_ascii_hexdigit()) =>
            {
                rest = after;
            }
            _ => return rest,
        }
    }
}

/// Returns whether the byte is `unreserved` or one of the `sub-delims`.
fn is_plain(byte: u8) -> bool {
    // Checked first because most bytes are lower-case letters.
    byte.is_ascii_lowercase()
        || matches!(byte, b'A'..=b'Z' | b'0'..=b'9' | b'-' | b'.' | b'_' | b'~' | b'!' | b'$' | b'&'
            | b'\'' | b'(' | b')' | b'*' | b'+' | b',' | b';' | b'=')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_and_addresses_are_hosts_with_or_without_a_port() {
        for host in [
            "",
            "a",
            "example.com",
            "EXAMPLE.com.",
            "a_b-c~d",
            "a%20b",
            "a,b",
            "127.0.0.1",
            "[::1]",
            "[::ffff:127.0.0.1]",
            "[v1.a:b]",
        ] {
            for port in ["", ":", ":80", ":99999"] {
                let value = format!("{host}{port}");
                assert!(is_host(value.as_bytes()), "{value:?}");
            }
        }
    }

    #[test]
    fn a_value_with_other_characters_is_not_a_host() {
        for value in [
            "a b",
            "a/b",
            "a, b",
            "a\tb",
            "a?b",
            "a#b",
            "a@b",
            "a\\b",
            "a\"b",
            "<a>",
            "a|b",
            "a%2",
            "a%zz",
            "%",
            "a:b",
            "a:80:80",
            "a:-1",
            "::1",
            "[::1",
            "[",
            "[]",
            "[a]",
            "::1]",
            "[::1]a",
            "[::1]80",
            "[::1%eth0]",
            "[v.a]",
            "[v1.]",
            "[1.a]",
            "a[::1]",
            "\u{e4}",
        ] {
            assert!(!is_host(value.as_bytes()), "{value:?}");
        }
        assert!(!is_host(b"\xff") && !is_host(b"[\xff]"));
    }
}
