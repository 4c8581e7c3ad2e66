//! The first example of each README, as a newcomer pastes it: as `src/main.rs` of a new package
//! with the dependencies that the README's `cargo add` lines name.
//!
//! The doctests run the examples, but rustdoc adds what a file would lack: hidden lines, a `main`,
//! and every dependency of the crate.

use std::fs;

use crate::Result;
use crate::command::run_attended;
use crate::tidy::pattern;
use crate::workspace::{Package, Workspace, dir, published, target_dir};

const MANIFEST: &str = "[workspace]\nresolver = \"3\"\nmembers = [\"*\"]\n";

pub(crate) fn check(workspace: &Workspace) -> Result {
    let root = target_dir(workspace, "readmes");
    let pasted = format!("{root}/pasted");
    if fs::exists(&pasted)? {
        fs::remove_dir_all(&pasted)?;
    }
    for package in published(workspace) {
        let readme = fs::read_to_string(format!("{}/README.md", dir(package, workspace)))?;
        let (manifest, program) = paste(package, workspace, &readme)?;
        let package = format!("{pasted}/{}", package.name);
        fs::create_dir_all(format!("{package}/src"))?;
        fs::write(format!("{package}/Cargo.toml"), manifest)?;
        fs::write(format!("{package}/src/main.rs"), program)?;
    }
    fs::write(format!("{pasted}/Cargo.toml"), MANIFEST)?;
    // The other dependencies have the versions with which the workspace is tested.
    fs::copy("Cargo.lock", format!("{pasted}/Cargo.lock"))?;
    run_attended(&format!(
        "CARGO_TARGET_DIR={root} cargo check --offline --workspace --manifest-path {pasted}/Cargo.toml"
    ))
}

fn paste(package: &Package, workspace: &Workspace, readme: &str) -> Result<(String, String)> {
    let name = &package.name;
    let example = pattern(r"(?s)\n```rust[\w,]*\n(.*?)```").captures(readme);
    let example = example.ok_or(format!("the README of {name} has no example"))?;
    let program = example[1].to_owned();
    if !program.contains("\nfn main()") {
        return Err(format!("the first example in the README of {name} has no `fn main()`").into());
    }
    let mut manifest = format!(
        "[package]\nname = \"readme-of-{name}\"\nversion = \"0.0.0\"\nedition = \"2024\"\n\n[dependencies]\n"
    );
    let added = pattern(r"cargo add --path \.\./evcore/(crates/([\w-]+))`");
    for found in added.captures_iter(readme) {
        let path = format!("{}/{}", workspace.workspace_root, &found[1]);
        manifest += &format!("{} = {{ path = \"{path}\" }}\n", &found[2]);
    }
    Ok((manifest, program))
}
