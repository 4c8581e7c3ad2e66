//! What each manifest must say, read from its text.
//!
//! Cargo's metadata gives values with all inheritance resolved, so whether a
//! value was inherited has to be read. What is read is the plain form that
//! our manifests have, a key a line; any other form is reported.

use crate::diagnostic::Diagnostic;
use crate::workspace::Package;

/// Fields of `[package]` that are the same for all members.
const INHERITED: &[&str] = &["version", "edition", "rust-version", "license"];

/// Version, edition, licence and lints are decided once, in the root.
pub(super) fn the_common_fields_are_inherited(package: &Package) -> Vec<Diagnostic> {
    let inherits = |section: &str, key: &str| {
        lines(&package.manifest)
            .any(|line| line.section == section && line.key == key && line.value == "true")
    };
    let mut diagnostics = Vec::new();
    for field in INHERITED {
        if !inherits("package", &format!("{field}.workspace")) {
            let what = format!("say `{field}.workspace = true` in [package]");
            diagnostics.push(Diagnostic::of(package.manifest_path(), what));
        }
    }
    if !inherits("lints", "workspace") {
        let what = "say `workspace = true` in [lints]";
        diagnostics.push(Diagnostic::of(package.manifest_path(), what));
    }
    diagnostics
}

/// All versions are in the root's `[workspace.dependencies]`.
pub(super) fn versions_come_from_the_workspace(package: &Package) -> Vec<Diagnostic> {
    lines(&package.manifest)
        .filter(Line::breaks_the_form_of_a_dependency)
        .map(|line| {
            let what = format!(
                "say `{}.workspace = true`, with the version in the root's manifest",
                line.key.trim_end_matches(".workspace")
            );
            Diagnostic::at(package.manifest_path(), line.number, what)
        })
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
    missing
        .filter(|_| package.published)
        .map(|(field, _)| Diagnostic::of(package.manifest_path(), format!("a {field} is missing")))
        .collect()
}

/// A `key = value` of a manifest, with the section that it is in.
#[derive(Debug)]
struct Line<'a> {
    number: usize,
    section: &'a str,
    key: &'a str,
    value: &'a str,
}

impl Line<'_> {
    fn breaks_the_form_of_a_dependency(&self) -> bool {
        // `[dependencies]`, or `[target."...".dependencies]`.
        let among_dependencies = self.section.ends_with("dependencies");
        // `[dependencies.name]`: each of its lines would be half a dependency.
        let of_one = self.section.contains("dependencies.");
        let versioned = self.value.starts_with('"') || self.value.contains("version");
        let inherited = self.key.ends_with(".workspace") && self.value == "true"
            || self.value.contains("workspace = true");
        let by_path = self.section.ends_with("dev-dependencies") && self.value.contains("path =");
        of_one || among_dependencies && (versioned || !(inherited || by_path))
    }
}

/// The keys and values of a manifest. Comments, and what continues a value, are left out.
fn lines(manifest: &str) -> impl Iterator<Item = Line<'_>> {
    let mut section = "";
    (1..)
        .zip(manifest.lines())
        .filter_map(move |(number, text)| {
            if let Some(header) = text.strip_prefix('[') {
                section = header.trim_end().trim_end_matches(']');
            }
            // A key starts its line; an indented line continues a value.
            let starts = text.starts_with(|first: char| first.is_alphanumeric() || first == '"');
            let (key, value) = text.split_once('=').filter(|_| starts)?;
            Some(Line {
                number,
                section,
                key: key.trim(),
                value: value.trim(),
            })
        })
}

#[cfg(test)]
mod tests {
    use super::*;

    const SOUND: &str = r#"
[package]
name = "evcore-token"
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

[target."cfg(evcore_loom)".dependencies]
loom.workspace = true

[dev-dependencies]
evcore-prefork = { path = "../evcore-prefork" }
"#;

    fn with(from: &str, to: &str) -> Package {
        assert!(SOUND.contains(from));
        Package {
            manifest: SOUND.replace(from, to),
            ..Package::fake("evcore-token")
        }
    }

    #[test]
    fn a_sound_manifest_has_no_diagnostic() {
        let sound = with("", "");
        assert!(the_common_fields_are_inherited(&sound).is_empty());
        assert!(versions_come_from_the_workspace(&sound).is_empty());
        assert!(a_published_crate_describes_itself(&sound).is_empty());
    }

    #[test]
    fn each_common_field_must_be_inherited() {
        for field in INHERITED {
            let own = with(
                &format!("\n{field}.workspace = true"),
                &format!("\n{field} = \"1\""),
            );
            assert_eq!(the_common_fields_are_inherited(&own).len(), 1, "{field}");
        }
        let no_lints = with("[lints]\nworkspace = true", "");
        assert_eq!(the_common_fields_are_inherited(&no_lints).len(), 1);
    }

    #[test]
    fn a_version_outside_the_root_is_reported_with_its_line() {
        for (from, to) in [
            ("libc.workspace = true", "libc = \"0.2\""),
            ("libc.workspace = true", "libc = { version = \"0.2\" }"),
            ("libc.workspace = true", "libc = { path = \"../libc\" }"),
            ("libc.workspace = true", "libc = { git = \"https://x\" }"),
            ("loom.workspace = true", "loom = \"0.7\""),
            (
                "path = \"../evcore-prefork\"",
                "version = \"1\", path = \"..\"",
            ),
            (
                "[dependencies]\n# Why.\nlibc.",
                "[dependencies.libc]\n# Why.\n",
            ),
        ] {
            let diagnostics = versions_come_from_the_workspace(&with(from, to));
            assert!(!diagnostics.is_empty(), "{to}");
        }
        let diagnostics =
            versions_come_from_the_workspace(&with("libc.workspace = true", "libc = \"1\""));
        assert!(
            diagnostics[0]
                .to_string()
                .starts_with("crates/evcore-token/Cargo.toml:14: ")
        );
    }

    #[test]
    fn a_published_crate_without_its_fields_is_reported_each() {
        let bare = Package {
            description: String::new(),
            keywords: Vec::new(),
            categories: Vec::new(),
            readme: None,
            ..Package::fake("evcore-token")
        };
        assert_eq!(a_published_crate_describes_itself(&bare).len(), 4);
        let private = Package {
            published: false,
            ..bare
        };
        assert!(a_published_crate_describes_itself(&private).is_empty());
    }
}
