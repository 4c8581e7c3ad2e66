//! `/dashboard`: a page that draws `/status.json` live.
//!
//! The page is three files, because a strict `Content-Security-Policy` admits scripts and styles by
//! their address. Inline ones would need a hash that changes with every edit.

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Asset {
    Page,
    Script,
    Style,
}

/// The header lines of every file, each with a line end before it.
///
/// With `no-cache`, a page never runs the script of another version of the server. The policy lets
/// the page load nothing from elsewhere, and keeps it out of frames.
pub const HEADERS: &str = "\r\nCache-Control: no-cache\
    \r\nContent-Security-Policy: default-src 'none'; script-src 'self'; style-src 'self'; \
    connect-src 'self'; img-src data:; base-uri 'none'; form-action 'none'; frame-ancestors 'none'; \
    require-trusted-types-for 'script'; trusted-types 'none'\
    \r\nReferrer-Policy: no-referrer\
    \r\nX-Content-Type-Options: nosniff";

impl Asset {
    pub fn content_type(self) -> &'static str {
        match self {
            Self::Page => "text/html; charset=utf-8",
            Self::Script => "text/javascript; charset=utf-8",
            Self::Style => "text/css; charset=utf-8",
        }
    }

    pub fn content(self) -> &'static str {
        match self {
            Self::Page => include_str!("dashboard/dashboard.html"),
            Self::Script => include_str!("dashboard/dashboard.js"),
            Self::Style => include_str!("dashboard/dashboard.css"),
        }
    }
}
