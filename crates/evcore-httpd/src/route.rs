//! From a path to what is asked for.

use std::time::Duration;

/// What a path names.
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

/// The longest that `/sleep` and `/block` may be asked for: an hour.
const LONGEST_MS: u64 = 3_600_000;

/// The route of a request's target, `None` where there is nothing.
///
/// A query is allowed and means nothing. A target in absolute form (`http://host/path`), as proxies
/// send it, is taken by its path.
pub fn route(target: &str) -> Option<Route> {
    let path = path_of(target);
    match path {
        "/" => return Some(Route::Hello),
        "/echo" => return Some(Route::Echo),
        "/worker" => return Some(Route::Worker),
        "/status" => return Some(Route::Status),
        "/status.json" => return Some(Route::StatusJson),
        _ => {}
    }
    let (name, argument) = path.strip_prefix('/')?.split_once('/')?;
    let number = whole_number(argument)?;
    match name {
        "bytes" => Some(Route::Bytes(number)),
        "sleep" => delay(number).map(Route::Sleep),
        "block" => delay(number).map(Route::Block),
        _ => None,
    }
}

impl Route {
    /// The methods that it answers, as the `Allow` header lists them.
    pub fn allowed(self) -> &'static str {
        match self {
            Self::Echo => "POST",
            _ => "GET, HEAD",
        }
    }

    /// Whether it is there to hold something up, which not every server wants to offer.
    pub fn delays(self) -> bool {
        matches!(self, Self::Sleep(_) | Self::Block(_))
    }

    /// Whether it answers `method`.
    pub fn allows(self, method: &str) -> bool {
        match self {
            Self::Echo => method == "POST",
            _ => matches!(method, "GET" | "HEAD"),
        }
    }
}

fn path_of(target: &str) -> &str {
    let (before_query, _) = target.split_once('?').unwrap_or((target, ""));
    match before_query.split_once("://") {
        Some((scheme, rest)) if scheme.eq_ignore_ascii_case("http") => {
            rest.find('/').map_or("/", |slash| &rest[slash..])
        }
        _ => before_query,
    }
}

/// Digits alone: `parse` would take a sign too.
fn whole_number(text: &str) -> Option<u64> {
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
    fn a_target_in_absolute_form_is_taken_by_its_path() {
        for (target, expected) in [
            ("http://host/echo", Some(Route::Echo)),
            ("HTTP://host:80/bytes/7?a=b", Some(Route::Bytes(7))),
            ("http://host", Some(Route::Hello)),
            ("http://host?a=/echo", Some(Route::Hello)),
            ("/echo?a=http://host/", Some(Route::Echo)),
            ("/http://host/echo", None),
            ("ftp://host/echo", None),
        ] {
            assert_eq!(route(target), expected, "{target}");
        }
    }

    #[test]
    fn numbers_are_taken_as_far_as_they_can_be_counted() {
        assert_eq!(
            route("/bytes/18446744073709551615"),
            Some(Route::Bytes(u64::MAX))
        );
        assert_eq!(route("/bytes/18446744073709551616"), None);
        assert_eq!(route("/sleep/3600001"), None);
    }
}
