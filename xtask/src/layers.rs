//! The dependencies that each crate may ship with.
//!
//! Each word in the second column of the table allows one dependency.

use cargo_metadata::{Dependency, DependencyKind};

use crate::Result;
use crate::tidy::error_of;
use crate::workspace::{Package, Workspace, is_published};

/// Crates that are not published and have no row may use anything.
#[rustfmt::skip] // A table is read by its columns.
pub(crate) const SHIPS: &[(&str, &str)] = &[
    // The leaves: each can be used without the others.
    ("evcore-token", "slab"),
    ("evcore-clock", "jiff rustix"),
    ("evcore-timer", ""),
    ("evcore-poller", "bitflags libc rustix thiserror"),
    ("evcore-posted", "parking_lot"),
    ("evcore-pool", ""),
    ("evcore-instrument", "hdrhistogram"),
    ("evcore-balancer", "rustix"),
    ("evcore-net", "libc rustix thiserror"),
    ("evcore-handover", "rustix"),
    ("evcore", "evcore-net evcore-balancer evcore-clock evcore-instrument evcore-poller \
                evcore-pool evcore-posted evcore-timer evcore-token thiserror tracing"),
    ("evcore-prefork", "libc rustix signal-hook thiserror"),
    ("evcore-scheduler", "evcore-timer parking_lot"),
    ("evcore-async", "evcore evcore-serve futures-io hyper pin-project-lite scoped-tls-hkt send_wrapper \
                      signal-hook thiserror tokio"),
    ("evcore-serve", "evcore evcore-handover evcore-prefork ipnet proxy-header rustix \
                      sd-notify"),
    ("evcore-sim", "evcore evcore-handover"),
    ("evcore-recording", "crc32fast evcore memmap2 rustix serde serde_json thiserror"),
    // These are not published.
    ("evcore-httpd", "clap evcore evcore-recording evcore-serve evcore-sim httparse httpdate \
                      mime_guess rustix serde serde_json signal-hook tracing"),
];

/// Crates of the workspace that only a crate's tests and examples use. Manifests name them by path
/// alone, because with a version they would have to be published before the crate that they test.
const IN_TESTS: &[(&str, &str)] = &[
    ("*", "evcore-testing"),
    ("evcore-async", "evcore-sim"),
    ("evcore-prefork", "evcore-handover"),
    ("evcore-recording", "evcore-sim"),
];

pub(crate) fn check(workspace: &Workspace) -> Result {
    let faults = workspace.packages.iter().flat_map(faults);
    error_of(&faults.collect::<Vec<_>>())
}

fn faults(package: &Package) -> Vec<String> {
    let (name, row) = (&package.name, "in xtask/src/layers.rs");
    let Some((_, ships)) = SHIPS.iter().find(|(row, _)| row == name) else {
        let missing = is_published(package).then(|| format!("{name}: it has no row {row}"));
        return missing.into_iter().collect();
    };
    let wrong = package
        .dependencies
        .iter()
        .filter(|dependency| match dependency.kind {
            DependencyKind::Development => !may_test(name, dependency),
            _ if dependency.name == "loom" && is_for_loom(dependency) => false,
            _ => !ships.split_whitespace().any(|word| word == dependency.name),
        });
    let wrong = wrong.map(|dependency| {
        format!(
            "{name}: {} is not allowed {row}, or has a version",
            dependency.name
        )
    });
    wrong.collect()
}

fn is_for_loom(dependency: &Dependency) -> bool {
    let target = dependency.target.as_ref();
    target.is_some_and(|target| target.to_string() == "cfg(evcore_loom)")
}

fn may_test(name: &str, dependency: &Dependency) -> bool {
    let is_allowed = |row: &(&str, &str)| ["*", name].contains(&row.0) && row.1 == dependency.name;
    let is_path_alone = dependency.req.comparators.is_empty();
    dependency.path.is_none() || (is_path_alone && IN_TESTS.iter().any(is_allowed))
}

#[test]
fn each_crate_has_only_the_dependencies_of_its_row() {
    let packages = crate::workspace::load().unwrap().packages;
    let all = || packages.iter().flat_map(|package| &package.dependencies);
    for (name, dependency, kind, count) in [
        ("evcore-timer", "evcore-token", DependencyKind::Normal, 1),
        ("evcore-token", "evcore", DependencyKind::Development, 1),
        ("evcore-token", "rustix", DependencyKind::Normal, 1),
        ("evcore-token", "rustix", DependencyKind::Development, 0),
        ("evcore-new", "slab", DependencyKind::Normal, 1),
    ] {
        let mut package = packages[0].clone();
        package.name = name.to_owned();
        let found = all().find(|used| used.name == dependency && used.kind == kind);
        package.dependencies = vec![found.unwrap().clone()];
        let faults = faults(&package);
        assert_eq!(faults.len(), count, "{name}: {faults:?}");
    }
}
