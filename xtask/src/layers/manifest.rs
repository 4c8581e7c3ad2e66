//! What each manifest must contain, read from its text.
//!
//! Cargo's metadata gives values with all inheritance resolved, so whether a value was inherited has
//! to be read. What is read is the plain form that our manifests have, a key a line.

use crate::diagnostic::Diagnostic;
use crate::workspace::Package;

/// Lines of `[package]` and of `[lints]` that are the same for all members: version, edition, licence
/// and lints are decided once, in the root.
const INHERITED: &[(&str, &str)] = &[
    ("package", "version.workspace = true"),
    ("package", "edition.workspace = true"),
    ("package", "rust-version.workspace = true"),
    ("package", "license.workspace = true"),
    ("lints", "workspace = true"),
];

pub(super) fn the_common_fields_are_inherited(package: &Package) -> Vec<Diagnostic> {
    let missing = INHERITED.iter().filter(|(section, wanted)| {
        !lines(&package.manifest).any(|(_, it, line)| it == *section && line == *wanted)
    });
    let what = missing.map(|(section, line)| format!("say `{line}` in [{section}]"));
    what.map(|what| Diagnostic::of(package.manifest_path(), what))
        .collect()
}

/// All versions are in the root's `[workspace.dependencies]`.
pub(super) fn versions_come_from_the_workspace(package: &Package) -> Vec<Diagnostic> {
    let broken = lines(&package.manifest).filter(|(_, section, line)| {
        let Some((key, value)) = line.split_once('=') else {
            return false;
        };
        let inherits = key.trim().ends_with(".workspace") && value.trim() == "true"
            || value.contains("workspace = true");
        let by_path = section.ends_with("dev-dependencies") && value.contains("path =");
        let has_version = value.contains("version");
        // `[dependencies.name]`: each of its lines would be half a dependency.
        section.contains("dependencies.")
            || section.ends_with("dependencies") && (has_version || !(inherits || by_path))
    });
    let what = "inherit it from the workspace: `NAME.workspace = true`";
    broken
        .map(|(number, ..)| Diagnostic::at(package.manifest_path(), number, what))
        .collect()
}

/// A registry shows these, and people search by them.
pub(super) fn a_published_crate_describes_itself(package: &Package) -> Vec<Diagnostic> {
    let fields = [
        ("description", !package.description.is_empty()),
        ("keywords", !package.keywords.is_empty()),
        ("categories", !package.categories.is_empty()),
        ("documentation", package.documentation.is_some()),
        ("readme", package.readme.is_some()),
    ];
    let missing = fields.iter().filter(|(_, is_there)| !is_there);
    let what = missing.filter(|_| package.published);
    what.map(|(field, _)| Diagnostic::of(package.manifest_path(), format!("a {field} is missing")))
        .collect()
}

/// The keys with their values, each with its number and its section. Comments, and what continues a
/// value, are left out.
fn lines(manifest: &str) -> impl Iterator<Item = (usize, &str, &str)> {
    let mut section = "";
    (1..)
        .zip(manifest.lines())
        .filter_map(move |(number, line)| {
            if let Some(header) = line.strip_prefix('[') {
                section = header.trim_end().trim_end_matches(']');
            }
            // A key starts its line; an indented line continues a value.
            let starts = line.starts_with(|first: char| first.is_alphanumeric() || first == '"');
            starts.then_some((number, section, line))
        })
}

#[cfg(test)]
mod tests {
    use super::*;

    const SOUND: &str = r#"
[package]
version.workspace = true
edition.workspace = true
rust-version.workspace = true
license.workspace = true

[lints]
workspace = true

[dependencies]
# Why.
libc.workspace = true
rustix = { workspace = true, features = ["net"] }

[dev-dependencies]
evcore-prefork = { path = "../evcore-prefork" }
"#;

    fn reported(from: &str, to: &str) -> usize {
        assert!(SOUND.contains(from));
        let package = Package {
            manifest: SOUND.replace(from, to),
            ..Package::fake("evcore-token")
        };
        the_common_fields_are_inherited(&package).len()
            + versions_come_from_the_workspace(&package).len()
    }

    #[test]
    fn what_is_not_inherited_is_reported() {
        assert_eq!(reported("", ""), 0);
        for (_, line) in INHERITED {
            assert_eq!(reported(&format!("\n{line}"), "\nx = 1"), 1, "{line}");
        }
        for (from, to) in [
            ("libc.workspace = true", "libc = \"0.2\""),
            ("libc.workspace = true", "libc = { git = \"https://x\" }"),
            ("libc.workspace = true", "libc = { path = \"../libc\" }"),
            (
                "path = \"../evcore-prefork\"",
                "version = \"1\", path = \"..\"",
            ),
            ("[dependencies]\n# Why.\nlibc.", "[dependencies.libc]\n"),
        ] {
            assert!(reported(from, to) > 0, "{to}");
        }
    }

    #[test]
    fn a_published_crate_without_its_fields_is_reported() {
        let bare = Package {
            description: String::new(),
            keywords: Vec::new(),
            documentation: None,
            ..Package::fake("evcore-token")
        };
        assert_eq!(a_published_crate_describes_itself(&bare).len(), 3);
        let private = Package {
            published: false,
            ..bare
        };
        assert!(a_published_crate_describes_itself(&private).is_empty());
    }
}
