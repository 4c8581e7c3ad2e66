//! The workspace's metadata, reduced to what the tasks need.

use std::fs;
use std::path::{Path, PathBuf};

use cargo_metadata::{DependencyKind, Metadata, MetadataCommand, Target};

use crate::Result;

/// The workspace and its members.
#[derive(Clone, Debug)]
pub(crate) struct Workspace {
    pub(crate) root: PathBuf,
    pub(crate) target_dir: PathBuf,
    pub(crate) packages: Vec<Package>,
}

/// A member of the workspace.
#[derive(Clone, Debug, Default)]
pub(crate) struct Package {
    pub(crate) name: String,
    /// Its directory from the root, with `/`.
    pub(crate) dir: String,
    /// Whether it may go to a registry.
    pub(crate) published: bool,
    pub(crate) version: String,
    /// As manifests write it: `1.85`.
    pub(crate) rust_version: String,
    pub(crate) description: String,
    pub(crate) keywords: Vec<String>,
    pub(crate) categories: Vec<String>,
    pub(crate) readme: Option<String>,
    pub(crate) documentation: Option<String>,
    /// Whether it has features that are on unless refused.
    pub(crate) default_features: bool,
    pub(crate) examples: Vec<String>,
    pub(crate) bins: Vec<String>,
    pub(crate) dependencies: Vec<Dependency>,
    /// The text of its manifest: what cargo has resolved does not show what was inherited.
    pub(crate) manifest: String,
}

/// A line of a manifest's dependencies.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Dependency {
    pub(crate) name: String,
    pub(crate) kind: DependencyKind,
    /// The platform it is for, as written: `cfg(evcore_loom)`.
    pub(crate) target: Option<String>,
    /// Whether a version is required.
    pub(crate) versioned: bool,
}

impl Workspace {
    /// Reads it from cargo. Needs no network, because only the members are listed.
    ///
    /// # Errors
    ///
    /// That cargo cannot read the workspace.
    pub(crate) fn load() -> Result<Workspace> {
        let metadata = MetadataCommand::new().no_deps().exec()?;
        let root = metadata.workspace_root.clone().into_std_path_buf();
        let packages = packages(&metadata, &root)?;
        Ok(Workspace {
            target_dir: metadata.target_directory.into_std_path_buf(),
            root,
            packages,
        })
    }

    /// The members that may go to a registry.
    pub(crate) fn published(&self) -> impl Iterator<Item = &Package> {
        self.packages.iter().filter(|package| package.published)
    }

    pub(crate) fn package(&self, name: &str) -> Option<&Package> {
        self.packages.iter().find(|package| package.name == name)
    }

    /// A target directory of one task's own, inside the common one.
    pub(crate) fn own_target_dir(&self, task: &str) -> String {
        let dir = self.target_dir.join(task);
        let from_root = dir.strip_prefix(&self.root).unwrap_or(&dir);
        from_root.display().to_string()
    }
}

impl Package {
    /// The path of its manifest from the root.
    pub(crate) fn manifest_path(&self) -> String {
        format!("{}/Cargo.toml", self.dir)
    }
}

impl Dependency {
    /// Whether only tests and examples use it.
    pub(crate) fn is_dev(&self) -> bool {
        self.kind == DependencyKind::Development
    }
}

fn packages(metadata: &Metadata, root: &Path) -> Result<Vec<Package>> {
    let packages = metadata.workspace_packages().into_iter();
    packages.map(|package| reduced(package, root)).collect()
}

fn reduced(package: &cargo_metadata::Package, root: &Path) -> Result<Package> {
    let manifest = package.manifest_path.as_std_path();
    let dir = manifest.parent().unwrap_or(root).strip_prefix(root)?;
    Ok(Package {
        name: package.name.clone(),
        dir: dir.display().to_string(),
        published: package.publish.as_ref().is_none_or(|to| !to.is_empty()),
        version: package.version.to_string(),
        rust_version: rust_version(package),
        description: package.description.clone().unwrap_or_default(),
        keywords: package.keywords.clone(),
        categories: package.categories.clone(),
        readme: package.readme.as_ref().map(ToString::to_string),
        documentation: package.documentation.clone(),
        default_features: package.features.contains_key("default"),
        examples: names(package, Target::is_example),
        bins: names(package, Target::is_bin),
        dependencies: package.dependencies.iter().map(dependency).collect(),
        manifest: fs::read_to_string(manifest)?,
    })
}

fn rust_version(package: &cargo_metadata::Package) -> String {
    let version = package.rust_version.as_ref();
    version.map_or_else(String::new, |v| format!("{}.{}", v.major, v.minor))
}

/// The names of a package's targets of one kind.
fn names(package: &cargo_metadata::Package, is_kind: fn(&Target) -> bool) -> Vec<String> {
    let targets = package.targets.iter().filter(|target| is_kind(target));
    targets.map(|target| target.name.clone()).collect()
}

fn dependency(dependency: &cargo_metadata::Dependency) -> Dependency {
    Dependency {
        name: dependency.name.clone(),
        kind: dependency.kind,
        target: dependency.target.as_ref().map(ToString::to_string),
        versioned: !dependency.req.comparators.is_empty(),
    }
}

#[cfg(test)]
impl Workspace {
    pub(crate) fn fake(packages: Vec<Package>) -> Workspace {
        Workspace {
            root: PathBuf::from("/made-up"),
            target_dir: PathBuf::from("/made-up/target"),
            packages,
        }
    }
}

#[cfg(test)]
impl Package {
    /// A published crate without a diagnostic.
    pub(crate) fn fake(name: &str) -> Package {
        Package {
            name: name.to_owned(),
            dir: format!("crates/{name}"),
            published: true,
            version: "0.1.0".to_owned(),
            rust_version: "1.85".to_owned(),
            description: format!("What {name} is."),
            keywords: vec!["key".to_owned()],
            categories: vec!["os".to_owned()],
            readme: Some("README.md".to_owned()),
            documentation: Some("https://docs.rs/it".to_owned()),
            ..Package::default()
        }
    }

    pub(crate) fn needs(mut self, dependency: Dependency) -> Package {
        self.dependencies.push(dependency);
        self
    }
}

#[cfg(test)]
impl Dependency {
    pub(crate) fn normal(name: &str) -> Dependency {
        Dependency {
            name: name.to_owned(),
            kind: DependencyKind::Normal,
            target: None,
            versioned: true,
        }
    }

    pub(crate) fn dev(name: &str) -> Dependency {
        Dependency {
            kind: DependencyKind::Development,
            versioned: false,
            ..Dependency::normal(name)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn this_workspace_is_read_as_its_manifests_say() {
        let workspace = Workspace::load().unwrap();
        let xtask = workspace.package("xtask").unwrap();
        assert_eq!((xtask.dir.as_str(), xtask.published), ("xtask", false));
        assert!(xtask.manifest.starts_with("[package]"));
        let evcore = workspace.package("evcore").unwrap();
        assert_eq!(
            (evcore.dir.as_str(), evcore.published),
            ("crates/evcore", true)
        );
        assert!(evcore.default_features);
        let clock = workspace.package("evcore-clock").unwrap();
        assert!(clock.default_features);
    }

    #[test]
    fn an_own_target_directory_is_named_from_the_root() {
        let workspace = Workspace::fake(Vec::new());
        assert_eq!(workspace.own_target_dir("loom"), "target/loom");
    }
}
