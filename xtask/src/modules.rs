//! Rules about the modules of a published crate. A module imports a name from the module that
//! defines it, never through the crate's `lib.rs`, and modules do not import each other in a
//! circle.
//!
//! A module is a file next to `lib.rs`, with the files in its directory. Test code is exempt.

use std::collections::{BTreeMap, BTreeSet};

use crate::tidy::{Tree, pattern};
use crate::workspace::{Workspace, dir, published};

/// The circles that are allowed, each with its reason.
const CIRCLES: &[(&str, &str)] = &[];

/// The modules that each module imports.
type Imports = BTreeMap<String, BTreeSet<String>>;

pub(crate) fn faults(tree: &Tree, workspace: &Workspace) -> Vec<String> {
    let mut faults = Vec::new();
    for package in published(workspace) {
        let src = format!("{}/src/", dir(package, workspace));
        let (imports, through_lib) = imports(tree, &src);
        faults.extend(through_lib);
        let circle = circle(&imports);
        let circle: Vec<_> = circle.iter().map(String::as_str).collect();
        let names = circle.join(" ");
        if !names.is_empty() && !CIRCLES.iter().any(|(modules, _)| *modules == names) {
            faults.push(format!("{src}: a circle of modules: {names}"));
        }
    }
    faults
}

/// Returns a fault for each name that a module imports through `lib.rs`.
fn imports(tree: &Tree, src: &str) -> (Imports, Vec<String>) {
    let lib = tree.get(&format!("{src}lib.rs")).map_or("", String::as_str);
    let module = pattern(r"(?m)^\s*(?:pub(?:\([^)]*\))? )?mod (\w+);");
    let modules: BTreeSet<_> = module
        .captures_iter(lib)
        .map(|found| found[1].to_owned())
        .collect();
    let (mut imports, mut faults) = (Imports::new(), Vec::new());
    for (path, text) in tree.iter().filter(|(path, _)| is_shipped(path, src)) {
        let name = path[src.len()..]
            .split(['/', '.'])
            .next()
            .unwrap_or_default();
        for import in imported_modules(&without_tests(text)) {
            if import == name {
                continue;
            }
            if modules.contains(&import) {
                let of_name: &mut BTreeSet<_> = imports.entry(name.to_owned()).or_default();
                of_name.insert(import);
            } else {
                faults.push(format!("{path}: import `{import}` from its module"));
            }
        }
    }
    (imports, faults)
}

fn is_shipped(path: &str, src: &str) -> bool {
    let test = pattern(r"(?:^|[/_])tests?(?:\.rs$|/)");
    let inside = path.strip_prefix(src).unwrap_or_default();
    inside.ends_with(".rs") && inside != "lib.rs" && !test.is_match(inside)
}

/// The text before the module of tests, without comments.
fn without_tests(text: &str) -> String {
    let tests = pattern(r"#\[cfg\((?:all\()?test\b[^\]]*\]\s*(?:#\[[^\]]*\]\s*)*mod \w+ \{");
    let end = tests.find(text).map_or(text.len(), |found| found.start());
    pattern("//[^\n]*")
        .replace_all(&text[..end], "")
        .into_owned()
}

fn imported_modules(text: &str) -> Vec<String> {
    let mut names = Vec::new();
    for after in text.split("crate::").skip(1) {
        match after.strip_prefix('{') {
            None => names.push(word(after)),
            Some(list) => names.extend(items(list)),
        }
    }
    names
}

/// The first word of each item of a list, up to the closing brace of the list.
fn items(list: &str) -> Vec<String> {
    let (mut depth, mut start, mut items) = (0, 0, Vec::new());
    for (at, c) in list.char_indices() {
        match c {
            '{' => depth += 1,
            '}' if depth == 0 => {
                items.push(word(&list[start..at]));
                break;
            }
            '}' => depth -= 1,
            ',' if depth == 0 => {
                items.push(word(&list[start..at]));
                start = at + 1;
            }
            _ => {}
        }
    }
    items.retain(|item| !item.is_empty());
    items
}

fn word(text: &str) -> String {
    let is_word = |c: &char| c.is_alphanumeric() || *c == '_';
    text.trim_start().chars().take_while(is_word).collect()
}

/// The modules that remain when others are removed repeatedly: each that imports no remaining
/// module, and each that no remaining module imports.
fn circle(imports: &Imports) -> BTreeSet<String> {
    let mut left: BTreeSet<String> = imports.keys().cloned().collect();
    loop {
        let imported: BTreeSet<&String> = imports
            .iter()
            .filter(|(name, _)| left.contains(*name))
            .flat_map(|(_, of_name)| of_name)
            .collect();
        let stays = |name: &&String| {
            imports[*name].iter().any(|import| left.contains(import)) && imported.contains(*name)
        };
        let next: BTreeSet<String> = left.iter().filter(stays).cloned().collect();
        if next.len() == left.len() {
            return left;
        }
        left = next;
    }
}

#[test]
fn imports_through_lib_and_circles_are_found() {
    let tree = |files: &[(&str, &str)]| -> Tree {
        let files = files.iter();
        files
            .map(|(path, text)| (format!("c/src/{path}"), (*text).to_owned()))
            .collect()
    };
    let lib = ("lib.rs", "mod a;\npub(crate) mod b;\nmod c;\npub use a::A;");
    let sound = tree(&[
        lib,
        ("a.rs", "use crate::{\n b::{B, sub::D}, c::C};"),
        (
            "b.rs",
            "use crate::c::C;\n// crate::a\n#[cfg(test)]\nmod tests {\nuse crate::a::A;",
        ),
        ("c/deep.rs", "use crate::c::C;"),
        ("c/tests.rs", "use crate::A;"),
    ]);
    let (of_sound, faults) = imports(&sound, "c/src/");
    assert!(faults.is_empty(), "{faults:?}");
    assert!(circle(&of_sound).is_empty(), "{of_sound:?}");
    let unsound = tree(&[
        lib,
        ("a.rs", "use crate::{b::B};"),
        ("b.rs", "fn f() -> crate::c::C {}"),
        ("c.rs", "use crate::{b, A};"),
    ]);
    let (of_unsound, faults) = imports(&unsound, "c/src/");
    assert_eq!(faults, ["c/src/c.rs: import `A` from its module"]);
    let circle: Vec<_> = circle(&of_unsound).into_iter().collect();
    assert_eq!(circle, ["b", "c"]);
}
