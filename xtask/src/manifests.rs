//! What each manifest must contain.
//!
//! Cargo's metadata has values with all inheritance resolved, so whether a value was inherited is
//! read from the text. What is read is the plain form that our manifests have, a key a line.

use std::fs;

use crate::workspace::{Package, is_published};

/// Lines that all members have: version, edition, licence and lints are decided once, in the root.
const INHERITED: [&str; 5] = [
    "version.workspace = true",
    "edition.workspace = true",
    "rust-version.workspace = true",
    "license.workspace = true",
    "[lints]\nworkspace = true",
];

pub(crate) fn faults(package: &Package) -> Vec<String> {
    match fs::read_to_string(&package.manifest_path) {
        Ok(text) => [inheritance(&text), description(package)].concat(),
        Err(error) => vec![error.to_string()],
    }
}

/// Values and versions that do not come from the root.
fn inheritance(manifest: &str) -> Vec<String> {
    let missing = INHERITED
        .iter()
        .filter(|it| !manifest.contains(&format!("\n{it}\n")));
    let mut faults: Vec<String> = missing.map(|it| format!("`{it}` is missing")).collect();
    let mut section = "";
    for line in manifest.lines() {
        if line.starts_with('[') {
            section = line.trim_end_matches(']');
        }
        // A key starts its line; an indented line continues a value.
        let is_key = line.starts_with(char::is_alphanumeric);
        let by_path = section.ends_with("dev-dependencies") && line.contains("path =");
        let inherits = line.contains("workspace = true") || by_path;
        let is_own = is_key && (!inherits || line.contains("version"));
        // `[dependencies.name]`: each of its lines would be half a dependency.
        if section.contains("dependencies.") || section.ends_with("dependencies") && is_own {
            faults.push(format!("`{line}`: inherit it: `NAME.workspace = true`"));
        }
    }
    faults
}

/// What a registry shows of a published crate, and people search by.
fn description(package: &Package) -> Vec<String> {
    let fields = [
        ("description", package.description.is_none()),
        ("keywords", package.keywords.is_empty()),
        ("categories", package.categories.is_empty()),
        ("documentation", package.documentation.is_none()),
        ("readme", package.readme.is_none()),
    ];
    let missing = fields
        .iter()
        .filter(|(_, missing)| *missing && is_published(package));
    missing
        .map(|(field, _)| format!("`{field}` is missing"))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_not_inherited_is_reported() {
        let sound = "[package]\nversion.workspace = true\nedition.workspace = true\n\
                     rust-version.workspace = true\nlicense.workspace = true\n\n[lints]\n\
                     workspace = true\n\n[dependencies]\n# Why.\nlibc.workspace = true\n\
                     rustix = { workspace = true, features = [\n    \"net\",\n] }\n\n\
                     [dev-dependencies]\nevcore-prefork = { path = \"../evcore-prefork\" }\n";
        assert_eq!(inheritance(sound), [""; 0]);
        for (from, to) in [
            ("\nversion.workspace = true", "\nversion = \"1.2.3\""),
            ("\n[lints]\nworkspace = true", "\n[lints]\nrust.x = 1"),
            ("libc.workspace = true", "libc = \"0.2\""),
            ("libc.workspace = true", "libc = { git = \"https://x\" }"),
            ("libc.workspace = true", "libc = { path = \"../libc\" }"),
            ("{ path = ", "{ version = \"1\", path = "),
            ("[dependencies]\n# Why.\nlibc.", "[dependencies.libc]\n"),
        ] {
            let broken = sound.replace(from, to);
            assert!(broken != sound && !inheritance(&broken).is_empty(), "{to}");
        }
    }

    #[test]
    fn a_published_crate_without_its_fields_is_reported() {
        let packages = crate::workspace::load().unwrap().packages;
        let token = packages.iter().find(|it| it.name == "evcore-token");
        let mut package = token.unwrap().clone();
        (package.description, package.documentation) = (None, None);
        package.keywords.clear();
        assert_eq!(faults(&package).len(), 3);
        package.publish = Some(Vec::new());
        assert!(faults(&package).is_empty());
    }
}
