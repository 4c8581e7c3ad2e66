//! The dependencies that each crate may have.
//!
//! A dependency is decided by a word in the table; its reason stands in the manifests.

use cargo_metadata::DependencyKind;

use crate::Result;
use crate::tidy::error_of;
use crate::workspace::{Package, Workspace};

/// What each crate ships with, and what its tests and examples use beside `IN_TESTS`.
#[rustfmt::skip] // A table is read by its columns.
const ALLOWED: &[(&str, &str, &str)] = &[
    // The leaves: a user of one pulls in one.
    ("evcore-token", "slab", ""),
    ("evcore-clock", "jiff loom rustix", "jiff"),
    ("evcore-timer", "", ""),
    ("evcore-poller", "libc rustix thiserror", ""),
    ("evcore-posted", "loom parking_lot", ""),
    ("evcore-balancer", "rustix", ""),
    ("evcore-accept", "libc rustix thiserror", "mio"),
    ("evcore", "evcore-accept evcore-balancer evcore-clock evcore-poller evcore-posted \
                evcore-timer evcore-token hdrhistogram loom thiserror tracing", "rustls"),
    // The caller's hook ties it to the balancer.
    ("evcore-prefork", "libc loom rustix signal-hook thiserror", "evcore"),
    ("evcore-scheduler", "evcore-timer loom parking_lot", "croner jiff lexopt"),
    ("evcore-sim", "evcore", ""),
    // Not published.
    ("evcore-httpd", "evcore evcore-prefork httparse httpdate lexopt mime_guess rustix serde \
                      serde_json signal-hook tracing", ""),
    ("evcore-testing", "", ""),
    ("evcore-tests", ANY, ANY),
    ("evcore-bench", ANY, ANY),
    ("xtask", "cargo_metadata regex-lite", ""),
];

/// What the tests and examples of every crate may use.
const IN_TESTS: &str = "evcore-testing httpdate libc loom proptest rustix signal-hook";

/// The tests and the benchmarks of the whole may use anything.
const ANY: &str = "*";

pub(crate) fn check(workspace: &Workspace) -> Result {
    let mut wrong = Vec::new();
    for package in &workspace.packages {
        let (faults, path) = (against_table(package), &package.manifest_path);
        wrong.extend(faults.iter().map(|what| format!("{path}: {what}")));
    }
    error_of(&wrong)
}

/// The dependencies that the table does not have, or that are in the wrong form.
fn against_table(package: &Package) -> Vec<String> {
    let row = ALLOWED.iter().find(|(name, ..)| *name == package.name);
    let Some((_, ships, tests)) = row else {
        return vec!["it has no row in xtask/src/layers.rs".to_owned()];
    };
    let mut wrong = Vec::new();
    for dependency in &package.dependencies {
        let name = dependency.name.as_str();
        let is_dev = dependency.kind == DependencyKind::Development;
        let allowed = match is_dev {
            true => [*tests, IN_TESTS],
            false => [*ships, ""],
        };
        let mut words = allowed.iter().flat_map(|words| words.split_whitespace());
        if !words.any(|word| [ANY, name].contains(&word)) {
            wrong.push(format!("{name}: xtask/src/layers.rs does not allow it"));
        }
        let target = dependency.target.as_ref().map(ToString::to_string);
        if name == "loom" && !is_dev && target.as_deref() != Some("cfg(evcore_loom)") {
            wrong.push("put loom under [target.\"cfg(evcore_loom)\".dependencies]".to_owned());
        }
        // A version would have to be published before the crate that it tests.
        if is_dev && dependency.path.is_some() && !dependency.req.comparators.is_empty() {
            wrong.push(format!("{name}: name our dev-dependency by its path alone"));
        }
    }
    wrong
}

#[cfg(test)]
mod tests {
    use super::*;
    use DependencyKind::{Development, Normal};

    #[test]
    fn each_crate_has_only_the_dependencies_of_its_row() {
        let packages = crate::workspace::load().unwrap().packages;
        for (name, dependency, kind, count) in [
            ("evcore-timer", "evcore-token", Normal, 1),
            ("evcore", "evcore", Development, 1),
            ("evcore-token", "rustix", Normal, 1),
            ("evcore-token", "rustix", Development, 0),
            ("evcore-tests", "tokio", Normal, 0),
            ("evcore-new", "libc", Normal, 1),
        ] {
            let mut package = packages[0].clone();
            package.name = name.to_owned();
            let mut all = packages.iter().flat_map(|it| &it.dependencies);
            let found = all.find(|it| it.name == dependency && it.kind == kind);
            package.dependencies = vec![found.unwrap().clone()];
            let faults = against_table(&package);
            assert_eq!(faults.len(), count, "{name}: {faults:?}");
        }
    }
}
