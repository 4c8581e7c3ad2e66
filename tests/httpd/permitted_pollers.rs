//! The pollers that the running kernel permits.

use evcore_poller::{BackendKind, Error, Poller};
use evcore_tests::not_run;

/// Those of `names` that can be opened here. The others are reported as not run.
pub(crate) fn permitted<'a>(names: &[&'a str]) -> Vec<&'a str> {
    names
        .iter()
        .copied()
        .filter(|name| is_permitted(name))
        .collect()
}

fn is_permitted(name: &str) -> bool {
    let Ok(kind) = name.parse::<BackendKind>() else {
        // `auto`
        return true;
    };
    match Poller::with(kind) {
        Err(error @ Error::Os { .. }) if kind == BackendKind::IoUring => {
            not_run(&error.to_string());
            false
        }
        _ => true,
    }
}
