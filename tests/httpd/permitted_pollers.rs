//! The pollers that the running kernel permits.

use evcore_poller::BackendKind;
use evcore_tests::is_permitted;

/// Returns the pollers among `names` that the kernel permits, and reports the others as not run.
pub(crate) fn permitted<'a>(names: &[&'a str]) -> Vec<&'a str> {
    let is_permitted = |name: &&&str| match name.parse::<BackendKind>() {
        _ if **name == "auto" => true,
        Ok(kind) => is_permitted(kind),
        Err(error) => panic!("{error}"),
    };
    names.iter().filter(is_permitted).copied().collect()
}
