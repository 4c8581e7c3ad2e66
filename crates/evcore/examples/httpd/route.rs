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

    /// Whether it answers `method`.
    pub fn allows(self, method: &str) -> bool {
        match self {
            Self::Echo => method == "POST",
            _ => matches!(method, "GET" | "HEAD"),
        }
    }
}

fn path_of(target: &str) -> &str {
    let path = match target.strip_prefix("http://") {
        Some(rest) => rest.find('/').map_or("/", |slash| &rest[slash..]),
        None => target,
    };
    path.split_once('?').map_or(path, |(path, _)| path)
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
