//! Routing: finds the endpoint of a request target.

use std::time::Duration;

use crate::dashboard::Asset;

/// An endpoint and its argument.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Route {
    Hello,
    Bytes(u64),
    Echo,
    Sleep(Duration),
    Block(Duration),
    Worker,
    /// `/files/`, with `--root`.
    Files,
    Status,
    StatusJson,
    HistoryJson,
    Metrics,
    Dashboard(Asset),
}

/// The methods that an endpoint, or the server as a whole, allows.
pub const METHODS: &str = "GET, HEAD, OPTIONS, POST";

/// The longest time for `/sleep` and `/block`: an hour.
const LONGEST_MS: u64 = 3_600_000;

/// Makes the routes whose path is fixed, and a list of all their paths.
macro_rules! fixed_paths {
    ($($path:literal => $route:expr,)*) => {
        /// The paths without an argument.
        #[cfg(test)]
        const FIXED_PATHS: &[&str] = &[$($path),*];

        fn fixed(path: &str) -> Option<Route> {
            match path {
                $($path => Some($route),)*
                _ => None,
            }
        }
    };
}

fixed_paths! {
    "/" => Route::Hello,
    "/echo" => Route::Echo,
    "/worker" => Route::Worker,
    "/status" => Route::Status,
    "/status.json" => Route::StatusJson,
    "/history.json" => Route::HistoryJson,
    "/metrics" => Route::Metrics,
    "/dashboard" => Route::Dashboard(Asset::Page),
    "/dashboard.js" => Route::Dashboard(Asset::Script),
    "/dashboard.css" => Route::Dashboard(Asset::Style),
}

/// Returns the route of a request target, or `None` for an unknown path.
///
/// A query is ignored. A target in absolute form (`http://host/path`), which proxies send, is
/// routed by its path.
pub fn route(target: &str) -> Option<Route> {
    let path = path_of(target);
    if let Some(route) = fixed(path) {
        return Some(route);
    }
    let (name, argument) = path.strip_prefix('/')?.split_once('/')?;
    if name == "files" {
        return Some(Route::Files);
    }
    let number = whole_number(argument)?;
    match name {
        "bytes" => Some(Route::Bytes(number)),
        "sleep" => delay(number).map(Route::Sleep),
        "block" => delay(number).map(Route::Block),
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

    /// Returns whether the endpoint delays or blocks (`--no-delay-endpoints` disables it).
    pub fn delays(self) -> bool {
        matches!(self, Self::Sleep(_) | Self::Block(_))
    }

    pub fn allows(self, method: &str) -> bool {
        match self {
            Self::Echo => method == "POST",
            _ => matches!(method, "GET" | "HEAD"),
        }
    }
}

pub fn path_of(target: &str) -> &str {
    // This runs for every request. So it compares bytes, and does not search for "://" in most
    // targets.
    let query = target.bytes().position(|byte| byte == b'?');
    let before_query = &target[..query.unwrap_or(target.len())];
    if before_query.starts_with('/') {
        return before_query;
    }
    match before_query.split_once("://") {
        // A target without a host is invalid (RFC 9110, section 4.2.1).
        Some((scheme, rest)) if scheme.eq_ignore_ascii_case("http") && !is_without_host(rest) => {
            rest.find('/').map_or("/", |slash| &rest[slash..])
        }
        _ => before_query,
    }
}

fn is_without_host(after_scheme: &str) -> bool {
    after_scheme.is_empty() || after_scheme.starts_with('/')
}

/// Parses decimal digits. Without the check, `parse` would accept a sign.
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
    use crate::options;

    fn path_in_help(route: Route) -> &'static str {
        match route {
            Route::Hello => "/",
            Route::Bytes(_) => "/bytes/N",
            Route::Echo => "/echo",
            Route::Sleep(_) => "/sleep/MS",
            Route::Block(_) => "/block/MS",
            Route::Worker => "/worker",
            Route::Files => "/files/NAME",
            Route::Status => "/status",
            Route::StatusJson => "/status.json",
            Route::HistoryJson => "/history.json",
            Route::Metrics => "/metrics",
            Route::Dashboard(Asset::Page) => "/dashboard",
            Route::Dashboard(Asset::Script) => "/dashboard.js",
            Route::Dashboard(Asset::Style) => "/dashboard.css",
        }
    }

    #[test]
    fn the_help_has_each_path_and_no_other() {
        let help = options::table().render_help().to_string();
        let (_, paths) = help.split_once("\nPaths: ").expect("the paths");
        let (paths, _) = paths.split_once("\n\n").expect("their end");
        let mut offered: Vec<_> = paths
            .split_whitespace()
            .filter(|word| word.starts_with('/'))
            .collect();
        for path in &offered {
            let (name, argument) = path.rsplit_once('/').expect("it begins with one");
            let target = match argument {
                "N" | "MS" => &format!("{name}/1"),
                _ => *path,
            };
            let route = route(target).expect("it is documented");
            assert_eq!(path_in_help(route), *path);
        }
        let arguments = ["/bytes/N", "/sleep/MS", "/block/MS", "/files/NAME"];
        let mut expected = [FIXED_PATHS, &arguments].concat();
        expected.sort_unstable();
        offered.sort_unstable();
        assert_eq!(offered, expected);
    }

    #[test]
    fn a_target_in_absolute_form_is_routed_by_its_path() {
        for (target, expected) in [
            ("http://host/echo", Some(Route::Echo)),
            ("HTTP://host:80/bytes/7?a=b", Some(Route::Bytes(7))),
            ("http://host", Some(Route::Hello)),
            ("http://host?a=/echo", Some(Route::Hello)),
            ("/echo?a=http://host/", Some(Route::Echo)),
            ("http://host/files/a", Some(Route::Files)),
            ("/files", None),
            ("/http://host/echo", None),
            ("ftp://host/echo", None),
            ("http://", None),
            ("http:///echo", None),
        ] {
            assert_eq!(route(target), expected, "{target}");
        }
    }

    #[test]
    fn a_number_beyond_its_limit_has_no_route() {
        assert_eq!(
            route("/bytes/18446744073709551615"),
            Some(Route::Bytes(u64::MAX))
        );
        assert_eq!(route("/bytes/18446744073709551616"), None);
        assert_eq!(route("/sleep/3600001"), None);
    }
}
