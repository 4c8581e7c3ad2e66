//! The rules of who may depend on whom.

use super::table::{self, ONLY_IN_TESTS};
use crate::fault::Fault;
use crate::workspace::{Dependency, Package, Workspace};

/// Our crates depend on each other only downwards.
pub(super) fn ours_follow_the_layers(package: &Package) -> Vec<Fault> {
    let Some(layer) = table::layer(&package.name) else {
        let what = format!(
            "no layer is decided for {}; add it to xtask/src/layers/table.rs",
            package.name
        );
        return vec![Fault::of(package.manifest_path(), what)];
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
        .filter(|d| table::is_ours(&d.name));
    ours.filter(|dependency| !allows(dependency))
        .map(|dependency| {
            let what = format!(
                "{} may not depend on {}: the layers of ARCHITECTURE.md forbid it",
                package.name, dependency.name
            );
            Fault::of(package.manifest_path(), what)
        })
        .collect()
}

/// Crates of others are used only by those whom the table names.
pub(super) fn others_are_allowed_by_name(package: &Package) -> Vec<Fault> {
    let others = package
        .dependencies
        .iter()
        .filter(|d| !table::is_ours(&d.name));
    others
        .filter(|other| !table::allows(&package.name, &other.name, other.is_dev()))
        .map(|other| {
            let what = format!(
                "{} is not allowed to use {}; if it must, say why in xtask/src/layers/table.rs",
                package.name, other.name
            );
            Fault::of(package.manifest_path(), what)
        })
        .collect()
}

/// loom is never built for a user of the crate.
pub(super) fn loom_stays_behind_its_cfg(package: &Package) -> Vec<Fault> {
    let behind =
        |loom: &&Dependency| loom.is_dev() || loom.target.as_deref() == Some("cfg(evcore_loom)");
    let looms = package.dependencies.iter().filter(|d| d.name == "loom");
    looms
        .filter(|loom| !behind(loom))
        .map(|_| {
            let what = "put loom under [target.\"cfg(evcore_loom)\".dependencies]";
            Fault::of(package.manifest_path(), what)
        })
        .collect()
}

/// A version would have to be published before the crate that it tests.
pub(super) fn our_dev_dependencies_are_paths_alone(package: &Package) -> Vec<Fault> {
    let ours = package
        .dependencies
        .iter()
        .filter(|d| table::is_ours(&d.name));
    ours.filter(|dependency| dependency.is_dev() && dependency.versioned)
        .map(|dependency| {
            let what = format!(
                "name the dev-dependency {} by its path alone, without `workspace` or a version",
                dependency.name
            );
            Fault::of(package.manifest_path(), what)
        })
        .collect()
}

/// What is published can be built from what is published, and without the tests' crates.
pub(super) fn nothing_published_needs_the_unpublished(workspace: &Workspace) -> Vec<Fault> {
    let unpublished = |name: &str| workspace.package(name).is_some_and(|p| !p.published);
    let mut faults = Vec::new();
    for package in workspace.published() {
        let shipped = package.dependencies.iter().filter(|d| !d.is_dev());
        for dependency in shipped {
            let name = dependency.name.as_str();
            if unpublished(name) || ONLY_IN_TESTS.contains(&name) {
                let what = format!("{} is published, {name} is for tests only", package.name);
                faults.push(Fault::of(package.manifest_path(), what));
            }
        }
    }
    faults
}

#[cfg(test)]
mod tests {
    use super::*;

    fn made_up(name: &str, dependency: Dependency) -> Package {
        Package::made_up(name).needs(dependency)
    }

    fn breaks_layers(name: &str, dependency: Dependency) -> bool {
        !ours_follow_the_layers(&made_up(name, dependency)).is_empty()
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
    fn a_crate_without_a_layer_is_a_fault() {
        assert!(!ours_follow_the_layers(&Package::made_up("evcore-new")).is_empty());
    }

    #[test]
    fn a_dependency_that_no_line_allows_is_a_fault() {
        let faults = |name, d| others_are_allowed_by_name(&made_up(name, d)).len();
        assert_eq!(faults("evcore-token", Dependency::normal("rustix")), 1);
        assert_eq!(faults("evcore-token", Dependency::dev("serde")), 1);
        assert_eq!(faults("evcore-poller", Dependency::normal("rustix")), 0);
        assert_eq!(faults("evcore-tests", Dependency::normal("serde")), 0);
    }

    #[test]
    fn loom_outside_its_cfg_is_a_fault() {
        let loom = Dependency::normal("loom");
        let behind = Dependency {
            target: Some("cfg(evcore_loom)".to_owned()),
            ..loom.clone()
        };
        assert_eq!(
            loom_stays_behind_its_cfg(&made_up("evcore-posted", loom)).len(),
            1
        );
        assert!(loom_stays_behind_its_cfg(&made_up("evcore-posted", behind)).is_empty());
    }

    #[test]
    fn a_versioned_dev_dependency_on_ours_is_a_fault() {
        let path_alone = Dependency::dev("evcore-prefork");
        let versioned = Dependency {
            versioned: true,
            ..path_alone.clone()
        };
        let faults = |d| our_dev_dependencies_are_paths_alone(&made_up("evcore", d)).len();
        assert_eq!(faults(versioned), 1);
        assert_eq!(faults(path_alone), 0);
    }

    #[test]
    fn what_is_published_needs_nothing_that_only_tests_have() {
        let faults = |dependency: Dependency| {
            let tests = Package {
                published: false,
                ..Package::made_up("evcore-tests")
            };
            let packages = vec![tests, made_up("evcore", dependency)];
            nothing_published_needs_the_unpublished(&Workspace::made_up(packages)).len()
        };
        assert_eq!(faults(Dependency::normal("evcore-tests")), 1);
        assert_eq!(faults(Dependency::normal("evcore-sim")), 1);
        assert_eq!(faults(Dependency::dev("evcore-sim")), 0);
        assert_eq!(faults(Dependency::normal("evcore-token")), 0);
    }
}
