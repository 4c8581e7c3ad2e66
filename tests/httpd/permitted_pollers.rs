//! The pollers that the running kernel permits.

use evcore_poller::BackendKind;
use evcore_tests::not_run;

/// Those of `names` that can be opened here. The others are reported as not run.
pub(crate) fn permitted<'a>(names: &[&'a str]) -> Vec<&'a str> {
    let usable = BackendKind::usable();
    let is_permitted = |name: &&str| match name.parse::<BackendKind>() {
        Ok(kind) => usable.contains(&kind),
        // `auto`
        Err(_) => true,
    };
    let (permitted, refused): (Vec<_>, Vec<_>) = names.iter().partition(|name| is_permitted(name));
    if !refused.is_empty() {
        not_run(&format!("this kernel refuses {refused:?}"));
    }
    permitted
}
