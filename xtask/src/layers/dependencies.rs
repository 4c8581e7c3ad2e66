//! The rules about dependencies between crates.

use super::allowed_dependencies::{self, ONLY_IN_TESTS};
use crate::diagnostic::Diagnostic;
use crate::workspace::{Dependency, Package, Workspace};

/// What is wrong with the dependencies of a package.
pub(super) fn are_allowed(package: &Package, workspace: &Workspace) -> Vec<Diagnostic> {
    let what: Vec<String> = if allowed_dependencies::layer(&package.name).is_none() {
        vec![
            "no layer is decided for it; add it to xtask/src/layers/allowed_dependencies.rs"
                .to_owned(),
        ]
    } else {
        let dependencies = package.dependencies.iter();
        let wrong = dependencies.flat_map(|it| {
            let reasons = reasons_against(package, it, workspace);
            reasons.map(|reason| format!("{}: {reason}", it.name))
        });
        wrong.collect()
    };
    what.into_iter()
        .map(|what| Diagnostic::of(package.manifest_path(), what))
        .collect()
}

fn reasons_against(
    package: &Package,
    dependency: &Dependency,
    workspace: &Workspace,
) -> impl Iterator<Item = &'static str> {
    let (name, is_dev) = (dependency.name.as_str(), dependency.is_dev());
    let is_ours = allowed_dependencies::is_ours(name);
    let layer = allowed_dependencies::layer(&package.name).expect("its layer is decided");
    let ours = if is_dev { layer.dev } else { layer.normal };
    let for_tests =
        ONLY_IN_TESTS.contains(&name) || workspace.package(name).is_some_and(|it| !it.published);
    let is_behind_cfg = is_dev || dependency.target.as_deref() == Some("cfg(evcore_loom)");
    let rules = [
        (
            is_ours && !ours.holds(name),
            "the layers of ARCHITECTURE.md forbid it",
        ),
        (
            !is_ours && !allowed_dependencies::allows(&package.name, name, is_dev),
            "not allowed; if it must be used, say why in xtask/src/layers/allowed_dependencies.rs",
        ),
        (
            name == "loom" && !is_behind_cfg,
            "put loom under [target.\"cfg(evcore_loom)\".dependencies]",
        ),
        // A version would have to be published before the crate that it tests.
        (
            is_ours && is_dev && dependency.versioned,
            "name our dev-dependencies by their path alone, without a version",
        ),
        (
            package.published && !is_dev && for_tests,
            "it is for tests only, and this crate is published",
        ),
    ];
    rules
        .into_iter()
        .filter_map(|(breaks, what)| breaks.then_some(what))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn reported(name: &str, dependency: Dependency) -> usize {
        let tests = Package {
            published: false,
            ..Package::fake("evcore-tests")
        };
        let workspace = Workspace::fake(vec![tests]);
        let package = Package {
            published: name != "evcore-tests",
            ..Package::fake(name).needs(dependency)
        };
        are_allowed(&package, &workspace).len()
    }

    #[test]
    fn each_crate_uses_only_the_layers_below() {
        let (normal, dev) = (Dependency::normal, Dependency::dev);
        assert_eq!(reported("evcore-timer", normal("evcore-token")), 1);
        assert_eq!(reported("evcore-timer", dev("evcore-token")), 1);
        assert_eq!(reported("evcore", normal("evcore-token")), 0);
        assert_eq!(reported("evcore", normal("evcore-prefork")), 1);
        assert_eq!(reported("evcore", dev("evcore-prefork")), 1);
        assert_eq!(reported("evcore-prefork", dev("evcore")), 0);
        assert_eq!(reported("evcore-prefork", normal("evcore-balancer")), 1);
        assert_eq!(reported("evcore-new", normal("evcore-token")), 1);
    }

    #[test]
    fn crates_of_others_are_allowed_by_name() {
        assert_eq!(reported("evcore-token", Dependency::normal("rustix")), 1);
        assert_eq!(reported("evcore-token", Dependency::dev("serde")), 1);
        assert_eq!(reported("evcore-poller", Dependency::normal("rustix")), 0);
        assert_eq!(reported("evcore-tests", Dependency::normal("serde")), 0);
    }

    #[test]
    fn loom_tests_and_versions_stay_out_of_what_is_published() {
        let loom = Dependency::normal("loom");
        let behind = Dependency {
            target: Some("cfg(evcore_loom)".to_owned()),
            ..loom.clone()
        };
        assert_eq!(reported("evcore-posted", loom), 1);
        assert_eq!(reported("evcore-posted", behind), 0);
        let versioned = Dependency {
            versioned: true,
            ..Dependency::dev("evcore")
        };
        assert_eq!(reported("evcore-prefork", versioned), 1);
        // Also forbidden by the layers.
        assert_eq!(reported("evcore", Dependency::normal("evcore-tests")), 2);
        assert_eq!(reported("evcore", Dependency::dev("evcore-sim")), 1);
    }
}
