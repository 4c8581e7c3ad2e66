//! Routing: from a request target to an endpoint.

use std::time::Duration;

/// An endpoint and its argument.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Route {
    Hello,
    Bytes(u64),
    Echo,
    Sleep(Duration),
    Block(Duration),
    Worker,
    Status,
    StatusJson,
}

/// The longest time for `/sleep` and `/block`: an hour.
const LONGEST_MS: u64 = 3_600_000;

/// Returns the route of a request target, or `None` for an unknown path.
///
/// A query is ignored. Of a target in absolute form (`http://host/path`), which proxies send, the path
/// is used.
pub fn route(target: &[u8]) -> Option<Route> {
    let path = path_of(target);
    match path {
        b"/" => return Some(Route::Hello),
        b"/echo" => return Some(Route::Echo),
        b"/worker" => return Some(Route::Worker),
        b"/status" => return Some(Route::Status),
        b"/status.json" => return Some(Route::StatusJson),
        _ => {}
    }
    let path = path.strip_prefix(b"/")?;
    let slash = path.iter().position(|byte| *byte == b'/')?;
    let number = whole_number(&path[slash + 1..])?;
    match &path[..slash] {
        b"bytes" => Some(Route::Bytes(number)),
        b"sleep" => delay(number).map(Route::Sleep),
        b"block" => delay(number).map(Route::Block),
        _ => None,
    }
}

impl Route {
    /// The allowed methods, as the `Allow` header lists them.
    pub fn allowed(self) -> &'static str {
        match self {
            Self::Echo => "POST",
            _ => "GET, HEAD",
        }
    }

    /// Whether the endpoint delays or blocks (`--no-delay-endpoints` disables it).
    pub fn delays(self) -> bool {
        matches!(self, Self::Sleep(_) | Self::Block(_))
    }

    /// Whether `method` is allowed.
    pub fn allows(self, method: &str) -> bool {
        match self {
            Self::Echo => method == "POST",
            _ => matches!(method, "GET" | "HEAD"),
        }
    }
}

fn path_of(target: &[u8]) -> &[u8] {
    let query = target.iter().position(|byte| *byte == b'?');
    let before_query = &target[..query.unwrap_or(target.len())];
    if before_query.starts_with(b"/") {
        return before_query;
    }
    let scheme = before_query.get(..7);
    if !scheme.is_some_and(|scheme| scheme.eq_ignore_ascii_case(b"http://")) {
        return before_query;
    }
    let rest = &before_query[7..];
    let slash = rest.iter().position(|byte| *byte == b'/');
    slash.map_or(b"/", |slash| &rest[slash..])
}

/// Parses digits only; `parse` alone would accept a sign.
fn whole_number(text: &[u8]) -> Option<u64> {
    let text = std::str::from_utf8(text).ok()?;
    text.bytes()
        .all(|byte| byte.is_ascii_digit())
        .then(|| text.parse().ok())?
}

fn delay(ms: u64) -> Option<Duration> {
    (ms <= LONGEST_MS).then(|| Duration::from_millis(ms))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_target_in_absolute_form_is_routed_by_its_path() {
        for (target, expected) in [
            ("http://host/echo", Some(Route::Echo)),
            ("HTTP://host:80/bytes/7?a=b", Some(Route::Bytes(7))),
            ("http://host", Some(Route::Hello)),
            ("http://host?a=/echo", Some(Route::Hello)),
            ("/echo?a=http://host/", Some(Route::Echo)),
            ("/http://host/echo", None),
            ("ftp://host/echo", None),
        ] {
            assert_eq!(route(target.as_bytes()), expected, "{target}");
        }
    }

    #[test]
    fn a_number_beyond_its_limit_is_no_route() {
        assert_eq!(
            route(b"/bytes/18446744073709551615"),
            Some(Route::Bytes(u64::MAX))
        );
        assert_eq!(route(b"/bytes/18446744073709551616"), None);
        assert_eq!(route(b"/sleep/3600001"), None);
    }
}
