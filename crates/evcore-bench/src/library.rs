//! The libraries in C that this can be built with, each of which may be absent.

use crate::record;

/// Their names.
pub(crate) const NAMES: [&str; 3] = ["libev", "libevent", "libuv"];

/// Records the versions of the installed libraries, and the absence of others.
pub(crate) fn record_versions<'a>(here: impl IntoIterator<Item = (&'a str, &'a str)>) {
    let here: Vec<(&str, &str)> = here.into_iter().collect();
    for (name, version) in &here {
        record::version(name, version);
    }
    let is_here = |name: &str| here.iter().any(|(other, _)| *other == name);
    for name in NAMES.into_iter().filter(|name| !is_here(name)) {
        record::absent(name);
    }
}
