//! All that a change must pass, on a machine with only the Rust toolchain.
//!
//! The cheap and most telling parts come first, so that most faults show in
//! seconds. Each crate is also built and tested by itself: in one build for
//! all, a crate would get the features that its neighbours ask for, and one
//! that cannot do without them would go unnoticed.

use crate::command::CommandLine;
use crate::part::{self, Part};
use crate::tree::Tree;
use crate::workspace::{Package, Workspace};
use crate::{Result, compat, layers, loom, mutants, tidy};

pub(crate) fn run(workspace: &Workspace) -> Result {
    let tree = Tree::read(&workspace.root)?;
    part::run_all(workspace, &parts(workspace, &tree))
}

fn parts(workspace: &Workspace, tree: &Tree) -> Vec<Part> {
    let mut parts = vec![tidy::part(), layers::part(), fmt()];
    parts.extend(clippy(workspace));
    parts.push(docs());
    parts.extend(example_server(workspace));
    parts.push(cargo("test", "test --workspace"));
    parts.extend(workspace.packages.iter().flat_map(alone));
    parts.extend(compat::parts(workspace));
    parts.extend(loom::parts(workspace, tree));
    parts.extend(mutants::parts(tree));
    parts
}

fn fmt() -> Part {
    cargo("fmt", "fmt --all -- --check")
}

fn clippy(workspace: &Workspace) -> impl Iterator<Item = Part> {
    let all = cargo("clippy", "clippy --workspace --all-targets -- -D warnings");
    let bare = workspace.packages.iter().filter(|p| p.default_features);
    let bare = bare.map(|Package { name, .. }| {
        let line = format!("clippy -p {name} --no-default-features --all-targets -- -D warnings");
        cargo(&format!("clippy without features: {name}"), &line)
    });
    std::iter::once(all).chain(bare)
}

fn docs() -> Part {
    let doc = CommandLine::new("cargo doc --workspace --no-deps");
    Part::command("docs", doc.env("RUSTDOCFLAGS", "-D warnings"))
}

/// The tests of the whole start this program from the target directory; cargo
/// builds it for them only where their own package has it.
fn example_server(workspace: &Workspace) -> Option<Part> {
    let package = workspace.package("evcore-httpd")?;
    let has_it = package.bins.iter().any(|bin| bin == "httpd");
    has_it.then(|| cargo("httpd", "build -p evcore-httpd --bin httpd"))
}

/// A crate by itself, as its users build it and as its authors test it; and
/// without its default features, if it has any.
///
/// The check without tests is not implied by the tests: they bring
/// dev-dependencies, whose features unify with those of what ships.
///
/// Nobody uses an unpublished one by itself: that it builds is enough, since
/// its tests have run with the workspace's.
fn alone(package: &Package) -> Vec<Part> {
    let name = &package.name;
    let part = |what: &str, line: &str| cargo(&format!("{what}: {name}"), line);
    if !package.published {
        return vec![part("build alone", &format!("test -p {name} --no-run"))];
    }
    let mut parts = vec![
        part("check alone", &format!("check -p {name}")),
        part("test alone", &format!("test -p {name}")),
    ];
    if package.default_features {
        let bare = format!("-p {name} --no-default-features");
        parts.push(part("check without features", &format!("check {bare}")));
        parts.push(part("test without features", &format!("test {bare}")));
    }
    parts
}

fn cargo(name: &str, args: &str) -> Part {
    Part::command(name, CommandLine::new(&format!("cargo {args}")))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names() -> Vec<String> {
        let evcore = Package {
            default_features: true,
            ..Package::made_up("evcore")
        };
        let httpd = Package {
            published: false,
            bins: vec!["httpd".to_owned()],
            ..Package::made_up("evcore-httpd")
        };
        let tests = Package {
            published: false,
            ..Package::made_up("evcore-tests")
        };
        let workspace =
            Workspace::made_up(vec![evcore, Package::made_up("evcore-token"), httpd, tests]);
        let tree = Tree::made_up(&[
            ("crates/evcore-token/tests/loom_table.rs", ""),
            ("tests/mutants/early_timers.mutant", ""),
        ]);
        let parts = parts(&workspace, &tree);
        parts.iter().map(|part| part.name.clone()).collect()
    }

    #[test]
    fn the_parts_come_in_order_of_cost() {
        assert_eq!(
            names(),
            [
                "tidy",
                "layers",
                "fmt",
                "clippy",
                "clippy without features: evcore",
                "docs",
                "httpd",
                "test",
                "check alone: evcore",
                "test alone: evcore",
                "check without features: evcore",
                "test without features: evcore",
                "check alone: evcore-token",
                "test alone: evcore-token",
                "build alone: evcore-httpd",
                "build alone: evcore-tests",
                "compat: fmt",
                "compat: clippy",
                "compat: test",
                "loom: evcore-token",
                "mutant: early_timers",
            ]
        );
    }
}
