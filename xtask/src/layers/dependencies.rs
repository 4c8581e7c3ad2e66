//! The rules about dependencies between crates.

use super::allowed_dependencies::{self, ONLY_IN_TESTS};
use crate::diagnostic::Diagnostic;
use crate::workspace::{Dependency, Package, Workspace};

/// Our crates depend on each other only downwards.
pub(super) fn ours_follow_the_layers(package: &Package) -> Vec<Diagnostic> {
    let Some(layer) = allowed_dependencies::layer(&package.name) else {
        let what = format!(
            "no layer is decided for {}; add it to xtask/src/layers/table.rs",
            package.name
        );
        return vec![Diagnostic::of(package.manifest_path(), what)];
    };
    let allows = |dependency: &&Dependency| {
        let ours = if dependency.is_dev() {
            layer.dev
        } else {
            layer.normal
        };
        ours.holds(&dependency.name)
    };
    let ours = package
        .dependencies
        .iter()
        .filter(|d| allowed_dependencies::is_ours(&d.name));
    ours.filter(|dependency| !allows(dependency))
        .map(|dependency| {
            let what = format!(
                "{} may not depend on {}: the layers of ARCHITECTURE.md forbid it",
                package.name, dependency.name
            );
            Diagnostic::of(package.manifest_path(), what)
        })
        .collect()
}

/// A crate of others is used only by the crates that the table names.
pub(super) fn others_are_allowed_by_name(package: &Package) -> Vec<Diagnostic> {
    let others = package
        .dependencies
        .iter()
        .filter(|d| !allowed_dependencies::is_ours(&d.name));
    others
        .filter(|other| !allowed_dependencies::allows(&package.name, &other.name, other.is_dev()))
        .map(|other| {
            let what = format!(
                "{} is not allowed to use {}; if it must, say why in xtask/src/layers/table.rs",
                package.name, other.name
            );
            Diagnostic::of(package.manifest_path(), what)
        })
        .collect()
}

/// loom is never built for a user of the crate.
pub(super) fn loom_stays_behind_its_cfg(package: &Package) -> Vec<Diagnostic> {
    let behind =
        |loom: &&Dependency| loom.is_dev() || loom.target.as_deref() == Some("cfg(evcore_loom)");
    let looms = package.dependencies.iter().filter(|d| d.name == "loom");
    looms
        .filter(|loom| !behind(loom))
        .map(|_| {
            let what = "put loom under [target.\"cfg(evcore_loom)\".dependencies]";
            Diagnostic::of(package.manifest_path(), what)
        })
        .collect()
}

/// A version would have to be published before the crate that it tests.
pub(super) fn our_dev_dependencies_are_paths_alone(package: &Package) -> Vec<Diagnostic> {
    let ours = package
        .dependencies
        .iter()
        .filter(|d| allowed_dependencies::is_ours(&d.name));
    ours.filter(|dependency| dependency.is_dev() && dependency.versioned)
        .map(|dependency| {
            let what = format!(
                "name the dev-dependency {} by its path alone, without `workspace` or a version",
                dependency.name
            );
            Diagnostic::of(package.manifest_path(), what)
        })
        .collect()
}

/// What is published can be built from what is published, and without the tests' crates.
pub(super) fn nothing_published_needs_the_unpublished(workspace: &Workspace) -> Vec<Diagnostic> {
    let unpublished = |name: &str| workspace.package(name).is_some_and(|p| !p.published);
    let mut diagnostics = Vec::new();
    for package in workspace.published() {
        let shipped = package.dependencies.iter().filter(|d| !d.is_dev());
        for dependency in shipped {
            let name = dependency.name.as_str();
            if unpublished(name) || ONLY_IN_TESTS.contains(&name) {
                let what = format!("{} is published, {name} is for tests only", package.name);
                diagnostics.push(Diagnostic::of(package.manifest_path(), what));
            }
        }
    }
    diagnostics
}

#[cfg(test)]
mod tests {
    use super::*;

    fn fake(name: &str, dependency: Dependency) -> Package {
        Package::fake(name).needs(dependency)
    }

    fn breaks_layers(name: &str, dependency: Dependency) -> bool {
        !ours_follow_the_layers(&fake(name, dependency)).is_empty()
    }

    #[test]
    fn a_leaf_may_use_none_of_ours_not_even_in_tests() {
        assert!(breaks_layers(
            "evcore-timer",
            Dependency::normal("evcore-token")
        ));
        assert!(breaks_layers(
            "evcore-timer",
            Dependency::dev("evcore-token")
        ));
        assert!(!breaks_layers("evcore-timer", Dependency::normal("rustix")));
    }

    #[test]
    fn the_facade_may_use_the_leaves_only() {
        assert!(!breaks_layers("evcore", Dependency::normal("evcore-token")));
        assert!(breaks_layers(
            "evcore",
            Dependency::normal("evcore-prefork")
        ));
        assert!(!breaks_layers("evcore", Dependency::dev("evcore-prefork")));
    }

    #[test]
    fn prefork_ships_with_none_of_ours() {
        let on_balancer = Dependency::normal("evcore-balancer");
        assert!(breaks_layers("evcore-prefork", on_balancer));
    }

    #[test]
    fn a_crate_without_a_layer_is_reported() {
        assert!(!ours_follow_the_layers(&Package::fake("evcore-new")).is_empty());
    }

    #[test]
    fn a_dependency_that_no_line_allows_is_reported() {
        let diagnostics = |name, d| others_are_allowed_by_name(&fake(name, d)).len();
        assert_eq!(diagnostics("evcore-token", Dependency::normal("rustix")), 1);
        assert_eq!(diagnostics("evcore-token", Dependency::dev("serde")), 1);
        assert_eq!(
            diagnostics("evcore-poller", Dependency::normal("rustix")),
            0
        );
        assert_eq!(diagnostics("evcore-tests", Dependency::normal("serde")), 0);
    }

    #[test]
    fn loom_outside_its_cfg_is_reported() {
        let loom = Dependency::normal("loom");
        let behind = Dependency {
            target: Some("cfg(evcore_loom)".to_owned()),
            ..loom.clone()
        };
        assert_eq!(
            loom_stays_behind_its_cfg(&fake("evcore-posted", loom)).len(),
            1
        );
        assert!(loom_stays_behind_its_cfg(&fake("evcore-posted", behind)).is_empty());
    }

    #[test]
    fn a_versioned_dev_dependency_on_ours_is_reported() {
        let path_alone = Dependency::dev("evcore-prefork");
        let versioned = Dependency {
            versioned: true,
            ..path_alone.clone()
        };
        let diagnostics = |d| our_dev_dependencies_are_paths_alone(&fake("evcore", d)).len();
        assert_eq!(diagnostics(versioned), 1);
        assert_eq!(diagnostics(path_alone), 0);
    }

    #[test]
    fn what_is_published_needs_nothing_that_only_tests_have() {
        let diagnostics = |dependency: Dependency| {
            let tests = Package {
                published: false,
                ..Package::fake("evcore-tests")
            };
            let packages = vec![tests, fake("evcore", dependency)];
            nothing_published_needs_the_unpublished(&Workspace::fake(packages)).len()
        };
        assert_eq!(diagnostics(Dependency::normal("evcore-tests")), 1);
        assert_eq!(diagnostics(Dependency::normal("evcore-sim")), 1);
        assert_eq!(diagnostics(Dependency::dev("evcore-sim")), 0);
        assert_eq!(diagnostics(Dependency::normal("evcore-token")), 0);
    }
}
